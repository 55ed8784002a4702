"""Settings: sizes in words, bounds, relations, unknown keys by name."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from streamlink.config import (
    GrpcConfig,
    JobConfig,
    LimitsConfig,
    LinkConfig,
    RoundConfig,
    StreamConfig,
    TimeoutConfig,
    parse_size,
)
from streamlink.config.values import LOSSY_FORMATS, Settings
from streamlink.encodings.registry import lossy_formats

CONFIGS = [StreamConfig, TimeoutConfig, GrpcConfig, LimitsConfig, LinkConfig, RoundConfig]
UNITS = {"": 1, "B": 1}
UNITS |= {f"{p}B": 1000**n for n, p in enumerate("KMGT", 1)}
UNITS |= {f"{p}iB": 1024**n for n, p in enumerate("KMGT", 1)}


def every_config(*configs: type[BaseModel]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("config", configs or CONFIGS, ids=lambda c: c.__name__)


# --- sizes ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        (4096, 4096),
        ("4096", 4096),
        ("16MB", 16_000_000),
        ("16MiB", 16 << 20),
        ("1.5 GB", 1_500_000_000),
        (" 2 gib ", 2 << 30),
        ("1.001KB", 1001),
        ("0.1TB", 10**11),
    ],
)
def test_a_size_may_be_written_in_words(text: str | int, nbytes: int) -> None:
    assert parse_size(text) == nbytes


@pytest.mark.parametrize("text", ["", "MB", "-1MB", "1e6", "4 MiB/s", "4K", "inf", "1.MB", "1 2"])
def test_what_is_no_size_is_refused_with_the_forms_that_are(text: str) -> None:
    with pytest.raises(ValueError, match="write it as 2GB"):
        parse_size(text)


@pytest.mark.parametrize("form", ["{}", "{}GB", "0.{}GB", "1{}.5"])
def test_a_number_without_end_is_no_size_and_shown_in_part(form: str) -> None:
    with pytest.raises(
        ValueError, match=r"^'[0-9.]+\.\.\.[0-9.GB]+' is not a size.*2GB"
    ) as refused:
        parse_size(form.format("9" * 5000))
    assert len(str(refused.value)) < 200


def test_a_truth_value_is_no_size() -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(True)


@given(count=st.integers(0, 10**9), unit=st.sampled_from(sorted(UNITS)), gap=st.sampled_from(" \t"))
def test_every_unit_multiplies_exactly(count: int, unit: str, gap: str) -> None:
    assert parse_size(f"{count}{gap}{unit.lower()}") == count * UNITS[unit]


@given(thousandths=st.integers(0, 10**9), unit=st.sampled_from(["KB", "MB", "GB", "TB"]))
def test_decimals_lose_no_byte(thousandths: int, unit: str) -> None:
    whole, part = divmod(thousandths, 1000)
    assert parse_size(f"{whole}.{part:03}{unit}") == thousandths * UNITS[unit] // 1000


@given(text=st.text(max_size=12))
def test_any_text_is_a_size_or_a_value_error(text: str) -> None:
    try:
        assert parse_size(text) >= 0
    except ValueError as error:
        assert "is not a size" in str(error)  # noqa: PT017 (both outcomes are right)


# --- what all settings share ------------------------------------------------


@every_config()
def test_the_defaults_are_valid(config: type[BaseModel]) -> None:
    assert config.model_validate(config().model_dump()) == config()


@every_config()
def test_an_unknown_key_is_refused_by_name(config: type[BaseModel]) -> None:
    with pytest.raises(ValidationError, match="chunk_size"):
        config.model_validate({"chunk_size": 1})


@every_config()
def test_a_setting_cannot_change_once_built(config: type[BaseModel]) -> None:
    name = next(iter(config.model_fields))
    with pytest.raises(ValidationError, match="frozen"):
        setattr(config(), name, None)


@every_config()
def test_every_setting_is_described(config: type[BaseModel]) -> None:
    for name, field in config.model_fields.items():
        assert field.description, f"{config.__name__}.{name} says nothing"


class Ours(Settings):
    """Settings whose fields are described in every way."""

    one: int = 1
    """A line, and
    another one."""

    two: int = Field(default=2, description="its own")
    """Not this."""

    three: int = 3
    """Has a method below it."""

    def four(self) -> None:
        """No field."""

    five: int = 5
    six: int = 6


class Pydantics(BaseModel):
    """The same, as pydantic reads them."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    one: int = 1
    """A line, and
    another one."""

    two: int = Field(default=2, description="its own")
    """Not this."""

    three: int = 3
    """Has a method below it."""

    def four(self) -> None:
        """No field."""

    five: int = 5
    six: int = 6


def test_descriptions_are_those_that_pydantic_itself_would_find() -> None:
    ours, theirs = (each.model_json_schema()["properties"] for each in (Ours, Pydantics))
    assert ours == theirs
    assert ours["one"]["description"] == "A line, and\nanother one."
    described = [name for name, facts in ours.items() if "description" in facts]
    assert described == ["one", "two", "three"]


@every_config(StreamConfig, TimeoutConfig, GrpcConfig, LimitsConfig, RoundConfig)
def test_every_number_says_its_unit(config: type[BaseModel]) -> None:
    units = {"_bytes": "(bytes)", "_timeout": "(seconds)", "_seconds": "(seconds)"}
    for name, field in config.model_fields.items():
        for ending, unit in units.items():
            assert not name.endswith(ending) or unit in (field.description or ""), name


# --- bounds and relations ---------------------------------------------------


def test_a_window_holds_at_least_one_chunk() -> None:
    assert StreamConfig(chunk_bytes="1MiB", window_bytes="1MiB").window_bytes == 1 << 20
    with pytest.raises(ValidationError, match=r"window_bytes \(524288\) must hold at least one"):
        StreamConfig(chunk_bytes="1MiB", window_bytes="512KiB")


def test_a_stream_never_starts_with_more_than_its_largest_chunk() -> None:
    assert StreamConfig().smallest_chunk_bytes == 64 << 10
    assert StreamConfig(chunk_bytes="16KiB").smallest_chunk_bytes == 16 << 10


def test_a_streams_memory_is_its_window_and_four_chunks() -> None:
    config = StreamConfig(chunk_bytes="1MiB", window_bytes="8MiB")
    assert config.stream_bytes == 12 << 20


def test_encodings_take_two_chunks_more() -> None:
    config = StreamConfig(chunk_bytes="1MiB", window_bytes="8MiB", encodings=("zstd",))
    assert config.stream_bytes == 14 << 20


@pytest.mark.parametrize("name", ["lossy_down", "lossy_up"])
def test_lossy_formats_take_four_chunks_more(name: str) -> None:
    sizes = {"chunk_bytes": "1MiB", "window_bytes": "8MiB"}
    assert StreamConfig(**{**sizes, name: "*=int8"}).stream_bytes == 16 << 20


def test_rules_for_lossy_formats_are_split_at_commas_and_checked() -> None:
    config = StreamConfig(lossy_up="head.*=fp16,*=int8")
    assert config.lossy_up == ("head.*=fp16", "*=int8")
    for wrong in ("int8", "=int8", "*=int4", "*=", "*=int8,w"):
        with pytest.raises(ValidationError, match="write PATTERN=FORMAT, such as"):
            StreamConfig(lossy_down=wrong)


def test_the_formats_that_settings_name_are_those_that_there_are() -> None:
    rules = [f"*={name}" for name in LOSSY_FORMATS]
    assert lossy_formats(rules) == LOSSY_FORMATS


def test_there_is_nothing_to_feed_back_where_nothing_is_lost() -> None:
    with pytest.raises(ValidationError, match="lossy_up is not set"):
        StreamConfig(error_feedback="left")


def test_a_session_outlives_a_lost_heartbeat() -> None:
    assert TimeoutConfig(session_timeout=10, heartbeat_interval=5).session_timeout == 10
    with pytest.raises(ValidationError, match="a live peer looks dead"):
        TimeoutConfig(session_timeout=9, heartbeat_interval=5)


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan")])
@pytest.mark.parametrize("name", sorted(TimeoutConfig.model_fields))
def test_a_deadline_is_a_positive_number_of_seconds(name: str, seconds: float) -> None:
    if (name, seconds) == ("rejoin_timeout", 0):
        assert TimeoutConfig(rejoin_timeout=0).rejoin_timeout == 0  # a client that does not
        return
    with pytest.raises(ValidationError, match=name):
        TimeoutConfig.model_validate({name: seconds})


@given(st.floats(0.01, 1000), st.floats(0.01, 1000), st.floats(0.01, 1000))
def test_a_hold_is_told_well_before_any_deadline(read: float, ack: float, talk: float) -> None:
    config = TimeoutConfig(
        streaming_read_timeout=read, streaming_ack_wait=ack, communication_timeout=talk
    )
    assert config.held_interval <= min(5.0, read / 4, ack / 4, talk / 4)


@pytest.mark.parametrize(
    ("config", "key", "value"),
    [
        (StreamConfig, "chunk_bytes", "1KiB"),
        (StreamConfig, "chunk_bytes", "65MiB"),
        (StreamConfig, "max_repairs", -1),
        (GrpcConfig, "max_clients", 0),
        (RoundConfig, "min_clients", 0),
        (RoundConfig, "num_rounds", 0),
        (RoundConfig, "train_timeout", -1),
    ],
)
def test_a_value_out_of_bounds_is_refused_by_name(
    config: type[BaseModel], key: str, value: object
) -> None:
    with pytest.raises(ValidationError, match=key):
        config.model_validate({key: value})


# --- files ------------------------------------------------------------------


def test_a_file_holds_the_same_keys(tmp_path: Path) -> None:
    file = tmp_path / "link.yaml"
    file.write_text("stream: {chunk_bytes: 1MiB}\ntimeouts:\n  streaming_ack_wait: 6000\n")
    config = LinkConfig.from_yaml(file)
    assert config.stream.chunk_bytes == 1 << 20
    assert config.timeouts.streaming_ack_wait == 6000
    assert config.grpc == GrpcConfig()


def test_an_empty_file_means_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "empty.yaml"
    file.write_text("# nothing yet\n")
    assert LinkConfig.from_yaml(str(file)) == LinkConfig()


def test_a_misspelled_key_in_a_file_is_refused_by_its_path(tmp_path: Path) -> None:
    file = tmp_path / "link.yaml"
    file.write_text("stream: {chunk_byte: 1MiB}\n")
    with pytest.raises(ValidationError, match=r"stream\.chunk_byte\b"):
        LinkConfig.from_yaml(file)


def test_a_file_that_is_no_mapping_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "list.yaml"
    file.write_text("- 1\n")
    with pytest.raises(ValueError, match=r"list\.yaml: expected a mapping of settings, found list"):
        LinkConfig.from_yaml(file)


@pytest.mark.parametrize(
    ("settings", "admitted"),
    [
        ([], 16),
        (["rounds.min_clients=20"], 20),
        (["rounds.min_clients=2", "rounds.wait_for_clients=30"], 30),
        (["rounds.min_clients=3"], 16),
        (["rounds.min_clients=20", "grpc.max_clients=40"], 40),
        (["rounds.min_clients=20", "grpc.max_clients=16"], 16),
    ],
)
def test_a_server_has_room_for_the_clients_of_its_job_unless_the_user_says_otherwise(
    settings: list[str], admitted: int
) -> None:
    config = JobConfig.assemble(settings=settings)
    assert config.grpc.max_clients == admitted
    has_set_it = any(each.startswith("grpc.max_clients") for each in settings)
    assert ("max_clients" in config.grpc.model_fields_set) == has_set_it


# --- one memory for all streams -------------------------------------------------------


@given(st.integers(1, 1 << 27), st.booleans(), st.booleans())
def test_a_share_pays_for_the_window_that_it_gives(
    window: int, has_encodings: bool, is_lossy: bool
) -> None:
    config = StreamConfig(
        window_bytes=1 << 27,
        encodings=("zstd",) if has_encodings else (),
        lossy_up=("*=fp16",) if is_lossy else (),
    )
    price = config.price_of(window)
    assert window - 3 <= config.window_within(price) <= window  # whole quarters
    assert config.price_of(config.window_within(price)) <= price
    assert config.price_of(config.window_bytes) == config.stream_bytes


def test_a_share_gives_no_more_than_the_window() -> None:
    config = StreamConfig()
    assert config.window_within(1 << 30) == config.longest_window_bytes


def test_what_each_client_needs_is_two_good_streams_and_a_little_for_every_other() -> None:
    config = LinkConfig()
    (two, good), (others, least) = config.places
    assert (two, others) == (2, config.limits.max_streams)
    assert config.stream.window_within(good) == 2 * config.stream.smallest_chunk_bytes
    assert config.client_bytes == 2 * good + others * least == 768 << 10


@pytest.mark.parametrize(
    ("settings", "admitted"),
    [
        (["stream.memory_bytes=12MiB"], 15),  # and a place for one that comes back
        (["stream.memory_bytes=1GiB"], 1364),
        (["stream.memory_bytes=64GiB"], 4096),
        (["stream.memory_bytes=1GiB", "grpc.max_clients=3"], 3),
        (["stream.memory_bytes=1GiB", "rounds.min_clients=100"], 1364),
    ],
)
def test_as_many_clients_are_admitted_as_memory_is_for_unless_the_user_says_otherwise(
    settings: list[str], admitted: int
) -> None:
    config = JobConfig.assemble(settings=settings)
    assert config.grpc.max_clients == admitted
    assert config.is_max_clients_set == (admitted == 3)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            ["stream.memory_bytes=1MiB"],
            r"memory_bytes \(1048576\) is too little for one client: 786432 .* to 1572864 or more",
        ),
        (
            ["stream.memory_bytes=4MiB", "grpc.max_clients=10"],
            r"memory_bytes \(4194304\) is too little for grpc.max_clients = 10: .* to 8650752 or",
        ),
        (
            ["stream.memory_bytes=4MiB", "rounds.min_clients=5"],
            r"\(4194304\) is enough for 4 clients, and the job waits for 5; set it to 4718592 or",
        ),
        (["stream.memory_bytes=much"], r"stream.memory_bytes\n.*'much' is not a size; write it as"),
    ],
)
def test_a_memory_that_is_too_small_says_what_it_should_be(settings: list[str], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        JobConfig.assemble(settings=settings)


@pytest.mark.parametrize("name", ["min_clients", "wait_for_clients"])
def test_a_job_that_waits_for_more_clients_than_are_admitted_says_what_to_change(name: str) -> None:
    rules = RoundConfig.model_validate({name: 17})
    rules.require_room(GrpcConfig(max_clients=17))
    with pytest.raises(ValueError, match=f"rounds.{name} is 17, .* raise grpc.max_clients to 17"):
        rules.require_room(GrpcConfig())
