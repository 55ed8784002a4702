"""What a probe prints and writes: every figure and reason, and YAML that is settings."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given

from streamlink.config import JobConfig
from streamlink.probing.forecast import EncodingCost, forecast
from streamlink.probing.measured import Measured
from streamlink.probing.proposal import propose
from streamlink.probing.text import (
    as_json,
    as_text,
    as_yaml,
    forecast_text,
    partial_text,
    settings_text,
)
from tests.probing.lines import a_line, lines


def test_the_text_has_each_measurement() -> None:
    text = as_text(a_line(12.5e6, 0.05, gain=2.0))
    assert "server:8517: plain text, models over tcp; 375.0 MB in 30.0 s; connections: none" in text
    assert "round trip, idle            50 ms" in text
    assert "down, 4 at once" in text
    assert text.count("100 Mbit/s") == 4
    assert text.count("4 beside 4") == 2
    assert text.count("200 Mbit/s") == 4
    assert "rough" not in text


def test_a_part_has_the_measurements_that_there_are_as_the_whole_has_them() -> None:
    line = a_line(12.5e6, 0.05)
    text = partial_text([("round trip, idle", line.idle), ("down, alone", line.down)])
    head, *rows = text.splitlines()
    assert "ended early" in head
    assert rows == [
        each for each in as_text(line).splitlines() if "idle" in each or "down, al" in each
    ]


def test_settings_are_written_with_their_reasons() -> None:
    choices = propose(a_line())
    text = " ".join(settings_text(choices).split())
    for each in choices:
        value = f"= {each.text}" if each.is_set else f"is not set (default: {each.text})"
        assert f"{each.name} {value} {each.reason}" in text
    assert "stream.window_bytes is not set" in text


def test_text_and_yaml_say_what_the_server_needs_of_the_settings() -> None:
    said = "set at the server those that are larger than its own; for several lines, the largest"
    choices = propose(a_line())
    assert said in " ".join(settings_text(choices).split())
    assert said in " ".join(as_yaml(a_line(), choices).replace("#", "").split())


def test_yaml_is_a_file_of_settings(tmp_path: Path) -> None:
    measured = a_line(250e6, 0.1, gain=1.5)
    file = tmp_path / "line.yaml"
    file.write_text(as_yaml(measured, propose(measured)))
    config = JobConfig.assemble(file)
    assert (config.stream.longest_window_bytes, config.stream.max_lanes) == (128 << 20, 4)
    assert config.timeouts.streaming_ack_wait == 120.0
    assert "# " in file.read_text()


@given(lines())
def test_yaml_has_just_the_proposed_values(measured: Measured) -> None:
    choices = propose(measured)
    written = [each.strip() for each in as_yaml(measured, choices).splitlines()]
    values = [each for each in written if each and not each.startswith("#")]
    keys = [f"{each.name.partition('.')[2]}: {each.text}" for each in choices if each.is_set]
    assert values == ["stream:", *keys[:-3], "timeouts:", *keys[-3:]]
    window = next(each for each in choices if each.name == "stream.window_bytes")
    assert (f"# window_bytes: {window.text}" in written) == (not window.is_set)


def test_a_window_that_is_not_to_be_set_still_grows_with_the_file(tmp_path: Path) -> None:
    measured = a_line(125e6, 0.15)
    file = tmp_path / "line.yaml"
    file.write_text(as_yaml(measured, propose(measured)))
    assert JobConfig.assemble(file).stream.longest_window_bytes == 48 << 20


def test_a_forecast_names_executors_encodings_and_what_was_tried() -> None:
    costs = [EncodingCost("planes", 0.5, 300e6, 400e6)]
    rounds = forecast(128 * 10**9, a_line(), costs)
    text = forecast_text(128 * 10**9, rounds, costs, "random weights in F32")
    assert len(text.splitlines()) == 3 + 9 + 4
    assert (
        "planes: leaves 50 % of the bytes; encodes at 300 MB/s, decodes at 400 MB/s here," in text
    )
    assert "auto: computed, the fastest of plain, planes for the whole model;" in text
    assert "5.7 h" in text  # whole, plain: twice 128 GB at 12.5 MB/s


def test_an_encoding_that_packs_nothing_has_no_speed_of_decoding() -> None:
    costs = [EncodingCost("zstd", 1.0, 300e6, 8e15)]
    text = forecast_text(10**9, forecast(10**9, a_line(), costs), costs, "noise")
    assert "zstd: leaves 100 % of the bytes; encodes at 300 MB/s here, tried with noise" in text


def test_what_is_lossy_is_marked_and_what_is_computed_is_said() -> None:
    costs = [EncodingCost("int8", 0.25, 300e6, 400e6, is_lossy=True)]
    text = forecast_text(10**9, forecast(10**9, a_line(), costs), costs, "random weights in F32")
    assert len(re.findall(r"^  (?:streaming|whole|on disk) +int8, lossy ", text, re.MULTILINE)) == 3
    note = " ".join(text.split())
    assert (
        "int8, lossy: leaves 25 % of the bytes, computed from the dtypes, where all values fit"
        in note
    )
    assert "rounds and encodes at 300 MB/s, decodes at 400 MB/s here, measured with random" in note
    assert "auto" not in note  # which never rounds


def test_differences_name_the_older_version() -> None:
    costs = [EncodingCost("zstd", 0.9, 3e8, 4e8), EncodingCost("delta", 0.1, 3e8, 4e8)]
    text = forecast_text(10**9, forecast(10**9, a_line(), costs), costs, "ranges of b", "a")
    note = " ".join(text.split())
    tried = "encodes at 300 MB/s, decodes at 400 MB/s here, tried with ranges of b"
    assert f"delta: leaves 10 % of the bytes; {tried}, as differences from a" in note
    assert note.count("differences from a") == 1


@pytest.mark.parametrize(
    ("gain", "over"), [(1.0, "one connection each way"), (2.0, "up to 4 connections each way")]
)
def test_text_and_yaml_say_over_how_many_connections_the_forecast_is(
    gain: float, over: str
) -> None:
    measured = a_line(gain=gain)
    choices, rounds = propose(measured), forecast(10**9, measured, ())
    assert f"10{8 * '0'} bytes over {over}" in forecast_text(10**9, rounds, (), "nothing")
    for text in (settings_text(choices), as_yaml(measured, choices).replace("#", "")):
        assert f"the forecast of a round is over {over}" in " ".join(text.split())


def test_what_is_assumed_of_several_connections_is_said_where_they_count() -> None:
    def text(gain: float) -> str:
        rounds = forecast(10**9, a_line(gain=gain), ())
        return " ".join(forecast_text(10**9, rounds, (), "nothing").split())

    measured = "The rates of 1 and of 4 were measured, also both ways at once"
    assert measured in text(2.0)
    assert "in between the rate is assumed" in text(2.0)
    assert "assumed" not in text(1.0)
    one_each_way = replace(a_line(gain=2.0), down_both_several=None, up_both_several=None)
    found = forecast_text(10**9, forecast(10**9, one_each_way, ()), (), "nothing")
    assert "both ways at once" not in found
    assert "4 beside 4" not in as_text(a_line(gain=1.0))


def test_everything_is_in_the_json() -> None:
    measured = a_line()
    facts = json.loads(json.dumps(as_json(measured, propose(measured), (), ())))
    assert facts["measured"]["down"]["rate"] == measured.down.rate
    assert facts["settings"]["timeouts.streaming_ack_wait"]["value"] == 120.0
    assert facts["settings"]["stream.window_bytes"]["value"] is None
