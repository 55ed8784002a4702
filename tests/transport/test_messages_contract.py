"""The contract stands: generated code is what it says, and old bytes mean what they meant."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from streamlink.blocks import part_hashes
from streamlink.errors import AbortCode
from streamlink.protocol.frames import Chunk
from streamlink.transport import chunks, messages
from streamlink.transport._generated import streamlink_pb2 as pb
from tests.transport.golden_frames import GOLDEN, SESSION, STREAM, TRANSFER, encoded

ROOT = Path(__file__).parents[2]
GENERATED = Path("streamlink/transport/_generated")


def pinned() -> str:
    """Return the version of grpcio-tools that generates what is committed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    tools = project["optional-dependencies"]["dev"]
    [pin] = [each for each in tools if each.startswith("grpcio-tools==")]
    return str(pin).removeprefix("grpcio-tools==")


@pytest.mark.processes(quick=True)
def test_the_committed_code_is_generated_from_the_contract(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools")
    if (installed := version("grpcio-tools")) != pinned():
        pytest.skip(f"grpcio-tools {installed} is installed, {pinned()} generates: make venv")
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{GENERATED}=proto"]
    command += [f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"]
    subprocess.run([*command, f"{GENERATED}/streamlink.proto"], cwd=ROOT, check=True, timeout=60)
    for name in ("streamlink_pb2.py", "streamlink_pb2.pyi"):
        fresh = (tmp_path / GENERATED / name).read_text("utf-8")
        assert fresh == (ROOT / GENERATED / name).read_text("utf-8"), "run `make proto`"


def test_the_codes_of_an_abort_have_one_number_everywhere() -> None:
    ours = {f"ABORT_CODE_{code.name}": int(code) for code in AbortCode}
    assert ours == dict(pb.AbortCode.items())


@pytest.mark.parametrize("name", TRANSFER)
def test_a_transfer_frame_of_version_1_still_means_the_same(name: str) -> None:
    raw = (GOLDEN / f"{name}.bin").read_bytes()
    assert messages.decode_transfer(raw, 0 if name == "attach" else STREAM) == TRANSFER[name]


@pytest.mark.parametrize("name", SESSION)
def test_a_session_frame_of_version_1_still_means_the_same(name: str) -> None:
    raw = (GOLDEN / f"{name}.bin").read_bytes()
    assert messages.decode_session(raw) == SESSION[name]


@pytest.mark.parametrize("name", [*TRANSFER, *SESSION])
def test_a_peer_of_version_1_understands_what_is_sent_today(name: str) -> None:
    """Equal messages, not equal bytes: protobuf does not promise one layout."""
    kind: Any = pb.TransferFrame if name in TRANSFER else pb.SessionFrame
    assert kind.FromString(encoded(name)) == kind.FromString((GOLDEN / f"{name}.bin").read_bytes())


def test_every_golden_file_belongs_to_a_frame() -> None:
    assert {path.stem for path in GOLDEN.glob("*.bin")} == {*TRANSFER, *SESSION}


@pytest.mark.parametrize("name", [name for name, f in TRANSFER.items() if isinstance(f, Chunk)])
def test_plain_protobuf_reads_a_chunk_that_was_written_by_hand(name: str) -> None:
    chunk = TRANSFER[name]
    assert isinstance(chunk, Chunk)
    message = pb.TransferFrame.FromString((GOLDEN / f"{name}.bin").read_bytes())
    assert message.WhichOneof("frame") == "chunk"
    found = message.chunk
    assert (found.sequence, found.offset) == (chunk.sequence, chunk.offset)
    assert (found.nbytes, found.encoding) == (chunk.nbytes, chunk.encoding)
    assert found.payload == b"".join(chunk.payload)
    parts = part_hashes(chunk.offset, chunk.payload)
    assert found.hash == chunks.chunk_hash(chunk, parts, STREAM)
