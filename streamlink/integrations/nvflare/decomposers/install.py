"""Puts references in the place of FLARE's downloads, when FLARE imports this module.

``to_downloadable`` (what is sent) and ``download`` (what is done on arrival) are FLARE's own
extension points of its NumPy and PyTorch decomposers, but FLARE registers these first and ignores a
second one for a type. So the two methods are replaced on each decomposer at its first use. To be
there at that moment, two methods of their base class are wrapped. PyTorch is not imported for this:
a NumPy job never imports it.

``DRIFT`` is what all of these looked like in the version that this was written for. Another FLARE
is refused, loudly, before a job runs.
"""

from __future__ import annotations

from functools import partial
from importlib.metadata import version
from typing import Any

from nvflare.fuel.f3.mpm import MainProcessMonitor
from nvflare.fuel.f3.streaming.download_service import download_object
from nvflare.fuel.utils import fobs
from nvflare.fuel.utils.fobs import dots
from nvflare.fuel.utils.fobs.decomposers.via_downloader import ViaDownloaderDecomposer

from streamlink import CancelToken
from streamlink.config import parse_size
from streamlink.errors import ModelError
from streamlink.integrations.drift import drift
from streamlink.integrations.nvflare import sides
from streamlink.integrations.nvflare.riding import ReferenceDownloadable, reference_consumer
from streamlink.integrations.tensors import NUMPY, TORCH, StoredTensor, in_memory, whole

__all__ = ["DRIFT", "StoredTensorDecomposer", "install"]

_DOTS = {NUMPY: dots.NUMPY_DOWNLOAD, TORCH: dots.TENSOR_DOWNLOAD}
_KINDS = {dot: kind for kind, dot in _DOTS.items()}

DRIFT = {
    "_create_downloadable": "fobs_ctx",
    "_download_from_remote_cell": "fobs_ctx, ref",
    "to_downloadable": "items, max_chunk_size, fobs_ctx",
    "download": "from_fqcn, ref_id, per_request_timeout, cell, secure, optional, abort_signal, "
    "progress_cb",
    "download_object": "from_fqcn, ref_id, per_request_timeout, cell, consumer, secure, optional, "
    "abort_signal, max_retries, progress_cb, progress_interval",
}
"""The parameters of what is replaced or called, as in FLARE 2.9.0."""


class StoredTensorDecomposer(fobs.Decomposer):
    """Lets FLARE's own decomposers take tensors that are stored; what arrives are arrays."""

    def supported_type(self) -> type:
        """Return the type that FLARE meets in a message."""
        return StoredTensor

    def decompose(self, target: StoredTensor, manager: Any = None) -> Any:
        """Hand it to FLARE's decomposer of its kind; whole where there is no message (a file)."""
        handler = fobs.get_dot_handler(_DOTS[target.kind])
        context = manager.fobs_ctx
        is_message = context.get(fobs.FOBSContextKey.CELL) and not context.get("native")
        data = handler.decompose(target if is_message else target.materialize(), manager)
        return {**data, "kind": target.kind}

    def recompose(self, data: Any, manager: Any = None) -> Any:
        """Return the array or tensor that has arrived."""
        return fobs.get_dot_handler(_DOTS[data["kind"]]).recompose(data, manager)


def install() -> None:
    """Wrap the base class of FLARE's decomposers.

    Raises:
        ImportError: FLARE has changed, or a setting cannot be used. FLARE itself would swallow most
            other errors here.
    """
    found = {name: getattr(ViaDownloaderDecomposer, name, None) for name in DRIFT}
    if differences := drift({**found, "download_object": download_object}, DRIFT):
        raise ImportError(
            f"streamlink was written for NVIDIA FLARE 2.9.0, and {version('nvflare')} differs: "
            f"{'; '.join(differences)}. Install nvflare==2.9.0, or unset "
            "NVFLARE_NVFLARE_DECOMPOSERS to run without streamlink"
        )
    sides.check()
    for name in ("_create_downloadable", "_download_from_remote_cell"):
        _wrap(name, getattr(ViaDownloaderDecomposer, name))
    MainProcessMonitor.add_cleanup_cb(sides.close_all)


def _wrap(name: str, own: Any) -> None:
    def wrapped(handler: Any, *arguments: Any) -> Any:
        _replace(handler)
        return own(handler, *arguments)

    setattr(ViaDownloaderDecomposer, name, wrapped)


def _replace(handler: Any) -> None:
    kind = _KINDS.get(handler.get_download_dot())
    if kind is not None and "download" not in vars(handler):  # an instance; once
        handler.to_downloadable = partial(_downloadable, handler.to_downloadable)
        handler.download = partial(_download, kind)


def _downloadable(own: Any, items: dict[str, Any], max_chunk_size: int, fobs_ctx: Any) -> Any:
    """Return what is sent: ours where it can be, else what FLARE's ``own`` makes of the items."""

    def as_flare_does() -> Any:
        return own(in_memory(items), max_chunk_size, fobs_ctx)

    try:
        source = whole(items)
    except ModelError:  # such as an array of texts, which is no fault
        return as_flare_does()
    is_small = source.spec.nbytes < parse_size(sides.setting("min_bytes"))
    if is_small or (side := sides.side_of(fobs_ctx[fobs.FOBSContextKey.CELL])) is None:
        return as_flare_does()
    return ReferenceDownloadable(source, side, as_flare_does)


def _download(
    kind: str, from_fqcn: str, ref_id: str, per_request_timeout: float, cell: Any, **more: Any
) -> tuple[str | None, Any]:
    context = more.pop("fobs_ctx", None) or cell.get_fobs_context()
    lazy = bool(context.get(fobs.FOBSContextKey.TENSOR_DISK_OFFLOAD))

    def fetch(offer: sides.Offer, cancel: CancelToken) -> Any:
        return sides.join(cell, offer, cancel).fetch(offer, kind, cancel, lazy=lazy)

    consumer = reference_consumer(_own_consumer(kind), fetch)
    download_object(from_fqcn, ref_id, per_request_timeout, cell, consumer, **more)
    return consumer.error, consumer.result


def _own_consumer(kind: str) -> Any:
    if kind == NUMPY:
        from nvflare.app_common.np.np_downloader import ArrayConsumer

        return ArrayConsumer
    from nvflare.app_opt.pt.tensor_downloader import TensorConsumer

    return TensorConsumer


install()
