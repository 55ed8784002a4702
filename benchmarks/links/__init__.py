"""What a model transfer reaches over lines of a given rate, delay and loss, beside its peers.

``lines`` describes a line, ``places`` stands one up and counts its bytes, ``accuracy`` measures the
line itself with a raw socket. ``payload`` is the model; ``ends`` is what each of the two processes
of a peer is given, and ``peers/`` has one module for each way to move the model. ``measuring`` runs
one case, ``series`` all that are left of a plan, ``kept`` is the file of raw results, and
``failures`` tells which cases are tried again. ``tables``, ``savings``, ``sizes``, ``goals``,
``pictures`` and ``page`` show what is kept and run nothing.
``sites`` is a job of rounds with a near and a far client, ``programs`` runs other programs of
``benchmarks`` part by part, and ``theirs`` the benchmark of another project beside ours.
``numbers`` makes one table of all numbers to reach. ``sources`` tells which files a program
depends on.
"""
