"""Runs FLARE's own hello-numpy and hello-pt over streamlink, and prints what was changed in them.

    python -m benchmarks.integrations.nvflare_app.published EXAMPLES/hello-numpy FOLDER [--poc] ...

EXAMPLES is ``examples/hello-world`` of a checkout of FLARE, of which nothing is kept here; FOLDER
gets the changed copy, which is run there. What follows is passed on to the published ``job.py``.

Changed is the environment in POC mode, the data set of hello-pt (tensors of CIFAR-10's shape, made
from a seed), and where TensorBoard is missing, the line that asks for it.
"""

from __future__ import annotations

import ast
import difflib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

IMAGES = 64
DATA = """\
    images = torch.rand({count}, 3, 32, 32, generator=torch.Generator().manual_seed({seed}))
    {name} = torch.utils.data.TensorDataset(images, torch.arange({count}) % 10)
""".format

Edit = tuple[int, int, str]
"""The first line that is replaced (from 1), the last one, and what comes in their place."""


def data_edits(text: str) -> Iterator[Edit]:
    """Yield what takes torchvision and its data sets out of a script."""
    for node in ast.walk(ast.parse(text)):
        span = (getattr(node, "lineno", 0), getattr(node, "end_lineno", 0) or 0)
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = {getattr(node, "module", ""), *(each.name for each in node.names)}
            if any(str(each).startswith("torchvision") for each in modules):
                yield *span, ""
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "transform":
            yield *span, ""
        elif isinstance(node, ast.If) and "torchvision.datasets" in ast.unparse(node):
            sets = [DATA(name=name, seed=seed, count=IMAGES) for seed, name in enumerate(SETS)]
            yield *span, "".join(sets)


SETS = ("train_set", "test_set")
PATIENCE = {"login_timeout": 120.0}


def job_edits(text: str, *, poc: bool) -> Iterator[Edit]:
    """Yield what a job needs to run in POC mode, and without TensorBoard where that is missing."""
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if "add_experiment_tracking(" in line and find_spec("tensorboard") is None:
            yield number, number, ""
        elif poc and "SimEnv" in line:
            new = re.sub(r", log_config=[^,)]*", "", line).replace("Sim", "Poc")
            # After 10 s FLARE would not wait for its own server, which a busy machine starts later.
            yield number, number, re.sub(r"\)$", f", extra={PATIENCE})", new)


def edited(text: str, edits: Iterator[Edit]) -> str:
    """Return the text with all edits made."""
    lines = text.splitlines(keepends=True)
    for first, last, new in sorted(edits, reverse=True):
        lines[first - 1 : last] = [new] if new else []
    return "".join(lines)


def change(folder: Path, *, poc: bool) -> None:
    """Change the scripts in ``folder``, and print the diff."""
    for name in ("job.py", "client.py"):
        old = (folder / name).read_text()
        new = edited(old, job_edits(old, poc=poc) if name == "job.py" else data_edits(old))
        (folder / name).write_text(new)
        before, after = (text.splitlines(keepends=True) for text in (old, new))
        diff = difflib.unified_diff(before, after, f"published/{name}", name, n=0)
        sys.stdout.writelines(diff)
    sys.stdout.flush()


def main(published: Path, folder: Path, options: list[str]) -> int:
    shutil.copytree(published, folder, dirs_exist_ok=True)
    change(folder, poc="--poc" in options)
    passed_on = [each for each in options if each != "--poc"]
    return subprocess.call([sys.executable, "job.py", *passed_on], cwd=folder, env=os.environ)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))
