"""Tests use public names and patch nothing of ours: a private name may change without a test.

Pure modules (protocol, model, stores) are tested from inside in places, and are left out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.parsing import nodes, read

__all__ = ["broken"]

ROOT = Path(__file__).parents[2]
PURE = ("protocol", "model", "stores", "scenarios/protocol", "scenarios/stores")
PURE_SUPPORT = ("support/hostile_frames.py", "support/keeping.py", "support/torch_tensors.py")

# Faults of the system are made where the system is called.
SYSTEM = {
    "Path",
    "builtins",
    "fcntl",
    "json",
    "os",
    "shutil",
    "signal",
    "socket",
    "subprocess",
    "sys",
}
SYSTEM |= {"threading"}

PYTHONS = {"_exit", "_generated"}


def broken() -> list[str]:
    """Return what tests use or patch of ours, with file and line."""
    return [
        f"{path.as_posix()}, {each}"
        for path in sources()
        for each in faults(read(ROOT / "tests" / path))
    ]


def sources() -> list[Path]:
    tests = ROOT / "tests"
    found = [path.relative_to(tests) for path in tests.rglob("*.py")]
    mirrored = [path for path in found if not path.as_posix().startswith(PURE_SUPPORT)]
    return sorted(
        path for path in mirrored if not any(path.is_relative_to(folder) for folder in PURE)
    )


def faults(tree: ast.Module) -> Iterator[str]:
    """Yield every private name of somebody else, and everything of ours that is patched."""
    own = set(defined(tree))
    for node in nodes(tree):
        match node:
            case ast.Attribute(value=value, attr=name) if is_private(name) and name not in own:
                yield f"line {node.lineno}: {ast.unparse(value)}.{name}"
            case ast.ImportFrom(module=str(module), names=names) if module.startswith("streamlink"):
                yield from (f"line {node.lineno}: {n.name}" for n in names if is_private(n.name))
            case ast.Call(func=func, args=[target, ast.Constant(value=str(name)), *_]):
                if is_setattr(func) and not is_of_system(target) and not name.isupper():
                    yield f"line {node.lineno}: {name} of {ast.unparse(target)} is patched"


def defined(tree: ast.Module) -> Iterator[str]:
    """Yield the names that this file gives to what is its own."""
    for node in nodes(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in PYTHONS


def is_setattr(func: ast.expr) -> bool:
    return ast.unparse(func).split(".")[-1] == "setattr"


def is_of_system(target: ast.expr) -> bool:
    return ast.unparse(target).split(".")[0] in SYSTEM
