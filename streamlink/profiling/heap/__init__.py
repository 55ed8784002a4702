"""Where memory goes in a federated job: ``streamlink profile resnet|cifar10|mnist|llm|synthetic``.

``series`` runs a job in several versions, each process under memray and once more without it;
``record`` is what each process leaves behind, and ``analyze`` reads those files.

The analysis, in the order data flows: ``allocations`` (one profile), ``observed`` (one run),
``figures`` (medians), ``comparison`` (versions), ``findings`` and ``recommendations`` (sentences),
then ``tables``, ``drawings``, ``spreadsheets``, ``summaries`` and ``report``. ``formula`` computes
beforehand.
"""
