"""``inspect`` and ``export``, and the stores that commands are given."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from streamlink import copy_model, digest_of, open_model, open_store, serve
from streamlink.errors import ModelError
from streamlink.stores import ArrayModel
from tests.support.commands import environment
from tests.support.invoked import Outcome, fill

# --- stores -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "how"),
    [
        (["--store", "none"], "streamlink export FROM none"),
        (["--store", "none.slz"], "streamlink export FROM none.slz --compress zstd"),
        (["--store", "g", "--compress", "zstd"], "streamlink export FROM g --compress zstd"),
    ],
)
def test_a_server_without_a_model_says_how_to_make_one(
    place: Path, options: list[str], how: str
) -> None:
    error = Outcome("server", *options).error
    assert "there is no model here" in error
    assert error.endswith(how)


def test_a_single_file_cannot_be_a_servers_store(place: Path) -> None:
    (place / "m.safetensors").write_bytes(b"x")
    error = Outcome("server", "--store", "m.safetensors").error
    assert "name a directory" in error


@pytest.mark.parametrize("command", ["inspect", "export"])
@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("absent", None, "there is no model here"),
        ("text.txt", b"this is no model at all", "not a safetensors file"),
        ("short", b"12", "2 bytes are too few for a safetensors"),
        ("packed.slz", b"STREAMLZ" + bytes(500), "packed.slz"),
    ],
)
def test_what_is_no_model_is_refused_in_one_line(
    place: Path, command: str, name: str, content: bytes | None, sentence: str
) -> None:
    if content is not None:
        (place / name).write_bytes(content)
    outcome = Outcome(command, name, *(["new"] if command == "export" else []))
    assert sentence in outcome.error
    assert not (place / "new").exists()


def test_a_truncated_model_is_noticed_by_its_header(place: Path) -> None:
    shard = next((place / "g").glob("*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-100])
    assert "the file was cut short" in Outcome("inspect", "g").error


def test_a_changed_byte_is_found_by_reading_everything(place: Path) -> None:
    shard = next((place / "g").glob("*.safetensors"))
    data = bytearray(shard.read_bytes())
    data[-600_000] ^= 1
    shard.write_bytes(data)
    assert Outcome("inspect", "g").code == 0  # a look at the header cannot know
    assert "tensor 't0'" in Outcome("inspect", "g", "--verify").error


# --- inspect ----------------------------------------------------------------


def test_inspect_tells_names_dtypes_shapes_sizes_and_digest(place: Path) -> None:
    outcome = Outcome("inspect", "g")
    digest = digest_of(open_model(place / "g"))
    assert outcome.out.splitlines() == [
        "g",
        "  t0  F32  300000  1.20 MB",
        "  t1  F32       5     20 B",
        "total: 2 tensors, 300005 elements, 1200020 bytes (1.20 MB)",
        f"digest: {digest}",
        "covers: tensors alone",
    ]


def beside(place: Path, name: str, **files: str) -> str:
    """Give the model ``g`` a twin of that name, with small files."""
    shutil.copytree(place / "g", place / name)
    for key, text in files.items():
        (place / name / f"{key}.json").write_text(text)
    return name


def test_inspect_and_export_tell_what_a_digest_covers(place: Path) -> None:
    name = beside(place, "whole", config="{}", tokenizer="{}")
    assert "\ncovers: tensors and 2 small files\n" in Outcome("inspect", name).out
    assert "\ncovers: tensors alone\n" in Outcome("inspect", "z.slz").out
    assert "\ncovers: tensors and 2 small files\n" in Outcome("export", name, "copy").out
    packed = Outcome("export", name, "packed.slz").out
    assert f"digest {digest_of(place / 'g')}\ncovers: tensors alone\n" in packed


def test_models_with_other_small_files_differ(place: Path) -> None:
    first = beside(place, "first", config="{}", tokenizer="{}")
    second = beside(place, "second", config='{"a": 1}', vocab="{}")
    outcome = Outcome("inspect", first, second)
    assert outcome.code == 1
    assert outcome.out.splitlines()[-3:] == [
        "different file: config.json",
        "file only in the first model: tokenizer.json",
        "file only in the second model: vocab.json",
    ]


@pytest.mark.parametrize("options", [(), ("--verify",)])
def test_a_model_without_the_small_files_of_another_is_not_equal(
    place: Path, options: tuple[str, ...]
) -> None:
    outcome = Outcome("inspect", beside(place, "whole", config="{}"), "g", *options)
    assert outcome.code == 1
    assert outcome.out.splitlines()[-1] == "file only in the first model: config.json"


def test_a_compressed_file_is_compared_by_its_tensors_which_is_told(place: Path) -> None:
    outcome = Outcome("inspect", beside(place, "whole", config="{}"), "z.slz")
    assert outcome.code == 0
    assert outcome.out.splitlines()[-1] == (
        "the tensors are equal; z.slz cannot hold the small files of whole"
    )


def test_too_many_small_files_are_refused_with_what_can_be_done(place: Path) -> None:
    name = beside(place, "many", **{f"n{number}_config": "{}" for number in range(65)})
    with pytest.raises(ModelError, match=r"\(at most 64, .*leave them out \(files=False"):
        digest_of(place / name)
    assert "export --no-files" in Outcome("export", name, "copy").error
    assert Outcome("export", name, "copy", "--no-files").code == 0
    shown = Outcome("inspect", name, "--verify")
    assert (shown.code, "covers: tensors alone" in shown.out) == (0, True)


def test_a_long_list_is_shortened_unless_all_of_it_is_wanted(place: Path) -> None:
    fill(place / "many", "none", 0, *range(1, 41))
    short, full = Outcome("inspect", "many").out, Outcome("inspect", "many", "--all").out
    assert "... 24 more (--all lists them)" in short
    assert ("t11 " in short, "t12 " in short, "t35 " in short, "t36 " in short) == (
        True, False, False, True,
    )  # fmt: skip
    assert all(f"t{number} " in full for number in range(40))


def test_a_model_without_stored_leaves_has_its_digest_told_by_verify(place: Path) -> None:
    ours = next((place / "g").glob("*.safetensors")).rename(place / "plain.safetensors")
    assert "digest: not stored; --verify" in Outcome("inspect", ours).out
    verified = Outcome("inspect", ours, "--verify").out
    assert (
        f"digest: {digest_of(open_model(ours))}\ncovers: tensors alone\nread: every byte"
        in verified
    )


def test_a_model_with_stored_leaves_is_verified_against_them(place: Path) -> None:
    assert "verified: every byte is what was stored" in Outcome("inspect", "z", "--verify").out


def test_equal_models_are_equal_however_they_are_stored(place: Path) -> None:
    outcome = Outcome("inspect", "g", "z.slz")
    assert outcome.out.splitlines()[-1] == "the models are equal"
    assert outcome.code == 0


def test_other_values_are_named_and_end_with_1(place: Path) -> None:
    fill(place / "other", "zstd", 1)
    outcome = Outcome("inspect", "g", "other")
    assert outcome.code == 1
    assert outcome.out.splitlines()[-2:] == [
        "different values: t0: 300000 elements differ, the first at byte 0",
        "different values: t1: 5 elements differ, the first at byte 0",
    ]


def test_other_tensors_are_named_and_end_with_1(place: Path) -> None:
    fill(place / "other", "none", 0, 300_000, 6)
    outcome = Outcome("inspect", "g", "other")
    assert outcome.code == 1
    assert (
        "differs in shape: the first model has (5,), the second (6,)"
        in outcome.out.splitlines()[-1]
    )


def test_a_name_with_control_characters_does_not_reach_the_terminal(place: Path) -> None:
    model = ArrayModel({"a\x1b[2Jb": np.zeros(1, np.float32)})
    copy_model(model, open_store(place / "odd").begin(model.spec))
    out = Outcome("inspect", "odd").out
    assert "\x1b" not in out
    assert "a\\x1b[2Jb" in out


def test_a_compressed_copy_of_a_model_with_small_files_is_told_with_both_digests(
    place: Path,
) -> None:
    whole, port = place / beside(place, "whole", config="{}"), Future[int]()
    with ThreadPoolExecutor(1) as pool:
        served = pool.submit(serve, whole, "127.0.0.1:0", count=1, on_listening=port.set_result)
        got = Outcome("fetch", f"127.0.0.1:{port.result(60)}", "got.slz")
        assert served.result(60) == 1
    whole_digest, own = digest_of(whole), digest_of(place / "got.slz")
    assert got.out.splitlines()[-2:] == [
        f"digest {whole_digest}",
        f"covers: tensors and small files; the tensors alone, as stored, have {own}",
    ]


# --- export -----------------------------------------------------------------


def test_export_packs_and_unpacks_without_changing_anything(place: Path) -> None:
    assert Outcome("export", "g", "packed.slz").code == 0
    outcome = Outcome("export", "packed", "plain")
    assert outcome.code == 0
    assert digest_of(open_model(place / "plain")) == digest_of(open_model(place / "g"))
    assert (place / "packed.slz").stat().st_size < 300_000
    assert "plain: 1.20 MB stored as 1.20 MB (100.0%)" in outcome.out


def test_export_replaces_a_model_only_by_force(place: Path) -> None:
    fill(place / "other", "none", 7)
    before = digest_of(open_model(place / "g"))
    assert "g holds a model already; add --force" in Outcome("export", "other", "g").error
    assert digest_of(open_model(place / "g")) == before
    assert Outcome("export", "other", "g", "--force").code == 0
    assert digest_of(open_model(place / "g")) == digest_of(open_model(place / "other"))


def test_an_export_that_fails_in_the_middle_leaves_what_was_there(place: Path) -> None:
    shard = next((place / "g").glob("*.safetensors"))
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1  # in the last block: most is written before it is read
    shard.write_bytes(data)
    before = {path: path.read_bytes() for path in place.glob("z*")}
    assert "t1" in Outcome("export", "g", "z.slz", "--force").error
    assert {path: path.read_bytes() for path in place.glob("z*")} == before


@pytest.mark.processes
def test_a_disk_that_is_too_small_is_said_in_one_line(place: Path) -> None:
    limit = "import resource as r; r.setrlimit(r.RLIMIT_FSIZE, (500_000, 500_000))\n"
    program = f"{limit}from streamlink.cli import main; main()"
    command = [sys.executable, "-c", program, "export", "z", "new"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), cwd=place)
    assert done.returncode == 2
    assert re.fullmatch(r"error: new: no room while .*\n", done.stderr)
    assert not (place / "new").exists()
