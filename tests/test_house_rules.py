"""Rules that hold in every file: what is never used, how long and how named, where tests are."""

import ast
import re
import threading
from pathlib import Path

import pytest

from tests.support.parsing import nodes, read
from tests.support.private_names import broken
from tests.support.sources import PACKAGE, ROOT, dotted, every, imports, is_under, name_of, part_of

PICKLES = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
LOADS = {"torch.load", "torch.save"}

DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]

# What a thread keeps for itself, here and in other versions of CPython (`_context`: since 3.14).
OF_THREAD = {*vars(threading.Thread()), *dir(threading.Thread), "_context", "_os_thread_handle"}
OF_THREAD -= {"daemon", "name"}  # to be set

# Seconds. Whichever is first reads every file of the project, and may share its core with many.
pytestmark = pytest.mark.timeout(600)

MAX_LINES = 500
VAGUE = ("Manager", "Handler", "Helper", "Helpers", "Util", "Utils")


def pickling(tree: ast.Module) -> list[str]:
    """Return what in ``tree`` could read or write a pickle."""
    faults = [name for name in imports(tree) if is_under(name, *PICKLES, *LOADS)]
    for node in nodes(tree):
        if isinstance(node, ast.Attribute) and dotted(node) in LOADS:
            faults.append(f"line {node.lineno}: {dotted(node)}")
        if isinstance(node, ast.Call):
            faults += [
                f"line {node.lineno}: allow_pickle"
                for keyword in node.keywords
                if keyword.arg == "allow_pickle"
                and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)
            ]
    return faults


def taken_from_thread(tree: ast.Module) -> set[str]:
    """Return what subclasses of ``Thread`` set that some CPython keeps under the same name."""
    threads = [
        node
        for node in nodes(tree)
        if isinstance(node, ast.ClassDef)
        and {dotted(base) for base in node.bases} & {"Thread", "threading.Thread"}
    ]
    stored = {
        dotted(node).removeprefix("self.")
        for thread in threads
        for node in ast.walk(thread)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    return stored & OF_THREAD


def decided_by_text(tree: ast.Module) -> list[int]:
    """Return the lines that look for words in the text of an error, instead of at its class."""
    caught = {node.name for node in nodes(tree) if isinstance(node, ast.ExceptHandler)} | {"error"}
    said = {
        target.id
        for node in nodes(tree)
        if isinstance(node, ast.Assign) and is_text(node.value, caught, set())
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return [
        node.lineno
        for node in nodes(tree)
        if isinstance(node, ast.Compare | ast.Call | ast.Match)
        and any(is_text(each, caught, said) for each in looked_at(node))
    ]


def looked_at(node: ast.Compare | ast.Call | ast.Match) -> list[ast.expr]:
    """Return the expressions whose content decides what ``node`` is."""
    match node:
        case ast.Compare(left=left, comparators=others):
            return [left, *others]
        case ast.Match(subject=subject):
            return [subject]
        case ast.Call(func=ast.Attribute(ast.Name("re"))):
            return node.args
        case ast.Call(func=ast.Attribute(value, "startswith" | "endswith" | "find" | "count")):
            return [value]
    return []


def is_text(node: ast.expr, caught: set[str | None], said: set[str]) -> bool:
    """Tell whether ``node`` is the text of one of the errors ``caught``, or in a name ``said``."""
    match node:
        case ast.Call(ast.Name("str" | "repr"), [ast.Name(name) | ast.Attribute(attr=name)]):
            return name in caught
        case ast.FormattedValue(ast.Name(name)) | ast.Attribute(ast.Name(name), "args"):
            return name in caught
        case ast.Name(name):
            return name in said
        case ast.JoinedStr(values=parts):
            return any(is_text(part, caught, said) for part in parts)
        case ast.Subscript(value=value) | ast.Call(ast.Attribute(value, "lower" | "casefold")):
            return is_text(value, caught, said)
    return False


@every("streamlink", "benchmarks", "examples", "tests")
def test_nothing_is_pickled(path: Path) -> None:
    assert not pickling(read(path))


@every("streamlink")
def test_the_environment_is_read_on_the_command_line_only(path: Path) -> None:
    if part_of(path) in {"cli", "__main__"}:
        return
    used = [node for node in nodes(read(path)) if isinstance(node, ast.Attribute)]
    assert not [n.lineno for n in used if dotted(n) in {"os.environ", "os.getenv", "os.environb"}]


@every("streamlink")
def test_a_module_is_no_longer_than_one_can_read(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= MAX_LINES


@every("streamlink", "benchmarks", "examples", "tests")
def test_a_thread_of_ours_takes_no_attribute_of_the_interpreters_own(path: Path) -> None:
    assert not taken_from_thread(read(path))


@every("streamlink")
def test_no_branch_depends_on_the_words_of_an_error(path: Path) -> None:
    assert not decided_by_text(read(path)), "raise a class of its own there, and catch that"


@every("streamlink", "benchmarks", "examples", "tests")
def test_a_class_says_what_it_is(path: Path) -> None:
    classes = [node.name for node in nodes(read(path)) if isinstance(node, ast.ClassDef)]
    assert not [name for name in classes if name.endswith(VAGUE)]


# --- where tests are --------------------------------------------------------

TESTS = ROOT / "tests"
MIRRORED = sorted(
    path
    for path in TESTS.rglob("*")
    if (PACKAGE / path.relative_to(TESTS)).is_dir() and path.name != "__pycache__"
)


@pytest.mark.parametrize("folder", MIRRORED, ids=name_of)
def test_a_folder_of_tests_has_those_of_the_modules_it_mirrors(folder: Path) -> None:
    of = PACKAGE / folder.relative_to(TESTS)
    modules = [path.stem for path in of.glob("*") if path.suffix == ".py" or path.is_dir()]
    files = [path.stem.removeprefix("test_") for path in folder.glob("test_*.py")]
    assert not [f for f in files if not any(names(f, module) for module in modules)], (
        "name these after a module (test_MODULE.py, test_MODULE_....py), or move them to scenarios/"
    )


def names(test: str, module: str) -> bool:
    return test == module or test.startswith(f"{module}_")


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_a_document_names_files_that_are_there(path: Path) -> None:
    named = re.findall(
        r"`((?:tests|streamlink|benchmarks|examples)/[\w./-]+)`", path.read_text("utf-8")
    )
    assert not [name for name in named if not (ROOT / name).exists()]


@pytest.mark.parametrize("part", ["protocol", "transport", "link", "rounds", "objects"])
def test_the_design_page_has_a_place_for_each_module(part: str) -> None:
    named = re.findall(r"`([\w/]+\.py)`", (ROOT / "docs" / "design.md").read_text("utf-8"))
    packages = {"grpc", "tcp", "mpi", "_generated"}  # one line each, as a whole
    modules = {
        path.name
        for path in (PACKAGE / part).rglob("*.py")
        if path.name != "__init__.py" and path.parent.name not in packages
    }
    missing = modules - {name.rpartition("/")[2] for name in named}
    assert not missing, f"give them a place in docs/design.md: {sorted(missing)}"


def test_tests_use_public_names_and_patch_nothing_of_ours() -> None:
    assert not broken(), "use public names (CONTRIBUTING.md)"


def test_an_attribute_that_hides_one_of_a_threads_is_noticed() -> None:
    text = "class T(threading.Thread):\n def __init__(self):\n  self._context, self._mine = 1, 2"
    assert taken_from_thread(ast.parse(text)) == {"_context"}
    assert not taken_from_thread(ast.parse(text.replace("threading.Thread", "object")))


@pytest.mark.parametrize(
    ("line", "is_fault"),
    [
        ("if 'limits.' not in str(e): raise", True),
        ("if 'full' in e.args[0].lower(): pass", True),
        ("if f'{e}' == 'gone': pass", True),
        ("if str(self.error).startswith('no'): pass", True),
        ("if re.search('no', repr(e)): pass", True),
        ("text = str(e)\n if 'no' in text: pass", True),
        ("match str(e):\n  case 'no': pass", True),
        ("raise OSError(str(e) or 'it failed') from e", False),
        ("if e.reason == 'no': pass", False),
        ("if 'limits.' in str(path): pass", False),
    ],
)
def test_a_branch_on_the_words_of_an_error_is_noticed(line: str, is_fault: bool) -> None:
    tree = ast.parse(f"try: pass\nexcept OSError as e:\n {line}")
    assert bool(decided_by_text(tree)) is is_fault


@pytest.mark.parametrize(
    ("line", "is_fault"),
    [
        ("import pickle", True),
        ("from torch import load", True),
        ("model = torch.load(path)", True),
        ("numpy.load(path, allow_pickle=True)", True),
        ("numpy.load(path, allow_pickle=flag)", True),
        ("numpy.load(path, allow_pickle=False)", False),
        ("store.load(path)", False),
    ],
)
def test_pickling_is_noticed(line: str, is_fault: bool) -> None:
    assert bool(pickling(ast.parse(line))) is is_fault
