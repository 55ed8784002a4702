"""Schedules: facts of a task that change from round to round, such as a learning rate.

Each is given to ``ScatterAndGather(schedules={"lr": ...})``, as one of these or as a function of
the round's number; or by its text, in ``RoundConfig.schedules`` or with ``--schedules``. Clients
read them in ``Task.metadata``.
"""

from streamlink.rounds.schedule import (
    Constant,
    Cosine,
    Linear,
    Schedule,
    Schedules,
    Step,
    schedules_of,
)

__all__ = ["Constant", "Cosine", "Linear", "Schedule", "Schedules", "Step", "schedules_of"]
