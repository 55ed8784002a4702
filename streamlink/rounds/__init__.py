"""Scatter a model to its sites, gather what they made of it, and let one new model appear.

``controller`` runs the rounds, ``gather`` is the sink that averages as the updates arrive,
``aggregate`` its arithmetic, ``executor`` the client's side.
"""
