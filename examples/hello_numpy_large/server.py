"""The job's server: makes the initial model, runs the rounds, verifies every element of the result.

Started by ``run.py``; by hand it is ``python server.py --store DIR --listen HOST:PORT``.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
import verify
import weights

import streamlink
from streamlink.config import GrpcConfig, parse_size
from streamlink.fleet import Reporter
from streamlink.model import GeneratedModel


def main(
    store: Annotated[Path, typer.Option(help="Where the global model lives.")],
    keys: Annotated[int, typer.Option(help="Number of arrays.")] = 64,
    key_size: Annotated[str, typer.Option(help="Size of each, such as 16MB or 2GB.")] = "16MB",
    clients: Annotated[int, typer.Option(help="Clients each round needs.")] = 2,
    rounds: Annotated[int, typer.Option(help="Number of rounds.")] = 3,
    kind: Annotated[str, typer.Option("--weights", help="pattern or random.")] = "pattern",
    compress: Annotated[str, typer.Option(help="none or zstd.")] = "none",
    listen: Annotated[
        str, typer.Option(help="host:port; port 0 takes a free one.")
    ] = "127.0.0.1:0",
    insecure: Annotated[bool, typer.Option(help="Plain text beyond this machine.")] = False,
    report_fd: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Serve the job and verify its result; exit code 1 where an element is wrong."""
    streamlink.tune_allocator()
    reporter = Reporter(report_fd)
    model_store = streamlink.open_store(store, "zstd" if compress == "zstd" else "none")
    reporter.report_base()
    make_initial(model_store, weights.spec(keys, parse_size(key_size)), kind, reporter)
    security = streamlink.SecurityConfig(insecure=insecure)
    done = serve(model_store, listen, clients, rounds, reporter, security)
    result = check(model_store, kind, [sorted(each.weights) for each in done], reporter)
    reporter.report_usage()
    if report_fd is None:  # started by hand: nobody else says it
        print(f"{'verified' if result.is_exact else 'WRONG'}: {result}")
    sys.exit(0 if result.is_exact else 1)


def make_initial(
    store: streamlink.ModelStore,
    spec: streamlink.ModelSpec,
    kind: str,
    reporter: Reporter,
) -> None:
    """Compute the initial model range by range, straight into the store."""
    began = time.monotonic()
    initial = GeneratedModel(spec, weights.fill(kind))
    with streamlink.show_progress(list) as progress:
        streamlink.copy_model(
            initial,
            store,
            progress=lambda done: progress.update(
                "store", "initial model", min(done, spec.nbytes), spec.nbytes
            ),
        )
    reporter.report(initial_seconds=round(time.monotonic() - began, 2))


def serve(
    store: streamlink.ModelStore,
    listen: str,
    clients: int,
    rounds: int,
    reporter: Reporter,
    security: streamlink.SecurityConfig,
) -> list[streamlink.RoundReport]:
    """Run the rounds and return what each gave."""
    carrier = GrpcConfig(max_clients=max(clients, 16))
    config = streamlink.LinkConfig(grpc=carrier, security=security)
    carried: Counter[str] = Counter()

    def count(facts: streamlink.TransferFacts) -> None:
        carried[facts.carrier] += facts.bytes

    with streamlink.Server(listen, config, on_transfer=count) as server:
        reporter.report(port=server.port)
        rules = streamlink.RoundConfig(min_clients=clients, num_rounds=rounds)
        job = streamlink.ScatterAndGather(server, store, rules, job="hello_numpy_large")
        server.wait_for_peers(clients, rules.wait_for_clients_seconds)
        started = time.monotonic()
        with streamlink.show_progress(job.client_progress):
            done = job.run()
        seconds = time.monotonic() - started
        sent, received = server.wire_bytes
    reporter.report(
        seconds=round(seconds, 2),
        rounds_seconds=[round(each.seconds, 2) for each in done],
        contributors=[sorted(each.weights) for each in done],
        wire_bytes_sent=sent,
        wire_bytes_received=received,
        carried_bytes=carried,
        server_peak_bytes=job.peak_bytes(clients),
    )
    return done


def check(
    store: streamlink.ModelStore,
    kind: str,
    contributors: list[list[str]],
    reporter: Reporter,
) -> verify.VerifyReport:
    """Compare every element of the stored model with what these contributors should have made."""
    began = time.monotonic()
    model = store.open()
    total = model.spec.nbytes
    with streamlink.show_progress(list) as progress:
        report = verify.verify(
            model,
            kind,
            [[client_number(name) for name in names] for names in contributors],
            lambda done: progress.update("store", "verifying", done, total),
        )
    reporter.report(
        verified=report.is_exact,
        verdict=str(report),
        verify_seconds=round(time.monotonic() - began, 2),
        final_digest=model.digest() if hasattr(model, "digest") else streamlink.digest_of(model),
        stored_bytes=getattr(model, "stored_bytes", total),
    )
    model.close()
    return report


def client_number(name: str) -> int:
    """Return the number, from 0, of the client called "site-1", "site-2", ..."""
    return int(name.removeprefix("site-")) - 1


if __name__ == "__main__":
    typer.run(main)
