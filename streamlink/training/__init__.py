"""Training with PyTorch: what a job of APPFL's kind says in YAML, run over streamlink.

``settings`` is what can be set, ``appfl_yaml`` reads it from APPFL's files by one table. ``server``
and ``client`` run one role each. A client's ``executor`` receives into the module that ``models``
made, has ``trainer`` train it on what ``data`` loaded, and sends from the module itself.
``original`` is the same without optimisation: whole messages and deep copies, for comparison.

PyTorch is imported where a model, a batch or a loss is made; a server that streams needs none.
"""
