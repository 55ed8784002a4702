"""Flower's own processes: a SuperLink with SuperNodes, or its simulation."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.integrations.running import CaseFailed, Running

__all__ = ["Federation", "Tls", "flwr_run", "flwr_variables", "free_ports", "simulated"]

REPOSITORY = Path(__file__).resolve().parents[2]
END_SECONDS = 60.0
RUN_SECONDS = 3600.0
RAY_GAVE_UP = "The current node timed out during startup"
RAY_STARTS = 3  # Ray has 30 s to start, which is too short on a busy machine

Variables = dict[str, str]


class Tls:
    """A CA, and certificates for a server at 127.0.0.1 and for each site; see ``streamlink certs``.

    Args:
        folder: where they are made.
        sites: the names of the sites.
    """

    def __init__(self, folder: Path, sites: Sequence[str]) -> None:
        words = ["certs", str(folder), "--server", "127.0.0.1"]
        words += [word for site in sites for word in ("--site", site)]
        command = [sys.executable, "-m", "streamlink", *words]
        subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
        self.folder = folder
        self.ca = folder / "server" / "ca.pem"

    def pair(self, name: str) -> tuple[Path, Path]:
        """Return certificate and key of a site, or of ``server``."""
        return self.folder / name / "certificate.pem", self.folder / name / "key.pem"

    def node_key(self, name: str) -> Path:
        """Make the key by which Flower knows a node; the public half has the suffix ``.pub``."""
        from cryptography.hazmat.primitives import serialization as form
        from cryptography.hazmat.primitives.asymmetric import ec

        key, path = ec.generate_private_key(ec.SECP384R1()), self.folder / name / "node"
        path.write_bytes(
            key.private_bytes(form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption())
        )
        public = key.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
        path.with_suffix(".pub").write_bytes(public)
        return path


class Federation:
    """A SuperLink and SuperNodes as processes.

    Args:
        running: starts and ends them.
        env: their environment.
        tls: Flower's own port has TLS with these files; None: plain text.

    They install nothing: what an app needs is in their environment. Flower's SuperNodes do so by
    default, and on one machine those that install would share the folder of a run.
    """

    def __init__(self, running: Running, env: Variables, *, tls: Tls | None = None) -> None:
        self._running, self._env, self._tls = running, env, tls
        self.address = f"127.0.0.1:{free_ports(1)[0]}"
        self.nodes: list[subprocess.Popen[bytes]] = []
        self.link: subprocess.Popen[bytes] | None = None

    def start_link(self, *words: str, **env: str) -> None:
        """Start the SuperLink, and let ``flwr`` know it as ``case``."""
        trust = f'root-certificates = "{self._tls.ca}"' if self._tls else "insecure = true"
        write_connection(Path(self._env["FLWR_HOME"]), self.address, trust)
        port = self.address.rpartition(":")[2]
        security = ["--insecure"]
        if self._tls:
            certificate, key = map(str, self._tls.pair("server"))
            security = ["--ssl-certfile", certificate, "--ssl-keyfile", key]
            security += ["--ssl-ca-certfile", str(self._tls.ca)]
        install = "--disable-runtime-dependency-installation"
        command = [self._program("flower-superlink"), *security, "--port", port, install, *words]
        self.link = self._running.start("server", command, env={**self._env, **env})
        wait_for(int(port))

    def start_node(self, config: str, *words: str) -> None:
        """Start the next SuperNode, with this node configuration, and wait until it is there."""
        security = ["--root-certificates", str(self._tls.ca)] if self._tls else ["--insecure"]
        where = ["--superlink", self.address, "--port", str(free_ports(1)[0])]
        program = self._program("flower-supernode")
        command = [program, *security, *where, "--node-config", config, *words]
        side = f"site-{len(self.nodes) + 1}"
        self.nodes.append(self._running.start(side, command, env=self._env))
        wait_for_line(self._running.folder / f"{side}.log", "SuperNode ID")

    def close(self) -> None:
        """End all of them as an operator does, and wait for it."""
        everyone = [*self.nodes, *([self.link] if self.link else [])]
        for each in everyone:
            each.terminate()
        for each in everyone:
            self._running.end_of(each, seconds=END_SECONDS)
        require_nothing_left(self._running)

    def _program(self, name: str) -> str:
        return str(self._running.python.parent / name)


def flwr_variables(running: Running) -> Variables:
    """Return the environment of Flower's processes: all that they write is in the case's folder."""
    for name in ("home", "tmp"):
        (running.folder / name).mkdir(exist_ok=True)
    return {
        "PATH": os.pathsep.join([str(running.python.parent), os.environ["PATH"]]),
        "FLWR_HOME": str(running.folder / "home"),
        "TMPDIR": str(running.folder / "tmp"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
    }


def flwr_run(running: Running, app: Path, env: Variables, *words: str) -> subprocess.Popen[bytes]:
    """Start ``flwr run`` of the app, at the connection that was written last."""
    command = [running.python.parent / "flwr", "run", app, "case", "--stream", *words]
    return running.start("driver", command, env=env)


def simulated(running: Running, app: Path, env: Variables, *words: str) -> None:
    """Run the app in Flower's simulation, to its end, and end the SuperLink of the simulation.

    An environment for the app is made with uv, which finds this checkout as a wheel.
    """
    port, other = free_ports(2)
    env = {
        **env,
        "FLWR_LOCAL_SUPERLINK_HTTP_API_PORT": str(port),
        "FLWR_LOCAL_CONTROL_API_PORT": str(other),
        "UV_FIND_LINKS": wheel(running.folder / "wheel"),
    }
    number = running.case.clients
    write_connection(Path(env["FLWR_HOME"]), ":local:", f"options.num-supernodes = {number}")
    # ``flwr run`` uses the one that it finds. Its own has 15 s to start, which can be too short.
    where = ["--control-api-address", f"127.0.0.1:{other}", "--host", "127.0.0.1", "--port", port]
    program = running.python.parent / "flower-superlink"
    link = running.start("server", [program, "--insecure", "--simulation", *where], env=env)
    wait_for(port)
    for _ in range(RAY_STARTS):
        job = flwr_run(running, app, env, *words)
        running.finish(job, seconds=RUN_SECONDS)
        if RAY_GAVE_UP not in (running.folder / "driver.log").read_text("utf-8"):
            break
        remove_left(running)  # the process of the ServerApp was killed with it
        (running.folder / "driver.log").unlink()
    link.terminate()
    running.end_of(link, seconds=END_SECONDS)
    require_nothing_left(running)


def remove_left(running: Running) -> None:
    for path in (running.folder / "tmp").glob("streamlink-*"):
        shutil.rmtree(path)


def require_nothing_left(running: Running) -> None:
    """Wait for the end of every process.

    Raises:
        CaseFailed: one is still there, or files of ours are.
    """
    if processes := running.left_behind(END_SECONDS):  # Flower's executors look every few seconds
        raise CaseFailed(f"left behind: {processes}")
    if left := [path.name for path in (running.folder / "tmp").glob("streamlink-*")]:
        raise CaseFailed(f"left behind: {left}")


def wheel(folder: Path) -> str:
    """Build this checkout as a wheel; return what ``UV_FIND_LINKS`` has to be."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    return ",".join([str(folder), *os.environ.get("PIP_FIND_LINKS", "").split()])


def write_connection(home: Path, address: str, more: str) -> None:
    text = f'[superlink]\ndefault = "case"\n\n[superlink.case]\naddress = "{address}"\n{more}\n'
    (home / "config.toml").write_text(text)


def free_ports(count: int) -> list[int]:
    """Return ports that are free now: Flower takes no 0."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def wait_for(port: int, seconds: float = 120.0) -> None:
    give_up_at = time.monotonic() + seconds
    while time.monotonic() < give_up_at:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise CaseFailed(f"nobody listens on port {port}")


def wait_for_line(path: Path, text: str, seconds: float = 120.0) -> None:
    give_up_at = time.monotonic() + seconds
    while time.monotonic() < give_up_at:
        if path.exists() and text in path.read_text(errors="replace"):
            return
        time.sleep(0.1)
    raise CaseFailed(f"{path.name} never said {text!r}")
