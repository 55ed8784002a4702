"""Train a classifier over three sites, each with data of its own; keep the best model.

python examples/quickstart_torch/train.py DIR, then: tensorboard --logdir DIR/runs
"""

import sys
import threading

import torch
from torch import nn

import streamlink
from streamlink.tensorboard import TensorBoardWriter

RULES = streamlink.RoundConfig(
    min_clients=3, num_rounds=20, schedules="lr=cosine:start=0.5,rounds=20",
    evaluate_every=1, best_metric="accuracy", patience=8,
)  # fmt: skip


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2))


def take_part(address: str, number: int) -> None:
    points = torch.randn(600, 2, generator=torch.Generator().manual_seed(number))
    labels = (points.norm(dim=1) > 1).long()  # is it outside the circle?

    def train(model: nn.Module, task: streamlink.Task) -> streamlink.TaskResult:
        optimizer = torch.optim.SGD(model.parameters(), lr=float(task.metadata["lr"]))
        for _ in range(10):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(points[:400]), labels[:400])
            loss.backward()
            optimizer.step()
        return streamlink.TaskResult(weight=400, metrics={"loss": loss.item()})

    def evaluate(model: nn.Module, task: streamlink.Task) -> dict[str, float]:
        is_right = model(points[400:]).argmax(dim=1) == labels[400:]
        return {"accuracy": is_right.float().mean().item()}

    work = streamlink.WholeExecutor(train, network(), evaluate=evaluate)
    with streamlink.Client(address, f"site-{number}", work) as client:
        client.run()


folder = sys.argv[1]
torch.manual_seed(1)
store = streamlink.open_store(f"{folder}/model")
streamlink.copy_model(network(), store)
with streamlink.Server("127.0.0.1:0") as server, TensorBoardWriter(f"{folder}/runs") as curves:
    for number in (1, 2, 3):  # elsewhere they would be programs of their own
        threading.Thread(target=take_part, args=(server.address, number)).start()
    job = streamlink.ScatterAndGather(server, store, RULES, best=f"{folder}/best", on_event=curves)
    reports = job.run()
for report in reports:
    found = report.evaluation.metrics if report.evaluation else {}
    print(f"round {report.round}: {found}{' best' * report.is_best}{report.stopped}")
best = network()
streamlink.copy_model(f"{folder}/best", best)  # a torch module again
