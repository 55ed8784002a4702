"""The relay of the benchmarks, for tests: a line that can be shaped, broken and counted.

It lives in ``benchmarks``, since programs there must run without the tests.
"""

from benchmarks.relay import UNSHAPED, Counts, Link, Relay, Script, Step

__all__ = ["UNSHAPED", "Counts", "Link", "Relay", "Script", "Step"]
