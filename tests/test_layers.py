"""The house's arrows, read from the imports: who may know whom, and who may not know the world.

This table is the authority on the layers. A module is judged by every import in it, those inside
functions and those for types only too: what a module mentions is what a reader has to know.
"""

import ast
from collections.abc import Set as AbstractSet
from pathlib import Path

import pytest

from streamlink.transport.carrier_modules import CONTROL_CARRIERS, DATA_CARRIERS
from tests.support.parsing import nodes, read
from tests.support.public_types import public_names
from tests.support.sources import PACKAGE, dotted, every, imported_by, imports, is_under, part_of

ANYTHING = frozenset({"*"})

# Who may import which parts of the package; a part may always import itself.
MAY_IMPORT = {
    "errors": frozenset[str](),
    "extent": frozenset[str](),
    "blocks": frozenset[str](),
    "config": frozenset({"errors"}),
    "protocol": frozenset({"errors", "config", "extent"}),
    "model": frozenset({"errors", "extent", "blocks"}),
    "encodings": frozenset({"model", "errors"}),
    "stores": frozenset({"model", "errors", "descriptors"}),
    "transport": frozenset(
        {
            *("protocol", "config", "errors", "extent", "blocks"),
            *("clock", "timers", "cancel", "descriptors"),
        }
    ),
    "link": frozenset(
        {
            *("transport", "protocol", "encodings", "stores", "model", "config"),
            *("errors", "extent", "clock", "timers", "cancel", "closing"),
        }
    ),
    "filters": frozenset({"link", "model"}),
    "rounds": frozenset(
        {
            *("link", "stores", "encodings", "model", "filters", "config", "errors"),
            *("extent", "clock", "cancel", "descriptors"),
        }
    ),
    "objects": frozenset(
        {
            *("link", "stores", "model", "config", "errors"),
            *("extent", "clock", "timers", "cancel", "closing", "descriptors"),
        }
    ),
    "executors": frozenset(
        {
            *("rounds", "link", "stores", "encodings", "model", "filters", "config"),
            *("errors", "clock", "cancel", "closing", "descriptors"),
        }
    ),
    "operate": frozenset({"rounds", "link", "config", "errors", "closing", "descriptors"}),
    "probing": frozenset({"link", "protocol", "encodings", "model", "config"}),
    "profiling": frozenset(
        {"errors", "stores", "training", "config", "fleet", "signals", "__init__"}
    ),
    "training": frozenset(
        {"executors", "rounds", "link", "stores", "model", "copying", "config", "errors", "cancel"}
        | {"__init__"}
    ),
    "integrations": frozenset(
        {"objects", "rounds", "stores", "model", "config", "errors", "cancel", "__init__"}
    ),
    "aggregators": frozenset({"rounds"}),
    "schedules": frozenset({"rounds"}),
    "allocator": frozenset[str](),
    "cancel": frozenset({"errors", "clock"}),
    "certs": frozenset({"errors"}),
    "clock": frozenset[str](),
    "timers": frozenset({"clock"}),
    "closing": frozenset[str](),
    "copying": frozenset({"link", "stores", "model", "config", "errors", "cancel"}),
    "descriptors": frozenset[str](),
    "fleet": frozenset({"errors", "cancel", "signals"}),
    "logs": frozenset[str](),
    "bars": frozenset({"logs"}),
    "progress": frozenset({"bars"}),
    "signals": frozenset[str](),
    "cli": ANYTHING,
    "templates": frozenset({"__init__"}),  # of users: public names only
    "metrics": frozenset({"operate", "link"}),
    "tensorboard": frozenset({"operate"}),
    "testing": frozenset({"config", "clock", "executors", "link", "model", "rounds", "cancel"}),
    "public": ANYTHING,
    "__init__": ANYTHING,
    "__main__": frozenset({"cli"}),
}

_WORLD = {"asyncio", "concurrent", "grpc", "multiprocessing", "selectors", "signal", "socket"}
_WORLD |= {"ssl", "subprocess", "threading", "time", "torch"}

# Parts that stay pure, and what of the world they may not touch.
PURE = {
    "protocol": _WORLD | {"io", "numpy", "os", "pathlib"},
    "model": _WORLD,
    "encodings": _WORLD | {"io", "os", "pathlib"},
}

# A source may be read from several threads at once, so a model may lock; it never starts a thread.
LOCKS = {"threading.Lock", "threading.RLock"}

GRPC, GRPC_FOLDER = ("grpc", "grpc_health", "grpc_status"), "transport/grpc"
MPI_MODULE = "transport/ranks.py"
# A carrier is one module of ``transport/``, or a package in it.
CARRIERS = {
    ".".join(module.split(".")[:3]) for module in (CONTROL_CARRIERS | DATA_CARRIERS).values()
}
NAMES_CARRIERS = "transport/carrier_modules.py"
PROTOBUF, PROTOBUF_MODULE = ("google", "streamlink.transport._generated"), "transport/messages.py"

# Only these know the pump and the machine of a transfer; everybody else asks the transfer.
KNOW_PUMPS = ("transport", "link/transfer.py", "link/send_transfer.py", "link/receive_transfer.py")
# Whoever waits or reads the time is given a ``Clock``. These wait for what no clock of ours moves,
# and for nothing else; no line may be added.
TIMED = ("transport", "link", "objects", "rounds", "executors")
THREADS = {"thread", "sender", "keeper", "session_thread"}  # what ours are called
TIMES = {
    *(f"time.{name}{ns}" for name in ("time", "monotonic", "perf_counter") for ns in ("", "_ns")),
    *("time.sleep", "datetime.now", "datetime.datetime.now", "datetime.utcnow"),
}
WAITS = {
    f"threading.{name}"
    for name in ("Condition", "Event", "Timer", "Barrier", "Semaphore", "BoundedSemaphore")
}
CLOCKS_OF_OTHERS = {
    "transport/diagnosis.py": {"time.monotonic"},  # timeouts of a socket are the kernel's
    "transport/grpc/client.py": {  # gRPC's own thread, and its callbacks
        "threading.Event",
        "time.monotonic",
        "time.sleep",
    },
}

# The public edge: whoever gives none is given the clock of this process here.
RUNNING_TIME = "streamlink.clock.running_time"
EDGES = {"link/client.py", "link/oneshot.py", "link/receive_slot.py", "link/server.py"}
EDGES |= {"transport/traffic.py", "executors/client.py"}
EDGES |= {"objects/client.py", "objects/server.py"}
EDGES |= {"link/pull.py", "link/fetch_desk.py"}
EDGES |= {"link/probe_line.py", "link/probe_server.py"}

# The rules of the rounds decide, and do nothing else: they know the settings and the errors.
RULES = ("rounds/lockstep/rule.py", "rounds/spool/rule.py")
RULES_KNOW = {"config", "errors"}

# What a part of rounds/ must not know: the two ways to gather know nothing of each other, the
# aggregation knows neither. Nobody else knows how an update is resumed within its round.
ROUNDS_APART = {
    "aggregate": ("lockstep", "spool", "controller", "ledger", "plan", "resume", "scatter"),
    "lockstep": ("spool", "controller", "ledger"),
    "spool": ("lockstep", "controller"),
    "evaluate": ("lockstep", "spool", "controller", "ledger", "scatter"),
    "resume.py": ("lockstep", "spool", "controller", "ledger"),
}


def parts_in(names: AbstractSet[str]) -> set[str]:
    """Return which parts of the package ``names`` reach; the package itself counts as itself."""
    parts = {name.split(".")[1] for name in names if name.startswith("streamlink.")}
    known = {part for part in parts if part in MAY_IMPORT}
    itself = {"__init__"} if parts - known or "streamlink" in names else set()
    return known | itself


# --- faults of one file -----------------------------------------------------


def threading_used(tree: ast.Module) -> set[str]:
    names = {dotted(node) for node in nodes(tree) if isinstance(node, ast.Attribute)}
    return {name for name in names | set(imports(tree)) if name.startswith("threading.")}


def wrong_arrows(part: str, names: AbstractSet[str]) -> set[str]:
    allowed = MAY_IMPORT[part]
    return set() if allowed is ANYTHING else parts_in(names) - allowed - {part}


def reaches_through(tree: ast.AST) -> list[str]:
    """Return where ``tree`` takes the pump, or the stream, of an object; a setting is neither."""
    return [
        f"line {node.lineno}: {ast.unparse(node)}"
        for node in nodes(tree)
        if isinstance(node, ast.Attribute)
        and (node.attr in {"pump", "_pump"} or (node.attr == "stream" and is_no_setting(node)))
    ]


def is_no_setting(node: ast.Attribute) -> bool:
    return not dotted(node.value).split(".")[-1].endswith("config")


def clocks_used(tree: ast.Module) -> set[str]:
    """Return what here goes by the real time; a type (``threading.Event``) does not."""
    called = {id(node.func) for node in nodes(tree) if isinstance(node, ast.Call)}
    used = {
        dotted(node)
        for node in nodes(tree)
        if isinstance(node, ast.Attribute) and (id(node) in called or dotted(node) in TIMES)
    }
    faults = (used | set(imports(tree))) & (TIMES | WAITS) | joins_with_time(tree)
    return faults | {
        f"line {node.lineno}: import {alias.name} as {alias.asname}"  # under which nothing is found
        for node in nodes(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name in ("time", "threading", "datetime") and alias.asname
    }


def joins_with_time(tree: ast.Module) -> set[str]:
    """Return the joins of threads here, which name no text to join."""
    return {
        f"line {node.lineno}: join"
        for node in nodes(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "join"
        and dotted(node.func.value).split(".")[-1].lstrip("_") in THREADS
    }


# --- the tests --------------------------------------------------------------


@every("streamlink")
def test_a_module_imports_only_what_its_layer_allows(path: Path) -> None:
    part = part_of(path)
    assert part in MAY_IMPORT, f"{part} has no line in MAY_IMPORT: decide where it stands"
    wrong = wrong_arrows(part, imported_by(path))
    assert not wrong, f"{part} must not import {sorted(wrong)}"


@every("streamlink/rounds")
def test_the_parts_of_the_rounds_stand_apart(path: Path) -> None:
    part = path.relative_to(PACKAGE / "rounds").parts[0]
    known = {each.removeprefix("streamlink.rounds.") for each in imported_by(path)}
    known = {each for each in known if not each.startswith("streamlink.")}
    apart = ROUNDS_APART.get(part, ("resume", "lockstep.resume", "spool.partial"))
    assert not [each for each in known if is_under(each, *apart)]


@every(*(f"streamlink/{part}" for part in TIMED))
def test_time_and_waiting_come_from_the_clock_that_is_passed_in(path: Path) -> None:
    allowed = CLOCKS_OF_OTHERS.get(path.relative_to(PACKAGE).as_posix(), set())
    used = clocks_used(read(path))
    assert not used - allowed, f"take a Clock and ask it, instead of {sorted(used - allowed)}"
    assert not allowed - used, f"allow no more than it uses: {sorted(allowed - used)}"


@every(*(f"streamlink/{part}" for part in TIMED))
def test_only_the_public_edge_chooses_a_clock(path: Path) -> None:
    is_edge = path.relative_to(PACKAGE).as_posix() in EDGES
    assert (RUNNING_TIME in imported_by(path)) is is_edge


@every("streamlink/protocol", "streamlink/model", "streamlink/encodings")
def test_a_pure_module_does_not_touch_the_world(path: Path) -> None:
    part = part_of(path)
    touched = {name for name in imported_by(path) if is_under(name, *PURE[part])}
    if part == "model" and threading_used(read(path)) <= LOCKS:
        touched -= LOCKS | {"threading"}
    assert not touched


@every("streamlink/rounds/lockstep", "streamlink/rounds/spool")
def test_a_rule_of_the_rounds_is_pure(path: Path) -> None:
    if path.relative_to(PACKAGE).as_posix() in RULES:
        assert not {name for name in imported_by(path) if is_under(name, *_WORLD)}
        assert parts_in(imported_by(path)) <= RULES_KNOW


@every("streamlink/rounds")
def test_only_lockstep_knows_of_models_that_are_sent_early(path: Path) -> None:
    name = path.relative_to(PACKAGE).as_posix()
    if name not in ("rounds/lockstep/duplex.py", "rounds/lockstep/round.py"):
        early = ("streamlink.rounds.lockstep.duplex", "streamlink.rounds.lockstep.fan_out")
        assert not [each for each in imported_by(path) if is_under(each, *early)]


@every("streamlink")
def test_only_the_grpc_carrier_knows_grpc(path: Path) -> None:
    if path.relative_to(PACKAGE).parent.as_posix() != GRPC_FOLDER:
        assert not [name for name in imported_by(path) if is_under(name, *GRPC)]


@every("streamlink")
def test_only_one_module_calls_mpi(path: Path) -> None:
    if path.relative_to(PACKAGE).as_posix() != MPI_MODULE:
        assert not [name for name in imported_by(path) if is_under(name, "mpi4py")]


@every("streamlink")
def test_a_carrier_is_chosen_in_one_place(path: Path) -> None:
    name = path.relative_to(PACKAGE).as_posix()
    module = "streamlink." + name.removesuffix(".py").replace("/", ".")
    others = {each for each in CARRIERS if not is_under(module, each)}  # a package knows itself
    if name != NAMES_CARRIERS:
        assert not [each for each in imported_by(path) if is_under(each, *others)]


@every("streamlink")
def test_only_the_encoding_of_frames_knows_protobuf(path: Path) -> None:
    if path.relative_to(PACKAGE).as_posix() != PROTOBUF_MODULE:
        assert not [name for name in imported_by(path) if is_under(name, *PROTOBUF)]


@every(
    *("streamlink/link", "streamlink/rounds", "streamlink/operate", "streamlink/cli"),
    *("streamlink/objects", "streamlink/executors", "streamlink/integrations"),
)
def test_the_pump_of_a_transfer_is_private(path: Path) -> None:
    if not path.relative_to(PACKAGE).as_posix().startswith(KNOW_PUMPS):
        assert not reaches_through(read(path)), "ask the transfer, or add to what it answers"


@every("benchmarks", "examples")
def test_programs_use_the_public_names_only(path: Path) -> None:
    ours = {name for name in imported_by(path) if is_under(name, "streamlink")}
    # What an integration offers is public; it is no namespace, since it is imported by name only.
    ours = {name for name in ours if not is_under(name, "streamlink.integrations")}
    # Reports of benchmarks look like those of ``streamlink profile``; they share page and pictures.
    drawn = ("streamlink.profiling.page", "streamlink.profiling.pictures")
    ours = {name for name in ours if not is_under(name, *drawn)}
    # What compares ways of encoding has to take them apart.
    if path.stem == "differences":
        ours = {name for name in ours if not is_under(name, "streamlink.encodings")}
    deep = ours - {"streamlink"} - public_names().keys()
    assert not deep, f"import these from streamlink itself or a namespace of it: {sorted(deep)}"


@every("streamlink/integrations")
def test_an_integration_uses_the_public_names_only(path: Path) -> None:
    ours = {name for name in imported_by(path) if is_under(name, "streamlink")}
    theirs = {name for name in ours if is_under(name, "streamlink.integrations")}
    deep = ours - theirs - {"streamlink"} - public_names().keys()
    assert not deep, f"import these from streamlink itself or a namespace of it: {sorted(deep)}"


# --- the checks themselves --------------------------------------------------


def test_a_check_of_every_file_names_those_that_fail() -> None:
    def is_not_this_one(path: Path) -> None:
        assert path != Path(__file__), "it is this one"

    with pytest.raises(AssertionError, match=r"^tests/test_layers.py: it is this one"):
        every("tests")(is_not_this_one)()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("import a.b as c", {"a.b"}),
        ("from a import b, c", {"a.b", "a.c"}),
        ("from . import b", {"streamlink.model.b"}),
        ("from ..stores.memory import b", {"streamlink.stores.memory.b"}),
        ("def f():\n    import a", {"a"}),
        ("importlib.import_module('a.b')", {"a.b"}),
        ("__import__('a')", {"a"}),
    ],
)
def test_every_kind_of_import_is_seen(line: str, expected: set[str]) -> None:
    assert set(imports(ast.parse(line), "streamlink.model")) == expected


@pytest.mark.parametrize(
    ("part", "line", "wrong"),
    [
        ("protocol", "from streamlink.errors import AckTimeout", set()),
        ("protocol", "from streamlink.protocol.frames import Chunk", set()),
        ("protocol", "from streamlink.model.spec import ModelSpec", {"model"}),
        ("model", "import streamlink.transport.pump", {"transport"}),
        ("rounds", "from streamlink import transport", {"transport"}),
        ("link", "from streamlink import send_model", {"__init__"}),
        ("stores", "import streamlink", {"__init__"}),
        ("transport", "from streamlink.progress import LinkProgress", {"progress"}),
        ("cli", "from streamlink.progress import LinkProgress", set()),
    ],
)
def test_a_wrong_arrow_is_noticed(part: str, line: str, wrong: set[str]) -> None:
    assert wrong_arrows(part, set(imports(ast.parse(line)))) == wrong


@pytest.mark.parametrize(
    ("line", "is_fault"),
    [
        ("exchange.incoming.pump.is_waiting", True),
        ("transfer._pump", True),
        ("model.stream.opened", True),
        ("self._server.config.stream.stream_bytes", False),
        ("incoming.is_announced", False),
    ],
)
def test_a_reach_through_to_a_pump_is_noticed(line: str, is_fault: bool) -> None:
    assert bool(reaches_through(ast.parse(line))) is is_fault


def test_a_thread_in_the_model_is_noticed_and_a_lock_is_not() -> None:
    assert threading_used(ast.parse("lock = threading.RLock()")) <= LOCKS
    assert threading_used(ast.parse("from threading import Lock")) <= LOCKS
    assert not threading_used(ast.parse("threading.Thread(target=f).start()")) <= LOCKS


@pytest.mark.parametrize(
    ("line", "used"),
    [
        ("now = time.monotonic()", {"time.monotonic"}),
        ("def f(clock=time.monotonic): ...", {"time.monotonic"}),
        ("from time import sleep", {"time.sleep"}),
        ("over = threading.Event()", {"threading.Event"}),
        ("self._thread.join(5.0)", {"line 1: join"}),
        ("def f(over: threading.Event): ...", set()),
        ("over = clock.event()", set()),
        ("', '.join(names)", set()),
    ],
)
def test_a_clock_that_was_not_passed_in_is_noticed(line: str, used: set[str]) -> None:
    assert clocks_used(ast.parse(line)) == used
