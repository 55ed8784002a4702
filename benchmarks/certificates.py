"""Certificates for a run, made by ``streamlink certs``."""

from __future__ import annotations

import subprocess
import sys

__all__ = ["make_certificates"]


def make_certificates(folder: str) -> None:
    """Make a CA and a server's certificate for the loopback.

    Raises:
        RuntimeError: it did not work; says why, such as a package that is missing.
    """
    command = [sys.executable, "-m", "streamlink", "certs", folder, "--server", "127.0.0.1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"no certificates could be made: {done.stderr.strip()}")
