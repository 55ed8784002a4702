"""streamlink moves models of any size between the sites of federated learning.

**A model is never a blob.** It is a *spec* (ordered tensors: name, dtype, shape), a *source* that
gives the bytes of any range when asked, and a *sink* that takes them. All tensors laid end to end
form one logical byte line; a chunk is a range of it. Transfer, integrity, storage and aggregation
work on such ranges, so what a process holds is a window of chunks, whatever the model's size.

    source → chunks → SendStream ──wire──▶ ReceiveStream → sink      an aggregator is a sink,
                            ◀── acks, credit, repairs ──             an executor is sink and source

These names are what a program usually needs; namespaces have the rest, by subject:

``streamlink.model``     specs, and the protocols of sources, sinks and stores
``streamlink.stores``    arrays, torch modules, safetensors and compressed files
``streamlink.aggregators`` how updates become the new model
``streamlink.schedules`` facts that change from round to round
``streamlink.filters``   functions that change a model on its way
``streamlink.rounds``    scatter and gather, reports and events
``streamlink.executors`` what a client does with a model
``streamlink.link``      servers, clients and transfers below the rounds
``streamlink.objects``   objects by reference, for frameworks that embed this
``streamlink.probing``   measures a line, proposes settings for it, forecasts a round
``streamlink.config``    every setting
``streamlink.errors``    every exception
``streamlink.metrics``   Prometheus, and the events of rounds as lines of JSON
``streamlink.tensorboard`` curves for TensorBoard
``streamlink.progress``  progress bars
``streamlink.fleet``     a server and its clients as processes of one machine
``streamlink.testing``   what tests of your own program need
"""

from streamlink_fl import warn_of_clash

TYPE_CHECKING = False  # that of ``typing`` takes longer to import than all there is here
if TYPE_CHECKING:
    from streamlink import aggregators as aggregators
    from streamlink import config as config
    from streamlink import errors as errors
    from streamlink import executors as executors
    from streamlink import filters as filters
    from streamlink import fleet as fleet
    from streamlink import link as link
    from streamlink import metrics as metrics
    from streamlink import model as model
    from streamlink import objects as objects
    from streamlink import probing as probing
    from streamlink import progress as progress
    from streamlink import rounds as rounds
    from streamlink import schedules as schedules
    from streamlink import stores as stores
    from streamlink import tensorboard as tensorboard
    from streamlink import testing as testing
    from streamlink.public import *  # noqa: F403
    from streamlink.public import __all__ as __all__
else:
    # The names are imported when the first is asked for: a command that is interrupted in its first
    # second has to have come further than this by then. A namespace is imported by itself.
    _NAMESPACES = (
        "aggregators",
        "config",
        "errors",
        "executors",
        "filters",
        "fleet",
        "link",
        "metrics",
        "model",
        "objects",
        "probing",
        "progress",
        "rounds",
        "schedules",
        "stores",
        "tensorboard",
        "testing",
    )

    def __getattr__(name):
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module  # `from streamlink import` would ask here again

        if name in _NAMESPACES:
            return import_module(f"streamlink.{name}")
        return getattr(import_module("streamlink.public"), name)

    def __dir__():
        return sorted({*globals(), *_NAMESPACES, *__getattr__("__all__")})


__version__ = "0.1.0"

warn_of_clash()
