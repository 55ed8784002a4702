"""Where memory goes in a federated job: ``streamlink profile resnet|cifar10|mnist|llm|synthetic``.

``series`` runs a job in several versions, each process under memray and once more without it;
``record`` is what each process leaves behind, and ``analyze`` reads those files.
"""
