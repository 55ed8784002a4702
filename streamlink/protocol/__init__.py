"""What both ends say to each other: state machines without I/O.

Every machine here is fed with frames and the time, and is asked for frames, events and its next
deadline. None blocks, starts a thread, reads a clock or knows what a tensor is; ``transport`` does
the first three and ``link`` the last. A machine outlives the call that carries it.
"""
