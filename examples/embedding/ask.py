"""Ask one client, without rounds: the server sends a model, the client answers with another.

    python examples/embedding/ask.py

runs both ends in this process. A filter doubles each value on the way out; ``on_transfer`` gets the
facts of both transfers; ``cancel`` would end every wait here, from any thread.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

import streamlink
from streamlink.link import Assignment, Attempt, ClientLink, Peer, receive_model, send_model
from streamlink.model import map_model
from streamlink.stores import ArrayModel, MemoryStore


def serve(assignment: Assignment) -> None:
    """Receive the model whole, and answer with a new one; the client's side."""
    store, received = MemoryStore(), assignment.incoming()
    receive_model(received, lambda model: store.begin(model.spec))
    answer = ArrayModel({name: array + 1 for name, array in store.arrays.items()})
    sent = assignment.outgoing(answer.spec)
    send_model(sent, answer)
    assignment.reply()
    assignment.close(received, sent)


def ask(peer: Peer, source: streamlink.ModelSource, answer: MemoryStore) -> None:
    """Send ``source`` to a client, and receive its answer; the server's side."""
    exchange = peer.request("add", source.spec, attempt=Attempt("example", round=1, attempt=1))
    with ThreadPoolExecutor(1) as pool:  # both directions move at once
        sending = pool.submit(send_model, exchange.outgoing, source)
        receive_model(exchange.incoming, lambda model: answer.begin(model.spec))
        sending.result()
    exchange.wait_reply(60)
    exchange.close()


def tell(facts: streamlink.TransferFacts) -> None:
    """Print the facts of one transfer."""
    print(f"{facts.direction}: {facts.bytes} bytes, {facts.outcome}")


def main() -> None:
    model, answer = ArrayModel({"w": np.arange(4, dtype=np.float32)}), MemoryStore()
    doubled = map_model(model, lambda tensor, start, values: values * 2)
    token = streamlink.CancelToken()  # token.cancel("reason") in any thread
    with (
        streamlink.Server("127.0.0.1:0", cancel=token, on_transfer=tell) as server,
        ClientLink(server.address, name="site-1", serve=serve),
    ):
        (peer,) = server.wait_for_peers(1, 60)
        ask(peer, doubled, answer)
    print(f"answer: {answer.arrays['w'].tolist()}")


if __name__ == "__main__":
    main()
