"""What tests of a program that embeds streamlink need. It imports no test framework.

A ``GeneratedModel`` is a model of any size that is stored nowhere.
"""

from streamlink.clock import Clock
from streamlink.model import Fill, GeneratedModel

__all__ = ["Clock", "Fill", "GeneratedModel"]
