"""The server's side of the rounds: scatter a model to the clients, aggregate their updates.

``controller`` runs the rounds, ``ledger`` records which are done. ``aggregate`` turns updates into
the new model; ``lockstep`` does so while they arrive, ``spool`` after it has stored them.
"""
