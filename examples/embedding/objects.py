"""Objects by reference: messages of a few hundred characters, and models beside them.

python examples/embedding/objects.py

A framework of its own kind: its messages (here: function calls) carry text only. The server puts
the model, each site fetches it by its reference, trains, and puts its update; the server averages
the updates tensor by tensor, in a window of memory, whatever their size.
"""

import tempfile

import numpy as np

from streamlink import digest_of
from streamlink.errors import ObjectRefused
from streamlink.objects import ObjectClient, ObjectServer

SITES = ("site-1", "site-2")


def site(client: ObjectClient, message: str, step: float) -> str:
    """Answer a message of the framework; the client's side."""
    trained = {}
    with client.open(message) as model:  # each tensor is fetched when it is touched
        for name in model:
            trained[name] = model[name] + np.float32(step)
    return str(client.put(trained, readers=(), reads=1, ttl=600.0))  # only the server reads it


with tempfile.TemporaryDirectory() as spool, ObjectServer("127.0.0.1:0", spool=spool) as server:
    model = {f"layer.{n}": np.full((256, 256), n, np.float32) for n in range(4)}
    with (
        ObjectClient(server.address, name="site-1") as first,
        ObjectClient(server.address, name="site-2") as second,
    ):
        reference = server.put(model, readers=SITES, reads=2, ttl=600.0)
        message = str(reference)
        print(f"a message of {len(message)} characters for {reference.nbytes} bytes")
        answers = [site(first, message, 1.0), site(second, message, 3.0)]
        with server.open(answers[0]) as one, server.open(answers[1]) as other:
            for name in model:
                model[name] = (one[name] + other[name]) / 2
        print("averaged:", {name: float(array.mean()) for name, array in model.items()})

        arrays = {name: np.zeros_like(array) for name, array in model.items()}
        final = server.put(model, readers=("site-1",))
        receipt = first.get(str(final), into=arrays)
        print("site-1 has the model:", receipt.digest == digest_of(model))
        try:
            second.get(str(final), into=arrays)
        except ObjectRefused as error:
            print("site-2 was refused:", error)
        server.drop(final)
    print(f"the server holds {len(server)} objects")
