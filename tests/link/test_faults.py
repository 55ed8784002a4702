from __future__ import annotations

import pytest

from streamlink.errors import (
    AbortCode,
    ChecksumError,
    CommunicationTimeout,
    CorruptStore,
    FrameTooLarge,
    ReadTimeout,
    SpecMismatch,
    StoreFull,
    StreamAborted,
    TornModel,
)
from streamlink.link.faults import abort_code

IDLE = {"who": "x", "stream": "s", "seconds": 1.0, "bytes_done": 0}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SpecMismatch("other"), AbortCode.SPEC_MISMATCH),
        (TornModel("torn"), AbortCode.SPEC_MISMATCH),
        (ChecksumError("wrong"), AbortCode.DIGEST_MISMATCH),
        (FrameTooLarge("large"), AbortCode.FRAME_TOO_LARGE),
        (StoreFull("full"), AbortCode.STORE_FAILED),
        (CorruptStore("bad", path="m"), AbortCode.STORE_FAILED),
        (OSError("disk"), AbortCode.STORE_FAILED),
        (ReadTimeout(**IDLE, setting="s"), AbortCode.READ_TIMEOUT),  # type: ignore[arg-type]
        (
            CommunicationTimeout(**IDLE, stage="sending"),  # type: ignore[arg-type]
            AbortCode.COMMUNICATION_TIMEOUT,
        ),
        (StreamAborted(AbortCode.REFUSED, "no", by_peer=False), AbortCode.REFUSED),
        (ValueError("boom"), AbortCode.TASK_FAILED),
        (KeyboardInterrupt(), AbortCode.CANCELLED),
    ],
)
def test_every_error_has_its_code_on_the_wire(error: BaseException, code: AbortCode) -> None:
    assert abort_code(error) is code
