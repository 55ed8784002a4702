"""Where memory goes in a federated job: ``streamlink profile resnet|cifar10|mnist|llm|synthetic``.

``experiments`` has the settings of each, ``variants`` the versions. ``series`` runs them one after
the other, ``launch`` the processes of one job, ``roles`` one process, which ``capture`` watches: it
writes a ``record``, and memray a profile.

The analysis, in the order data flows: ``allocations`` (one profile), ``observed`` (one run),
``figures`` (medians), ``comparison`` (versions), ``findings`` and ``recommendations`` (sentences),
then ``tables``, ``drawings``, ``spreadsheets``, ``summaries`` and ``report``. ``formula`` computes
beforehand.
"""
