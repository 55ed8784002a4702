"""What both ends say to each other: state machines without I/O.

Every machine takes frames and the time, and returns frames, events and its next deadline. None
blocks, starts a thread, reads a clock or knows what a tensor is: ``transport`` does the first
three, and ``link`` knows the model. A machine outlives the call that carries it.

A chunk passes ``sender`` and ``send_buffer`` at one end, ``receiver_chunks`` and ``reassembly`` at
the other. Its ack comes back through ``sender_acks``. ``flow_control`` decides how much may be in
flight. docs/design.md has a line for each module.
"""
