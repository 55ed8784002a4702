"""Frames to bytes and back: nothing is lost, nothing wrong gets through, nothing else is raised."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise

import pytest
import xxhash
from hypothesis import example, given
from hypothesis import strategies as st

from streamlink.errors import AbortCode, RemoteProtocolError
from streamlink.extent import Extent
from streamlink.protocol import frames as f
from streamlink.protocol.frames import Chunk
from streamlink.transport import messages
from streamlink.transport._generated import streamlink_pb2 as pb
from streamlink.transport.chunks import CHUNK_HEADER_BYTES
from streamlink.transport.framing import DamagedFrame
from tests.transport.golden_frames import SESSION, TRANSFER

u32, u64 = st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 64) - 1)


def a_chunk(nbytes: int = 100, **changes: int) -> f.Chunk:
    fields = {"sequence": 3, "offset": 4096, "encoding": 1, "nbytes": nbytes + 9, **changes}
    payload = (memoryview(bytes(i % 251 for i in range(nbytes))),) if nbytes else ()
    sequence, offset = fields["sequence"], fields["offset"]
    return f.Chunk(sequence, offset, payload, fields["encoding"], fields["nbytes"])


def decoded(raw: bytes, stream_id: int = 7) -> f.Chunk:
    chunk = messages.decode_transfer(raw, stream_id)
    assert isinstance(chunk, f.Chunk)
    return chunk


def sealed(body: bytes, seed: int, number: int = 0) -> bytes:
    """Return a frame's bytes with the check that another implementation would add."""
    check = xxhash.xxh3_64_intdigest(struct.pack("<Q", number) + body, seed=seed)
    return body + pb.TransferFrame(check=check).SerializeToString()


def by_protobuf(chunk: f.Chunk, digest: int) -> bytes:
    """Return a chunk's frame as another implementation would lay it out."""
    message = pb.TransferFrame(
        chunk=pb.Chunk(
            sequence=chunk.sequence,
            offset=chunk.offset,
            nbytes=chunk.nbytes,
            encoding=chunk.encoding,
            hash=digest,
            payload=b"".join(chunk.payload),
        )
    )
    return message.SerializeToString()


# --- chunks -------------------------------------------------------------------------------


@given(u64, u64, u32, u32, st.binary(max_size=300), u64, st.integers(0, 300))
@example(0, 0, 0, 0, b"", 0, 0)
def test_any_chunk_comes_back_as_it_was(
    sequence: int,
    offset: int,
    encoding: int,
    nbytes: int,
    body: bytes,
    stream_id: int,
    cut: int,
) -> None:
    views = tuple(view for view in (memoryview(body)[:cut], memoryview(body)[cut:]) if view.nbytes)
    sent = f.Chunk(sequence, offset, views, encoding, nbytes)
    raw = messages.encode_transfer(sent, stream_id)
    chunk = decoded(raw, stream_id)
    assert chunk.is_intact
    assert (chunk.sequence, chunk.offset) == (sequence, offset)
    assert (chunk.encoding, chunk.nbytes, chunk.wire_bytes) == (encoding, nbytes, len(body))
    assert b"".join(chunk.payload) == body


@pytest.mark.parametrize("nbytes", [1, 127, 128, 16_383, 16_384, 1 << 20, (1 << 21) + 1])
def test_a_payload_begins_at_an_aligned_place_and_is_read_in_place(nbytes: int) -> None:
    raw = messages.encode_transfer(a_chunk(nbytes), 7)
    assert len(raw) == CHUNK_HEADER_BYTES + nbytes
    assert CHUNK_HEADER_BYTES % 16 == 0
    (view,) = decoded(raw).payload
    assert view.obj is raw
    assert view == raw[CHUNK_HEADER_BYTES:]


def test_the_hash_is_the_one_the_contract_describes() -> None:
    header = struct.pack("<QQIII", 3, 4096, 14, 1, 5)
    parts = xxhash.xxh3_128_digest(bytes(range(5)))
    expected = xxhash.xxh3_64_intdigest(header + parts, seed=7)
    assert hash_in(messages.encode_transfer(a_chunk(5), 7)) == expected


@pytest.mark.parametrize("encoding", [0, 1])
def test_a_payload_is_hashed_in_parts_that_end_where_the_blocks_of_the_model_end(
    encoding: int,
) -> None:
    chunk = a_chunk((2 << 20) + 5, offset=(1 << 20) - 3, encoding=encoding)
    body = b"".join(chunk.payload)
    ends = (0, 3, (1 << 20) + 3, (2 << 20) + 3, len(body))
    parts = [xxhash.xxh3_128_digest(body[start:end]) for start, end in pairwise(ends)]
    header = struct.pack("<QQIII", 3, chunk.offset, chunk.nbytes, encoding, len(body))
    expected = xxhash.xxh3_64_intdigest(header + b"".join(parts), seed=7)
    assert hash_in(messages.encode_transfer(chunk, 7)) == expected


def hash_in(raw: bytes) -> int:
    return int(pb.TransferFrame.FromString(raw).chunk.hash)


def test_a_chunk_laid_out_otherwise_may_have_been_any_frame() -> None:
    chunk = a_chunk(100)
    with pytest.raises(DamagedFrame, match="may have been a chunk"):
        decoded(by_protobuf(chunk, hash_in(messages.encode_transfer(chunk, 7))))


@pytest.mark.parametrize("nbytes", [0, 1, 100])
def test_a_wrong_hash_is_told_and_not_raised_where_it_is_surely_a_chunk(nbytes: int) -> None:
    raw = bytearray(messages.encode_transfer(a_chunk(nbytes), 7))
    raw[7] ^= 1  # in its sequence
    assert not decoded(bytes(raw)).is_intact


@given(st.integers(0, 99), st.integers(0, 7))
def test_any_flipped_bit_of_a_payload_is_caught(at: int, bit: int) -> None:
    raw = bytearray(messages.encode_transfer(a_chunk(100), 7))
    raw[CHUNK_HEADER_BYTES + at] ^= 1 << bit
    assert not decoded(bytes(raw)).is_intact


def flipped(raw: bytes) -> Iterator[bytes]:
    """Yield ``raw`` with each of its bits wrong in turn."""
    for at in range(8 * len(raw)):
        damaged = bytearray(raw)
        damaged[at // 8] ^= 1 << at % 8
        yield bytes(damaged)


@pytest.mark.parametrize("nbytes", [0, 1, 150])
def test_no_flipped_bit_of_a_chunk_passes(nbytes: int) -> None:
    for raw in flipped(messages.encode_transfer(a_chunk(nbytes), 7)):
        with suppress(DamagedFrame):
            assert not decoded(raw).is_intact


@pytest.mark.parametrize("frame", [f for f in TRANSFER.values() if not isinstance(f, Chunk)])
def test_no_flipped_bit_of_a_transfer_frame_passes(frame: f.TransferFrame) -> None:
    for raw in flipped(messages.encode_transfer(frame, 7, 3)):
        with pytest.raises(DamagedFrame):
            messages.decode_transfer(raw, 7, 3)


@pytest.mark.parametrize("frame", SESSION.values(), ids=SESSION)
def test_no_flipped_bit_of_a_session_frame_passes(frame: f.SessionFrame) -> None:
    for raw in flipped(messages.encode_session(frame, 3)):
        with pytest.raises(DamagedFrame):
            messages.decode_session(raw, 3)


def test_the_check_is_the_one_the_contract_describes() -> None:
    body = pb.TransferFrame(repair=pb.Repair(sequence=9)).SerializeToString()
    check = xxhash.xxh3_64_intdigest(struct.pack("<Q", 3) + body, seed=7)
    assert messages.encode_transfer(f.Repair(9), 7, 3) == body + struct.pack("<BQ", 0x79, check)
    assert pb.TransferFrame.FromString(messages.encode_transfer(f.Repair(9), 7, 3)).check == check


def test_a_frame_of_another_stream_or_out_of_its_turn_is_damage() -> None:
    raw = messages.encode_transfer(f.Repair(9), 7, 3)
    for place in ((8, 3), (7, 4)):
        with pytest.raises(DamagedFrame, match="check is wrong"):
            messages.decode_transfer(raw, *place)
    with pytest.raises(DamagedFrame, match="check is wrong"):
        messages.decode_session(messages.encode_session(f.Heartbeat(1), 3), 4)


def test_a_chunk_of_another_stream_is_not_intact() -> None:
    assert not decoded(messages.encode_transfer(a_chunk(), 7), stream_id=8).is_intact


@pytest.mark.parametrize("nbytes", [1, 47, 100, 147, 149])
def test_a_chunk_of_another_length_than_it_says_is_damage(nbytes: int) -> None:
    raw = messages.encode_transfer(a_chunk(100), 7) + bytes(10)
    with pytest.raises(DamagedFrame):
        messages.decode_transfer(raw[:nbytes], 7)


# --- all frames ---------------------------------------------------------------------------


@pytest.mark.parametrize("frame", TRANSFER.values(), ids=TRANSFER)
def test_a_transfer_frame_comes_back_as_it_was(frame: f.TransferFrame) -> None:
    seed = 0 if isinstance(frame, f.Attach) else 7
    assert messages.decode_transfer(messages.encode_transfer(frame, 7, 5), seed, 5) == frame


@pytest.mark.parametrize("frame", SESSION.values(), ids=SESSION)
def test_a_session_frame_comes_back_as_it_was(frame: f.SessionFrame) -> None:
    assert messages.decode_session(messages.encode_session(frame)) == frame


@given(st.binary(max_size=200))
@example(b"")
@example(b"\x0a" * 60)
def test_arbitrary_bytes_are_a_frame_or_our_error(raw: bytes) -> None:
    with suppress(DamagedFrame):
        messages.decode_transfer(raw, 7)
    with suppress(DamagedFrame):
        messages.decode_session(raw)
    for decode, place in ((messages.decode_transfer, (7, 0)), (messages.decode_session, (0,))):
        with suppress(RemoteProtocolError):  # as a peer says it that computes the check rightly
            with suppress(DamagedFrame):  # begins as a chunk, which has no check
                decode(sealed(raw, place[0] if len(place) > 1 else 0), *place)


@given(st.sampled_from([*TRANSFER.values()]), st.data())
def test_a_frame_with_damaged_bytes_is_a_frame_or_our_error(
    frame: f.TransferFrame, data: st.DataObject
) -> None:
    raw = bytearray(messages.encode_transfer(frame, 7))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    with suppress(DamagedFrame, RemoteProtocolError):
        messages.decode_transfer(bytes(raw), 7)
    with suppress(DamagedFrame, RemoteProtocolError):
        messages.decode_transfer(sealed(bytes(raw[:-9]), 7), 7)


@pytest.mark.parametrize("raw", [b"", b"\xfa\x07\x00"])
def test_a_frame_of_a_kind_we_do_not_know_is_refused(raw: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="unknown kind"):
        messages.decode_transfer(sealed(raw, 7), 7)
    with pytest.raises(RemoteProtocolError, match="unknown kind"):
        messages.decode_session(sealed(raw, 0))


def test_a_field_of_a_newer_peer_is_ignored() -> None:
    raw = pb.Ack(received=1, consumed=1, durable=0, limit=9).SerializeToString() + b"\xf8\x07\x01"
    framed = b"\x12" + bytes([len(raw)]) + raw
    assert messages.decode_transfer(sealed(framed, 7), 7) == f.Ack(1, 1, 0, 9)


def test_a_code_of_a_newer_peer_is_read_as_unspecified() -> None:
    raw = pb.TransferFrame(abort=pb.Abort(code=99, reason="new")).SerializeToString()  # type: ignore[arg-type]
    assert messages.decode_transfer(sealed(raw, 7), 7) == f.Abort(AbortCode.UNSPECIFIED, "new")


def test_texts_and_entries_beyond_reason_are_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="70000 characters"):
        messages.decode_transfer(messages.encode_transfer(f.Commit("x" * 70_000), 7), 7)
    metrics = {str(number): 0.0 for number in range(2000)}
    with pytest.raises(RemoteProtocolError, match="2000 entries"):
        messages.decode_transfer(messages.encode_transfer(f.Finish(0, "", metrics), 7), 7)


@given(st.text(max_size=4000))
@example("ä" * 3000)
def test_a_reason_is_cut_to_what_any_message_limit_carries(reason: str) -> None:
    frame = messages.decode_transfer(
        messages.encode_transfer(f.Abort(AbortCode.CANCELLED, reason), 7), 7
    )
    assert isinstance(frame, f.Abort)
    assert reason.startswith(frame.reason)
    assert len(frame.reason.encode()) <= 4096


def test_a_file_name_that_is_no_text_does_not_stop_an_abort_from_leaving() -> None:
    raw = messages.encode_transfer(f.Abort(AbortCode.STORE_FAILED, "no file 'a\udcff'"), 7)
    assert messages.decode_transfer(raw, 7) == f.Abort(AbortCode.STORE_FAILED, "no file 'a?'")


def welcomed(*ports: tuple[str, int]) -> bytes:
    offered = [pb.DataPort(carrier=name, port=port) for name, port in ports]
    frame = pb.SessionFrame(welcome=pb.Welcome(version=1, data_ports=offered))
    return sealed(frame.SerializeToString(), 0)


def test_a_welcome_names_carriers_of_streams_of_any_name() -> None:
    frame = messages.decode_session(welcomed(("tcp", 8518), ("not known yet", 65535)))
    assert isinstance(frame, f.Welcome)
    assert frame.data_ports == (f.DataPort("tcp", 8518), f.DataPort("not known yet", 65535))


def test_a_data_port_may_be_told_by_its_distance_and_with_the_lanes_it_takes() -> None:
    sent = f.Welcome(1, "session", "epoch", 1024, 5.0, data_ports=(f.DataPort("tcp", 8518, 1, 4),))
    assert messages.decode_session(messages.encode_session(sent)) == sent
    offered = pb.DataPort(carrier="tcp", port=8518, above=65536)
    frame = pb.SessionFrame(welcome=pb.Welcome(version=1, data_ports=[offered]))
    with pytest.raises(RemoteProtocolError, match="'tcp' at 8518"):
        messages.decode_session(sealed(frame.SerializeToString(), 0))


@pytest.mark.parametrize(
    ("ports", "why"),
    [
        ([("tcp", 1)] * 9, "9 data ports; the most are 8"),
        ([("", 1)], "a data port that is not valid: '' at 1"),
        ([("x" * 33, 1)], "that is not valid: 'x+' at 1"),
        ([("tcp", 0)], "'tcp' at 0"),
        ([("tcp", 65536)], "'tcp' at 65536"),
    ],
)
def test_data_ports_beyond_reason_are_refused(ports: list[tuple[str, int]], why: str) -> None:
    with pytest.raises(RemoteProtocolError, match=why):
        messages.decode_session(welcomed(*ports))


def test_a_data_key_has_its_length_or_is_not_there() -> None:
    for key in (b"", bytes(range(32))):
        frame = messages.decode_session(messages.encode_session(welcome(key)))
        assert frame == welcome(key)
    with pytest.raises(RemoteProtocolError, match="a data key of 31 bytes; it has 32"):
        messages.decode_session(messages.encode_session(welcome(bytes(31))))


def welcome(key: bytes) -> f.Welcome:
    return f.Welcome(1, "session", "epoch", 1024, 5.0, data_key=key)


def test_of_a_long_traceback_the_end_is_kept() -> None:
    reply = messages.decode_session(messages.encode_session(f.Reply(1, "x", "a" * 9000 + "end")))
    assert isinstance(reply, f.Reply)
    assert reply.traceback.endswith("aend")
    assert len(reply.traceback) == 8192


# --- descriptions -------------------------------------------------------------------------

tensors = st.tuples(
    st.text(max_size=40),
    st.sampled_from(["F32", "BF16", "BOOL"]),
    st.lists(st.integers(0, 1 << 40), max_size=4).map(tuple),
)


@given(st.lists(tensors, max_size=30), st.integers(1, 2000))
def test_any_description_comes_back_as_it_was_whatever_the_size_of_its_pages(
    described: list[tuple[str, str, tuple[int, ...]]], page_bytes: int
) -> None:
    pages = messages.encode_spec(described, page_bytes)
    assert list(messages.decode_spec(pages)) == described


@pytest.mark.slow
def test_a_hundred_thousand_names_travel_in_pages_that_fit() -> None:
    described = [(f"model.layers.{n}.weight", "F32", (64, 64)) for n in range(100_000)]
    pages = messages.encode_spec(described, 1 << 20)
    assert len(pages) > 1
    assert max(len(page) for page in pages) <= 1 << 20


def test_a_model_without_tensors_has_one_page() -> None:
    assert messages.encode_spec([], 1000) == [b""]


def test_a_page_that_is_no_description_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="no frame"):
        list(messages.decode_spec([b"\xff\xff"]))


# --- extents ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        pb.TransferFrame(open=pb.Open(extent=pb.Extent(start=5, stop=4))),
        pb.TransferFrame(open=pb.Open(extent=pb.Extent(start=(1 << 64) - 1))),
    ],
)
def test_an_extent_that_ends_before_it_starts_is_no_frame(body: pb.TransferFrame) -> None:
    with pytest.raises(RemoteProtocolError, match="received the extent"):
        messages.decode_transfer(sealed(body.SerializeToString(), 7), 7)


def test_a_request_for_an_impossible_extent_is_no_frame() -> None:
    body = pb.SessionFrame(request=pb.Request(returns_extent=pb.Extent(start=1)))
    with pytest.raises(RemoteProtocolError, match=r"received the extent \[1, 0\)"):
        messages.decode_session(sealed(body.SerializeToString(), 0))


def test_without_an_extent_all_of_the_model_is_announced() -> None:
    body = pb.TransferFrame(open=pb.Open(stream_id=7, total_bytes=9, chunk_bytes=1024))
    frame = messages.decode_transfer(sealed(body.SerializeToString(), 7), 7)
    assert isinstance(frame, f.Open)
    assert frame.brings == Extent(0, 9)
