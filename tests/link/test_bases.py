"""Kept versions as the bases of one stream: who keeps what comes, and whose word counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamlink.errors import AbortCode, ChecksumError, StreamAborted
from streamlink.link.bases import Bases
from streamlink.model.digest import digest_of
from streamlink.model.interfaces import ModelSource
from streamlink.model.spec import ModelSpec
from streamlink.stores.memory import MemoryStore
from streamlink.stores.versions import Versions
from tests.support.joined_pumps import Transfer, failure
from tests.support.models import content, float_spec, pattern_model
from tests.support.peers import config

SPEC = float_spec(15_000, 10)
MODEL = pattern_model(SPEC)
DIGEST = digest_of(MODEL)
DELTA = config(stream={"encodings": ("delta",)})


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[tuple[Bases, Bases]]:
    """What two ends have kept: nothing yet."""
    with (
        Versions(tmp_path / "sender", most=2, most_bytes=1 << 24) as sender,
        Versions(tmp_path / "receiver", most=2, most_bytes=1 << 24) as receiver,
    ):
        yield Bases(sender, "job"), Bases(receiver, "job")


def keep(bases: Bases, model: ModelSource = MODEL, *, digest: str = DIGEST) -> None:
    writer = bases.begin(model.spec.digest, model.spec.nbytes)
    assert writer is not None
    writer.add(memoryview(content(model)))
    writer.commit(digest)


@pytest.mark.parametrize("keeps", [True, False])
def test_a_model_is_kept_only_where_its_receiver_keeps_it_too(
    ends: tuple[Bases, Bases], keeps: bool
) -> None:
    """A server keeps no update: else its clients would decide what is on its disk."""
    with Transfer(SPEC, DELTA, bases=(None, ends[1]), keeps=keeps) as transfer:
        transfer.run(MODEL, MemoryStore().begin(SPEC))
    assert ends[1].digests(SPEC.digest) == ((DIGEST,) if keeps else ())


def test_what_is_not_kept_pushes_out_nothing(tmp_path: Path) -> None:
    other = pattern_model(float_spec(20_000, 1))
    with Versions(tmp_path, most=2, most_bytes=other.spec.nbytes) as versions:
        bases = Bases(versions, "job")
        keep(bases, other)
        with Transfer(SPEC, DELTA, bases=(None, bases)) as transfer:
            transfer.run(MODEL, MemoryStore().begin(SPEC))
        assert bases.digests(other.spec.digest) == (DIGEST,)


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_base_that_gave_another_digest_is_used_no_more_with_that_peer(
    ends: tuple[Bases, Bases], is_shared: bool
) -> None:
    """Where it is shared with other peers, they go on with it: this one may be lying."""
    for end in ends:
        keep(end, _wrong(MODEL.spec) if end is ends[1] else MODEL)
    used = [Bases(end.versions, end.owner, doubted=set() if is_shared else None) for end in ends]
    with Transfer(SPEC, DELTA, bases=(used[0], used[1])) as transfer:
        sent, received = transfer.start(MODEL, MemoryStore().begin(SPEC))
        assert isinstance(failure(received), ChecksumError)
        error = failure(sent)
    assert isinstance(error, StreamAborted)
    assert error.code is AbortCode.DIGEST_MISMATCH
    for mine, of_all in zip(used, ends, strict=True):
        assert mine.digests(SPEC.digest) == ()
        assert mine.get(DIGEST, SPEC.digest) is None
        assert of_all.digests(SPEC.digest) == ((DIGEST,) if is_shared else ())


def _wrong(spec: ModelSpec) -> ModelSource:
    """Return another model, which is kept with the digest of the first."""
    return pattern_model(spec, seed=1)
