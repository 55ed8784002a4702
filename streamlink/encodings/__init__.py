"""How the bytes of a range may travel: plain, or encoded by a codec that both ends know.

An encoding is one module with one codec, and one line in ``registry``. A codec sees ranges of a
model and the tensors in them; it knows no frame, no stream and no carrier. The sender encodes what
it has read and hashed, the receiver decodes before it hashes and writes: a digest is of the model,
however it travelled.
"""
