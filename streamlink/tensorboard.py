"""TensorBoard: the metrics of a job as curves, while it runs.

    with TensorBoardWriter("runs/job") as curves:
        ScatterAndGather(server, store, rules, on_event=curves).run()

Writing needs nothing but streamlink; the extra ``tensorboard`` brings the program that shows them:
``tensorboard --logdir runs``.
"""

from streamlink.operate.tensorboard import TensorBoardWriter

__all__ = ["TensorBoardWriter"]
