"""``streamlink probe``: measures a line, proposes settings for it, and forecasts a round over it.

In the order of use: ``measure`` asks a server for round trips and models, ``speed`` makes rates of
them, ``measured`` holds the result, ``proposal`` and ``forecast`` are computed from it alone, and
``text`` writes all of it for people and for ``--config``.
"""
