"""``streamlink send`` and ``receive``: real processes, some of them killed on their way."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import safetensors.numpy
from typer.testing import CliRunner

from streamlink.cli import app
from streamlink.cli.transfers import outcome
from streamlink.link.transfer import Receipt
from streamlink.model.compare import difference
from streamlink.model.digest import digest_of
from streamlink.protocol.stats import StreamStats
from streamlink.stores import CompressedSource, SafetensorsStore, open_model
from streamlink.stores.safetensors.index import INDEX_NAME, ShardIndex
from tests.support.commands import Command
from tests.support.disk import flip, names_in
from tests.support.dying import command, dying, wait_stopped
from tests.support.models import arrays_of, content, float_spec, pattern_model, save
from tests.support.ports import KeptPort

MiB = 1 << 20
SPEC = float_spec(5, 3 * MiB // 2, 700_001)
TOTAL = SPEC.nbytes
SMALL = ("--chunk-bytes", "64KiB", "--window-bytes", "256KiB")
"""Small enough that what has left the sender is nearly all at the receiver."""

ABSENT = "127.0.0.1:1"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    save(SafetensorsStore(tmp_path / "source"), pattern_model(SPEC))
    return tmp_path / "source"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "target"


@pytest.fixture
def address() -> Iterator[str]:
    """An address for a receiver that comes back to it."""
    port = KeptPort()
    yield port.address
    port.close()


@dataclass(frozen=True)
class Told:
    """What a command printed of a transfer. Bytes."""

    moved: int
    before: int
    digest: str


def told(ended: Command) -> Told:
    assert ended.end() == 0, ended.log
    found = re.search(
        r": (\d+) bytes(?: in [0-9.e-]+ s, [0-9.e+]+ MB/s)?(?:, after (\d+) that were there)?\n"
        r"digest ([0-9a-f]{64})\n$",
        ended.output,
    )
    assert found, ended.output
    return Told(int(found[1]), int(found[2] or 0), found[3])


def receive(target: Path, address: str, *options: object) -> Command:
    return command("receive", target, "--listen", address, *SMALL, *options)


def send(source: Path, address: str, *options: object) -> Command:
    return command("send", source, address, *SMALL, *options)


def check(source: Path, target: Path, sent: Told, received: Told) -> None:
    assert sent.digest == received.digest == digest_of(open_model(source))
    assert (sent.moved, sent.before) == (received.moved, received.before)
    assert sent.moved + sent.before == TOTAL
    assert not list(difference(open_model(source), open_model(target)))
    assert names_in(target) == {INDEX_NAME, *ShardIndex.read(target).files}


def killed(process: Command) -> None:
    process.end()
    assert process.process.returncode == -signal.SIGKILL, process.log


# --- it works -------------------------------------------------------------------------------


@pytest.mark.processes
def test_a_model_is_copied_and_replaces_the_one_that_was_there(
    source: Path, target: Path, address: str
) -> None:
    save(SafetensorsStore(target), pattern_model(float_spec(9)))
    with receive(target, address) as receiver, send(source, address, "--name", "me") as sender:
        receiver.until("← me: a model begins")
        check(source, target, told(sender), told(receiver))


@pytest.mark.processes
def test_a_model_is_copied_over_a_unix_socket(source: Path, target: Path, tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/socket"
    with receive(target, address) as receiver:
        receiver.until(f"listening on {address} ")
        with send(source, address, "--name", "me") as sender:
            check(source, target, told(sender), told(receiver))
    assert not (tmp_path / "socket").exists()


@pytest.mark.processes
def test_a_receiver_reports_the_port_it_took_wherever_it_names_its_address(
    source: Path, target: Path
) -> None:
    words = ("receive", target, "--listen", "127.0.0.1:0", "--timeout")
    with command(*words, 0.1) as alone:
        address = alone.until(r"listening on (127\.0\.0\.1:[1-9]\d*) ")[1]
        assert alone.end() == 1
        assert f"no sender came to {address} within 0.1 s" in alone.log
    with command(*words, 3600) as receiver:
        address = receiver.until(r"listening on (127\.0\.0\.1:[1-9]\d*) ")[1]
        with command("status", "--store", target) as asked:
            assert asked.end() == 0, asked.log
        assert f"listens on {address}; " in asked.output
        with send(source, address) as sender:
            assert told(sender).digest == told(receiver).digest


@pytest.mark.processes
def test_without_retry_a_refused_connection_is_the_end(source: Path) -> None:
    patient = ("--set", "timeouts.connect_timeout=3600")  # what a second try would take
    with send(source, ABSENT, "--retry", 0, *patient) as sender:
        assert sender.end() == 1
        assert "retrying" not in sender.log
        assert f"error: no server answers at {ABSENT}; is it running" in sender.log


@pytest.mark.processes
def test_it_may_be_stored_compressed(source: Path, tmp_path: Path, address: str) -> None:
    with receive(tmp_path / "t.slz", address) as receiver, send(source, address) as sender:
        assert told(sender).digest == told(receiver).digest
    assert isinstance(open_model(tmp_path / "t.slz"), CompressedSource)


# --- it goes on -----------------------------------------------------------------------------


@pytest.mark.processes
@pytest.mark.parametrize("count", [35, 125])
def test_a_receiver_that_is_killed_and_started_again_goes_on(
    source: Path, target: Path, address: str, count: int
) -> None:
    words = ("receive", target, "--listen", address, *SMALL)
    with dying("pwrite", count, *words) as first, send(source, address) as sender:
        killed(first)
        with pytest.raises(OSError, match="no safetensors model"):
            open_model(target)
        with receive(target, address) as second:
            sent = told(sender)
            check(source, target, sent, told(second))
    assert sent.before >= MiB


@pytest.mark.processes
@pytest.mark.parametrize("count", [3, 9])
def test_a_sender_that_is_killed_and_started_again_goes_on(
    source: Path, target: Path, address: str, count: int
) -> None:
    with receive(target, address) as receiver:
        with dying("preadv", count, "send", source, address, *SMALL) as first:
            killed(first)
        with send(source, address) as second:
            sent = told(second)
        check(source, target, sent, told(receiver))
    assert sent.before >= (count - 2) * MiB - MiB


@pytest.mark.processes
def test_both_may_be_killed_again_and_again(source: Path, target: Path, address: str) -> None:
    for count in (35, 60):
        words = ("receive", target, "--listen", address, *SMALL)
        with dying("pwrite", count, *words) as receiver, send(source, address) as sender:
            killed(receiver)
            sender.interrupt(signal.SIGKILL)
            sender.end()
    with receive(target, address) as receiver, send(source, address) as sender:
        sent = told(sender)
        check(source, target, sent, told(receiver))
    assert sent.before >= 4 * MiB


@pytest.mark.processes
def test_a_receiver_that_is_interrupted_keeps_what_came(
    source: Path, target: Path, address: str
) -> None:
    with (
        receive(target, address, "--log-level", "debug") as first,
        dying("preadv", 6, "send", source, address, *SMALL) as sender,
    ):
        killed(sender)
        first.until(f" {4 * MiB} bytes are durable")
        first.interrupt()
        assert first.end() == 130
    with receive(target, address) as second, send(source, address) as sender:
        sent = told(sender)
        check(source, target, sent, told(second))
    assert sent.before >= 4 * MiB


@pytest.mark.processes
def test_files_of_another_tool_go_on_as_long_as_they_are_not_written_again(
    tmp_path: Path, target: Path, address: str
) -> None:
    file = tmp_path / "m.safetensors"
    arrays = arrays_of(SPEC, content(pattern_model(SPEC)))
    safetensors.numpy.save_file(arrays, file)
    with receive(target, address) as receiver:
        with dying("preadv", 60, "send", file, address, *SMALL) as first:
            killed(first)
        with send(file, address) as second:
            sent = told(second)
        assert told(receiver).digest == sent.digest == digest_of(open_model(file))
    assert sent.before >= MiB


@pytest.mark.processes
def test_a_changed_byte_in_what_was_kept_is_found(source: Path, target: Path, address: str) -> None:
    with dying("pwrite", 90, "receive", target, "--listen", address, *SMALL) as receiver:
        with send(source, address) as sender:
            killed(receiver)
            sender.interrupt(signal.SIGKILL)
            sender.end()
        flip(next(target.glob("*.part")), 2 * MiB)
    with receive(target, address) as receiver:
        with send(source, address) as sender:
            sent = told(sender)
        check(source, target, sent, told(receiver))
        assert "so the transfer starts from the beginning" in receiver.log
    assert sent.before == 0


# --- it does not ----------------------------------------------------------------------------


@pytest.mark.processes
def test_a_second_sender_is_refused_in_words(source: Path, target: Path, address: str) -> None:
    words = ("send", source, address, *SMALL, "--name", "first")
    with receive(target, address) as receiver, dying("preadv", 5, *words, by="STOP") as first:
        wait_stopped(first)
        with send(source, address, "--retry", 0) as second:
            assert second.end() == 1
            assert f"{address} takes no model: it is busy with a model from first" in second.log
        first.interrupt(signal.SIGCONT)
        check(source, target, told(first), told(receiver))


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["send", "absent", ABSENT], 2, "there is no model here"),
        (["send", "m", "nowhere"], 2, "the address 'nowhere' is not of the form HOST:PORT or"),
        (["send", "m", "unix:"], 2, "the address 'unix:' names no socket; write unix:PATH"),
        (["send", "m", "unix:no/s"], 2, "the address 'unix:no/s': there is no directory no"),
        (["send", "m", ABSENT, "--retry", "-1"], 2, "--retry must be finite and not negative"),
        (["send", "m", ABSENT, "--retry", "0"], 1, "no server answers at 127.0.0.1:1; is it run"),
        (["receive", "t", "--listen", "unix:m"], 2, "cannot listen on unix:m"),
        (["receive", "t", "--listen", "x"], 2, "--listen 'x' is not of the form HOST:PORT"),
        (["receive", "t", "--timeout", "nan"], 2, "--timeout must be finite and not negative"),
        (["receive", "t", "--compress", "lzma"], 2, "--compress is none or zstd, not 'lzma'"),
        (["receive", "t.safetensors"], 2, "name a directory"),
        (["receive", "t", "--timeout", "0.1", "--listen", "127.0.0.1:0"], 1, "no sender came to"),
        (["serve", "absent"], 2, "there is no model here"),
        (["serve", "m", "--count", "0"], 2, "--count must be positive, not 0"),
        (["serve", "m", "--fetchers", "0"], 2, "--fetchers must be positive, not 0"),
        (["serve", "m", "--listen", "x"], 2, "--listen 'x' is not of the form HOST:PORT"),
        (["serve", "m", "--timeout", "0.1", "--listen", "127.0.0.1:0"], 1, "nobody fetched from"),
        (["fetch", "nowhere", "t"], 2, "the address 'nowhere' is not of the form HOST:PORT or"),
        (["fetch", ABSENT, "t", "--retry", "0"], 1, "no server answers at 127.0.0.1:1; is it run"),
        (["fetch", ABSENT, "t.safetensors"], 2, "name a directory"),
        (
            ["receive", "t", "--insecure", "--listen", "192.0.2.1:8470"],
            2,
            "cannot listen on 192.0.2.1:8470",
        ),
    ],
)
def test_what_is_wrong_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    code: int,
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    save(SafetensorsStore(tmp_path / "m"), pattern_model(float_spec(9)))
    result = CliRunner().invoke(app, [*words, "--set", "timeouts.connect_timeout=0.2"])
    errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert (result.exit_code, len(errors)) == (code, 1), result.stderr
    assert sentence in errors[0]
    assert names_in(tmp_path) == {"m"}


# --- what is said of it -----------------------------------------------------------------------

MOVED = StreamStats(
    total_bytes=1000, sent_bytes=1000, received_bytes=1000, consumed_bytes=1000,
    chunks=4, repairs=0, resent_bytes=0,
    resumes=1, window_bytes=0, chunk_bytes=0, rate=0.0,
    moving_seconds=0.0125, moving_bytes=25_000,
)  # fmt: skip


@pytest.mark.parametrize(
    ("stats", "resumed_at", "line"),
    [
        (MOVED, 0, "x: 1000 bytes in 0.0125 s, 2 MB/s"),
        (MOVED, 400, "x: 600 bytes in 0.0125 s, 2 MB/s, after 400 that were there"),
        (replace(MOVED, moving_seconds=0.0), 0, "x: 1000 bytes"),
    ],
)
def test_the_rate_is_told_over_the_time_in_which_bytes_moved(
    stats: StreamStats, resumed_at: int, line: str
) -> None:
    receipt = Receipt("d1", 3600.0, stats, resumed_at=resumed_at)
    assert outcome("x", receipt) == f"{line}\ndigest d1"
