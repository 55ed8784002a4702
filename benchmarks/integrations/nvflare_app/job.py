"""Makes the measured job, and runs it: in the simulator, or as an administrator of a POC system.

python -m benchmarks.integrations.nvflare_app.job simulate FOLDER
python -m benchmarks.integrations.nvflare_app.job provision FOLDER PORT
python -m benchmarks.integrations.nvflare_app.job submit FOLDER SIDE=PID,...
"""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from nvflare.app_common.workflows.fedavg import FedAvg
from nvflare.client.config import ExchangeFormat
from nvflare.fuel.utils.constants import FrameworkType
from nvflare.job_config.api import FedJob
from nvflare.job_config.script_runner import ScriptRunner

from benchmarks.integrations import inside
from benchmarks.integrations.nvflare_app import components

ADMIN = "admin@nvidia.com"


def the_job(folder: Path) -> FedJob:
    case = inside.facts()
    job = FedJob(name="measured", min_clients=case["clients"])
    second = case["line"] == "second"
    if second:
        from benchmarks.integrations.nvflare_app.stored import CheckedStorePersistor
        from streamlink.integrations.nvflare import StoreAggregator

        job.to_server(CheckedStorePersistor(first_model(folder)), id="persistor")
        aggregator = StoreAggregator()
    else:
        job.to_server(components.ArraysPersistor(), id="persistor")
        aggregator = None
    job.to_server(
        (components.ImpatientFedAvg if case["failure"] == "unfetched" else FedAvg)(
            num_clients=case["clients"],
            num_rounds=case["rounds"],
            persistor_id="persistor",
            aggregator=aggregator,
            enable_tensor_disk_offload=case["line"] != "bare",
        )
    )
    job.to_server(components.ServerProbe(), id="server_probe")
    script = ScriptRunner(
        script=str(Path(__file__).with_name("site.py")),
        framework=FrameworkType.NUMPY,
        server_expected_format=ExchangeFormat.NUMPY,
    )
    job.to_clients(script)
    job.to_clients(components.SiteProbe(), id="site_probe")
    return job


def first_model(folder: Path) -> str:
    """Store the case's first model, range by range, and return its path."""
    import numpy as np

    import streamlink
    from streamlink.model import GeneratedModel, ModelSpec, TensorSpec

    case = {"float32": "F32", "float64": "F64", "float16": "F16"}[inside.facts()["dtype"]]
    spec = ModelSpec(
        tuple(TensorSpec(name, case, (n,)) for name, n in inside.names_and_lengths().items())
    )

    def fill(tensor: TensorSpec, start: int, out: Any) -> None:
        values = inside.first_values(inside.number_of(tensor.name), start, len(out))
        np.copyto(out, values, casting="unsafe")

    path = folder / "first-model"
    streamlink.copy_model(GeneratedModel(spec, fill), streamlink.open_store(path))
    return str(path)


def simulate(folder: Path) -> None:
    clients = inside.facts()["clients"]
    job = the_job(folder)
    job.simulator_run(str(folder / "simulation"), n_clients=clients, threads=clients)


def provision(folder: Path, port: str) -> None:
    """Make the startup kits of a POC system whose server has this port."""
    import yaml
    from nvflare.tool.poc.poc_commands import prepare_poc_provision

    (folder / "poc").mkdir()
    names = [f"site-{number}" for number in range(1, inside.facts()["clients"] + 1)]
    prepare_poc_provision([], len(names), str(folder / "poc"), "", False, "", None)
    project = yaml.safe_load((folder / "poc" / "project.yml").read_text())
    for each in project["participants"]:
        if each["type"] == "server":
            each["fed_learn_port"] = int(port)
    (folder / "project.yml").write_text(yaml.safe_dump(project))
    shutil.rmtree(folder / "poc")
    prepare_poc_provision(
        [], len(names), str(folder / "poc"), "", False, str(folder / "project.yml")
    )


def submit(folder: Path, parents: str) -> None:
    """Submit the job, and wait for its end; ``parents`` are idle before that: side=process,..."""
    from nvflare.fuel.flare_api.flare_api import new_secure_session

    the_job(folder).export_job(str(folder / "jobs"))
    kit = next((folder / "poc").glob(f"*/prod_00/{ADMIN}"))
    session = new_secure_session(ADMIN, str(kit), timeout=60.0)
    try:
        idle = [each.split("=") for each in parents.split(",")]
        for event in ("idle", "idle ended"):
            for side, process in idle:
                inside.mark(event, side=side, pid=int(process))
            inside.wait_for_looks(os.environ["STREAMLINK_MARKS"])
        number = session.submit_job(str(folder / "jobs" / "measured"))
        inside.mark("submitted", job=number)
        code = session.monitor_job(number, timeout=3600.0, poll_interval=1.0)
        status = session.get_job_meta(number).get("status")
        inside.mark("job ended", status=status, code=str(code))
    finally:
        session.close()


if __name__ == "__main__":
    verb, where, *more = sys.argv[1:]
    if verb == "simulate":
        simulate(Path(where))
    elif verb == "provision":
        provision(Path(where), *more)
    else:
        submit(Path(where), *more)
