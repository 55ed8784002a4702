"""Ask clients without rounds: a model there, a model back, over the server's one port.

python examples/embedding/ask.py
"""

import numpy as np

import streamlink
from streamlink.link import Assignment, ClientLink
from streamlink.model import ModelSpec
from streamlink.stores import ArrayModel, MemoryStore


def serve(assignment: Assignment) -> None:
    """Take the model, and answer with another; the client's side."""
    store, rate = MemoryStore(), float(assignment.metadata["rate"])
    assignment.receive(store)
    answer = {name: array + rate for name, array in store.arrays.items()}
    assignment.answer(answer, metadata={"from": "Zurich"}, metrics={"loss": 0.5})


def into(spec: ModelSpec) -> ArrayModel:
    """Return arrays of our own for an answer of these tensors."""
    return ArrayModel({each.name: np.empty(each.shape, np.float32) for each in spec.tensors})


model, answer = {"w": np.arange(4, dtype=np.float32)}, {"w": np.zeros(4, np.float32)}
with (
    streamlink.Server("127.0.0.1:0") as server,
    ClientLink(server.address, name="site-1", serve=serve),
):
    (peer,) = server.wait_for_peers(1, seconds=60)
    first = peer.ask("add", model, into=answer, metadata={"rate": "1"}, timeout=60)
    second = peer.ask("add", model, into=into, metadata={"rate": "2"})  # both at the same time
    result = first.result()  # or, in asyncio: await first
    print(f"answer: {answer['w'].tolist()} {result.metadata} {result.metrics}")
    second.result()
    print(f"second: {second.progress}")
