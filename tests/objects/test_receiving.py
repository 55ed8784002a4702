"""What clients put, where nobody waits for it any more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from streamlink.cancel import CancelToken
from streamlink.copying import digest_of
from streamlink.errors import Cancelled, UnknownObject
from streamlink.model import ModelSource, ModelSpec, TensorSpec
from tests.support.models import pattern_model
from tests.support.objects import Exchange, some_arrays
from tests.support.peers import until

SPEC = ModelSpec((TensorSpec("a", "F32", (100_003,)),))


@pytest.fixture
def exchange(tmp_path: Path) -> Iterator[Exchange]:
    with Exchange(spool=tmp_path / "spool") as made:
        yield made


def folders(tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "spool").glob("*") if path.is_dir()]


def halfway(act: Callable[[], object]) -> Callable[[str, int, int], None]:
    """Return a report of progress that acts once half of the model has been sent."""
    acts = [act]

    def note(phase: str, done: int, total: int) -> None:
        if 2 * done >= total and acts:
            acts.pop()()

    return note


def test_what_one_client_has_put_is_forgotten_and_what_others_have_put_stays(
    exchange: Exchange, tmp_path: Path
) -> None:
    gone = [exchange.client("site-1").put(some_arrays(seed)) for seed in range(2)]
    stays = exchange.client("site-2").put(some_arrays())
    exchange.server.forget("site-1")
    exchange.server.forget("site-1")
    assert len(exchange.server) == len(folders(tmp_path)) == 1
    exchange.server.open(stays).close()
    for reference in gone:
        with pytest.raises(UnknownObject, match="dropped"):
            exchange.server.open(reference)


def test_what_is_read_when_its_client_is_forgotten_stays_until_that_ends(
    exchange: Exchange, tmp_path: Path
) -> None:
    reference = exchange.client().put(some_arrays())
    with exchange.server.open(reference) as source:
        exchange.server.forget("site-1")
        assert digest_of(source) == reference.digest
    assert not folders(tmp_path)


class Known:
    """A model with an identity, as files have: what has arrived of it is kept for the next call."""

    def __init__(self, model: ModelSource) -> None:
        self.spec, self.read, self.close = model.spec, model.read, model.close

    def identity(self) -> str:
        return "known"


def test_the_first_half_of_a_model_is_forgotten_too(exchange: Exchange, tmp_path: Path) -> None:
    token, model = CancelToken(), Known(pattern_model(SPEC))
    with pytest.raises(Cancelled):
        exchange.client().put(model, progress=halfway(token.cancel), cancel=token)
    assert exchange.server.nbytes == SPEC.nbytes
    exchange.server.forget("site-1")
    until(lambda: exchange.server.nbytes == 0 and not folders(tmp_path))


def test_what_arrives_when_its_client_is_forgotten_is_released_once_it_is_here(
    exchange: Exchange, tmp_path: Path
) -> None:
    forget = halfway(lambda: exchange.server.forget("site-1"))
    with pytest.raises(UnknownObject, match="put it again"):
        exchange.client().put(pattern_model(SPEC), progress=forget)
    until(lambda: exchange.server.nbytes == 0 and not folders(tmp_path))
    exchange.client().put(pattern_model(SPEC))
    assert len(exchange.server) == 1


def test_what_is_cut_after_its_client_was_forgotten_is_not_kept(
    exchange: Exchange, tmp_path: Path
) -> None:
    token, model = CancelToken(), Known(pattern_model(SPEC))

    def forget() -> None:
        exchange.server.forget("site-1")
        token.cancel()

    with pytest.raises(Cancelled):
        exchange.client().put(model, progress=halfway(forget), cancel=token)
    until(lambda: exchange.server.nbytes == 0 and not folders(tmp_path))
