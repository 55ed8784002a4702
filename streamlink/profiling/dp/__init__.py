"""What privacy costs: memory and time of differentially private training under FSDP2.

``streamlink profile dp`` compares three modes on models of Llama3's shape, over several lengths:
``no_dp``, ``ghost_fsdp`` (Opacus' own classes) and ``flash_fsdp`` (ours). From the bottom up:
``norms`` and ``flash`` are the arithmetic, ``modes`` the training step, ``measure`` and ``worker``
one rank of one experiment, ``launch`` all its ranks, ``series`` all experiments, ``summary`` and
``pictures`` what they say. ``site`` trains one client of streamlink privately.

Modules that import torch, Opacus or transformers are imported by the processes that train only.
"""
