"""Our sources, and what each of them imports, for the tests that judge every file."""

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from tests.support.parsing import nodes, read

__all__ = [
    "PACKAGE",
    "ROOT",
    "dotted",
    "every",
    "imported_by",
    "imports",
    "is_under",
    "name_of",
    "part_of",
    "sources",
]

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "streamlink"


def sources(*folders: str) -> list[Path]:
    """Return our Python files under ``folders``, without generated code."""
    found = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return sorted(path for path in found if "_generated" not in path.parts)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def every(*folders: str) -> Callable[[Callable[[Path], None]], Callable[[], None]]:
    """Make one test of the check of one file: of all of them, and it names each that fails."""

    def of_all(check: Callable[[Path], None]) -> Callable[[], None]:
        def test() -> None:
            wrong = {}
            for path in sources(*folders):
                try:
                    check(path)
                except AssertionError as error:
                    wrong[name_of(path)] = str(error)
            assert not wrong, "\n".join(f"{name}: {fault}" for name, fault in wrong.items())

        return test

    return of_all


def part_of(path: Path) -> str:
    """Return the top-level part a file of the package belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


# --- what a file imports ----------------------------------------------------


def imports(tree: ast.AST, package: str = "") -> Iterator[str]:
    """Yield the dotted name of everything imported: ``from a import b`` yields ``a.b``."""
    for node in nodes(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = ".".join(package.split(".")[: len(package.split(".")) - level + 1])
                start = ".".join(filter(None, [base if level else "", module or ""]))
                yield from (f"{start}.{alias.name}" for alias in names)
            case ast.Call(func=func, args=[ast.Constant(value=str(name)), *_]):
                if dotted(func).split(".")[-1] in {"import_module", "__import__"}:
                    yield name


def dotted(node: ast.expr) -> str:
    """Return ``a.b.c`` for an attribute chain, ``""`` for anything else."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            return f"{dotted(value)}.{attr}"
    return ""


def is_under(name: str, *tops: str) -> bool:
    return any(name == top or name.startswith(f"{top}.") for top in tops)


@cache
def imported_by(path: Path) -> frozenset[str]:
    package = ".".join(path.relative_to(ROOT).parent.parts)
    return frozenset(imports(read(path), package))
