"""Documents are read in a terminal, too: prose wraps, and what they name is there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.public_types import NAMESPACES, public_names

ROOT = Path(__file__).parents[1]
FOLDERS = ("docs", "benchmarks", "examples")
DOCUMENTS = [
    *ROOT.glob("*.md"),
    *(path for name in FOLDERS for path in (ROOT / name).rglob("*.md")),
]
MOST_LETTERS = 120


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines that can be wrapped: no code, no table, no long address."""
    is_code = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not (is_code or line.lstrip().startswith("|") or "](http" in line):
            yield number, line


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_prose_wraps(path: Path) -> None:
    text = path.read_text("utf-8")
    assert too_long(text) == []


def too_long(text: str) -> list[str]:
    """Return the lines that have to be wrapped, as an editor numbers them."""
    return [
        f"line {number} has {len(line)} characters: {line}"
        for number, line in prose(text)
        if len(line) > MOST_LETTERS
    ]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_link_to_a_file_leads_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text("utf-8"))
    assert [link for link in links if not (path.parent / link).exists()] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_link_to_a_heading_leads_to_one(path: Path) -> None:
    links = re.findall(r"\]\(([^)#:]*)#([^)]+)\)", path.read_text("utf-8"))
    documents = [(path.parent / name if name else path, heading) for name, heading in links]
    assert [heading for document, heading in documents if heading not in headings(document)] == []


def headings(path: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a document."""
    titles = re.findall(r"^#+ (.+)$", path.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_readme_names_every_namespace() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert [name for name in NAMESPACES if f"`streamlink.{name}`" not in text] == []


FOR_USERS = [path for path in DOCUMENTS if path.name not in ("design.md", "CONTRIBUTING.md")]


@pytest.mark.parametrize("path", FOR_USERS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_code_in_a_document_uses_names_that_are_public(path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", path.read_text("utf-8"), re.DOTALL)
    public = public_names().keys() | {f"streamlink.{name}" for name in NAMESPACES}
    used = {name for block in blocks for name in names_of_ours(ast.parse(block))}
    # An integration is a namespace, too; its names can be asked for beside the framework only.
    used = {name for name in used if not name.startswith("streamlink.integrations.")}
    assert used - public - {"streamlink"} == set()


def names_of_ours(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), names=names) if "streamlink" in module:
                yield from (f"{module}.{each.name}" for each in names)
            case ast.Attribute(value=ast.Name("streamlink"), attr=name):
                yield f"streamlink.{name}"


def test_only_lines_that_can_be_wrapped_are_counted() -> None:
    text = "a line\n```\ncode\n```\n| table |\n[page](https://there)\nthe end"
    assert [line for _, line in prose(text)] == ["a line", "the end"]


def test_a_line_that_is_too_long_is_named_by_its_number_and_its_text() -> None:
    long = "x" * 121
    text = f"```\ncode\n```\n| table |\na\x0cform feed, which ends no line\n{long}\n"
    assert too_long(text) == [f"line 6 has 121 characters: {long}"]


def walk_of_a_chunk() -> str:
    text = (ROOT / "docs" / "design.md").read_text("utf-8")
    return text.partition("### One chunk, in the order it travels")[2].partition("\n## ")[0]


def modules_of_ours() -> list[str]:
    package = ROOT / "streamlink"
    return [path.relative_to(package).as_posix() for path in package.rglob("*.py")]


def test_each_function_in_the_walk_of_a_chunk_is_in_the_file_it_is_named_with() -> None:
    walk, named = walk_of_a_chunk(), set(re.findall(r"`(\w+/[\w/]*\.py)`", walk_of_a_chunk()))
    assert named <= set(modules_of_ours())
    for name, function in re.findall(r"`([\w/]+\.py)` `(?:\w+\.)?(\w+)`", walk):
        paths = [path for path in named if path == name or path.endswith(f"/{name}")]
        assert len(paths) == 1, f"{name} is not one file of the walk: {paths}"
        source = (ROOT / "streamlink" / paths[0]).read_text("utf-8")
        assert re.search(rf"\b(def|class) {function}\b", source), f"{name} has no {function}"
