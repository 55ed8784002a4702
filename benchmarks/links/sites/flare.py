"""What NVIDIA FLARE's own notes on large models say of this job: their figures, and no others.

The source is the page "Large Models" of NVIDIA FLARE's documentation (``large_models.rst``). One
server in Azure west-us, a client in AWS us-west-2 (the near one here) and one in ap-south-1.
"""

from __future__ import annotations

from benchmarks.links.sites.cases import FAR, NEAR

__all__ = ["KEYS", "MEMORY_BYTES", "MODEL_BYTES", "NAME", "SAID", "SECONDS", "SOURCE", "TIMEOUTS"]

NAME = "FLARE's notes"
"""What tables call them."""
SOURCE = 'NVIDIA FLARE, documentation, "Large Models"'
MODEL_BYTES = 128 * 10**9
KEYS = 64
SECONDS = {(NEAR, "down"): 2000, (NEAR, "up"): 2300, (FAR, "down"): 11500, (FAR, "up"): 11000}
"""To transfer the model once, by client and direction; down is from the server (seconds)."""
TIMEOUTS = {
    "streaming_read_timeout": 3000,
    "streaming_ack_wait": 6000,
    "communication_timeout": 6000,
}
"""What they were set to (seconds)."""
SAID = {
    "near": "it took around 2300 seconds to transfer the model from the client to the server and "
    "around 2000 seconds from the server to the client",
    "far": "it took about 11000 seconds from the client to the server and 11500 seconds from the "
    "server to the client",
    "server": "the server could use more than 512GB, ie 128GB * 2 clients * 2 (model and runtime "
    "space); there were a few peaks that reached 700GB or more",
    "clients": "both clients used about 256GB, ie 128GB * 2 (model and runtime space), but at the "
    "end of receiving large models and at the beginning of sending large models, these two clients "
    "required more than 378GB, ie 128GB * 3",
}
"""Its own words."""
MEMORY_BYTES = {
    "server": (512 * 10**9, 700 * 10**9),
    "client": (256 * 10**9, 378 * 10**9),
}
"""Memory most of the time, and in the highest peaks (bytes); at least."""
