"""What a client does with a model: one module for each executor, and the ``Client`` that runs it.

``executor`` defines the seam (``Executor``, ``Task``, ``TaskResult``), ``streaming`` computes range
by range as the model arrives, ``whole`` trains a model in memory, ``ondisk`` in a directory.
"""
