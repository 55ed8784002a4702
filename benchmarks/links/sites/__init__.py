"""The two-site job of FLARE's notes, to scale: a near and a far client, 64 keys, three rounds.

``flare`` has what NVIDIA FLARE's notes on large models say of it: their figures. ``cases`` is what
is run and what came of it, ``weights`` the model and the closed form of what the rounds make of it.
``probing`` measures each client's line with the probe and takes the settings from it; ``running``
runs one case, whose processes are in ``bodies``; ``series`` runs all that are left of a plan.
``tables``, ``pictures`` and ``report`` show what is kept and run nothing.
"""
