"""Objects by reference, which is what frameworks embed.

A framework's message carries a small sealed text, a ``Reference``; the model that it names travels
beside the message. ``ObjectServer`` holds models and gives out references. An ``ObjectClient``
fetches them, whole or tensor by tensor, and puts its own, always dialling out, over one session
that it keeps. See docs/embedding.md.

``reference`` and ``shelf`` are pure: what a reference states, who may still read what, and when
it is released. ``server`` and ``client`` are the shells around them.
"""

from streamlink.config import ObjectLimits
from streamlink.objects.client import ObjectClient, ObjectProgress
from streamlink.objects.opened import OpenObject
from streamlink.objects.readers import Readers
from streamlink.objects.reference import Reference
from streamlink.objects.server import ObjectServer

__all__ = [
    "ObjectClient",
    "ObjectLimits",
    "ObjectProgress",
    "ObjectServer",
    "OpenObject",
    "Readers",
    "Reference",
]
