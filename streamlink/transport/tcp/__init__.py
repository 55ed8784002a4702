"""The TCP carrier: streams alone, over sockets of their own beside the sessions of another carrier.

``carrier`` is what ``connect`` asks for; ``listener`` and ``client`` are the two ends. Each call is
one connection, or several at the client (``lanes``): each is proven first (``proof``, ``opening``),
then carries frames (``stream``) over a plain socket or one with TLS (``sockets``, ``tls``), with
the congestion control that was asked for (``congestion``).
"""
