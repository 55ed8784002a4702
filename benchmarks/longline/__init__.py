"""A long line with real TCP on one machine, and what raw sockets and streamlink reach on it.

A relay ends TCP on both sides, and so hides what limits a long line: windows, buffers, and what
congestion control makes of a lost packet. Here two network namespaces are joined by packets.

``bottleneck`` is the line as arithmetic on time; ``namespace`` makes namespaces and TUN devices;
``forwarder`` moves the packets, in a process of its own; ``roads`` starts it for whoever measures.
``meter`` turns bytes that arrived into a steady rate; ``raw`` and ``model`` are the ends that send.
``capacity``, ``reference`` and ``beside`` are the programs.
"""
