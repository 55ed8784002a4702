"""PyTorch tensors as a model.

``model`` is the source and sink, ``tensors`` examines tensors, ``staging`` copies those that are on
a device or strided. PyTorch is an optional dependency: nothing outside this folder imports it, and
this folder is imported only by programs that have tensors already.
"""

from streamlink.stores.torch.model import TorchModel

__all__ = ["TorchModel"]
