"""Threads, sockets and the clock: what drives the machines of ``protocol`` over a carrier."""
