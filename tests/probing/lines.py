"""Lines that were never measured, for what is computed from them."""

from __future__ import annotations

from hypothesis import strategies as st

from streamlink.probing.lanes import LEAST_GAIN
from streamlink.probing.measured import Measured, RoundTrips
from streamlink.probing.speed import Speed

__all__ = ["a_line", "lines"]


def a_line(
    rate: float = 12.5e6, round_trip: float = 0.05, *, gain: float = 1.0, gap: float = 0.0
) -> Measured:
    """A symmetric line of ``rate`` bytes a second, of which several connections carry ``gain``."""

    def speed(times: float) -> Speed:
        return Speed(times * rate, 2 * round_trip, rate * 0.9, rate * 1.1, gap, 5.0, int(5 * rate))

    trips = RoundTrips(round_trip, round_trip, round_trip, 10)
    return Measured(
        address="server:8517",
        carrier="tcp",
        is_encrypted=False,
        idle=trips,
        loaded=RoundTrips(round_trip, 2 * round_trip, 3 * round_trip, 10),
        down=speed(1.0),
        up=speed(1.0),
        down_both=speed(1.0),
        up_both=speed(1.0),
        several=4,
        down_several=speed(gain),
        up_several=speed(gain),
        down_both_several=speed(gain) if gain >= LEAST_GAIN else None,
        up_both_several=speed(gain) if gain >= LEAST_GAIN else None,
        lost_connections=0,
        seconds=30.0,
        nbytes=int(30 * rate),
    )


def lines() -> st.SearchStrategy[Measured]:
    """Lines from 1 kB/s to 10 GB/s, from loopback to a satellite."""
    return st.builds(
        a_line,
        st.floats(1e3, 1e10),
        st.floats(1e-5, 2.0),
        gain=st.floats(0.5, 8.0),
        gap=st.floats(0.0, 30.0),
    )
