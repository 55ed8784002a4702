"""streamlink moves models of any size between the sites of federated learning.

**A model is never a blob.** It is a *spec* (ordered tensors: name, dtype, shape), a *source* that
gives the bytes of any range when asked, and a *sink* that takes them. All tensors laid end to end
form one logical byte line; a chunk is a range of it. Transfer, integrity, storage and aggregation
work on such ranges, so what a process holds is a window of chunks, whatever the model's size.

    source → chunks → SendStream ──wire──▶ ReceiveStream → sink      an aggregator is a sink,
                            ◀── acks, credit, repairs ──             an executor is sink and source

Reading order: ``model`` (what is moved), ``stores`` (where it lives), ``protocol`` (what both ends
say, without I/O), ``transport`` (threads, sockets, the clock), ``link`` (one model over one
stream), ``rounds`` (scatter and gather). Import from here; ``streamlink.errors`` has every
exception.
"""

from streamlink_fl import warn_of_clash

TYPE_CHECKING = False  # that of ``typing`` takes longer to import than all there is here
if TYPE_CHECKING:
    from streamlink import errors as errors
    from streamlink.public import *  # noqa: F403
    from streamlink.public import __all__ as __all__
else:
    # The names are imported when the first is asked for: a command that is interrupted in its first
    # second has to have come further than this by then.

    def __getattr__(name):
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module  # `from streamlink import` would ask here again

        if name == "errors":
            return import_module("streamlink.errors")
        return getattr(import_module("streamlink.public"), name)

    def __dir__():
        return sorted({*globals(), *__getattr__("__all__")})


__version__ = "0.1.0"

warn_of_clash()
