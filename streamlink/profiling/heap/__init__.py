"""Where memory goes in a federated job: ``streamlink profile resnet|cifar10|mnist|llm|synthetic``.

``experiments`` has the settings of each, ``variants`` the versions. ``series`` runs them one after
the other, ``launch`` the processes of one job, ``roles`` one process, which ``capture`` watches: it
writes a ``record``, and memray a profile. ``analyze`` reads both.
"""
