"""The MPI carrier: a server and its clients as processes of one MPI job.

``carrier`` is what ``transport/connect.py`` asks of it. Below that: ``client`` and ``server``, the
two ends; ``calls``, one call as either end sees it; ``switchboard``, which finds the call of a
message; ``tags``, what a message is; ``buffers``, memory for payloads. MPI itself is called in
``transport/ranks.py`` alone.
"""
