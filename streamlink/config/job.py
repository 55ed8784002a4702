"""The settings of a job: those of its links and the rules of its rounds, from every source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, Field, model_validator

from streamlink.config.files import load_yaml, sections
from streamlink.config.link import MAX_CLIENTS, GrpcConfig, LinkConfig
from streamlink.config.values import Patterns, Seconds, Settings, Size

__all__ = ["JobConfig", "RoundConfig"]


class RoundConfig(Settings):
    """Rules for scatter and gather; the names are those of NVIDIA FLARE."""

    min_clients: int = Field(default=2, ge=1, le=MAX_CLIENTS)
    """The complete updates that a round needs (count)."""

    num_rounds: int = Field(default=3, ge=1)
    """How many rounds to run (count)."""

    start_round: int = Field(default=0, ge=0)
    """Number of the first round."""

    wait_time_after_min_received: float = Field(default=10.0, ge=0)
    """How long a round waits for a lost client to return, and a spooled round with enough updates
    for late clients (seconds)."""

    train_timeout: float = Field(default=0.0, ge=0)
    """The longest time of a round after its task was first sent (seconds); 0: no limit."""

    train_task_name: str = "train"
    """Name of the task that is sent to the clients."""

    wait_for_clients: int = Field(default=0, ge=0, le=MAX_CLIENTS)
    """The first round waits for this number of clients (count); 0: for ``min_clients``. After
    ``wait_for_clients_seconds`` it starts with ``min_clients``."""

    wait_for_clients_seconds: Seconds = 120.0
    """How long the first round waits for clients to connect (seconds)."""

    gather: Literal["auto", "lockstep", "spool"] = "auto"
    """How updates are gathered: ``lockstep`` averages them while they arrive and needs all of them;
    ``spool`` stores each one and can end without stragglers; ``auto`` is spool if a spool directory
    is set and more than ``min_clients`` clients are connected, else lockstep."""

    take_first: int = Field(default=0, ge=0, le=MAX_CLIENTS)
    """How many updates a spooled round counts: the first that arrive, and no other (count). The
    round ends with the last of them. 0: all that arrive in time. It needs ``gather: spool``, and
    at least ``min_clients``."""

    weights: Literal["given", "equal"] = "given"
    """The weights in the mean: those that the clients give, such as numbers of samples, or equal
    weights."""

    non_finite: Literal["accept", "reject", "fail"] = "reject"
    """NaN or infinity in an update: average it (``accept``), continue without that update
    (``reject``; a lockstep round then needs a new attempt), or fail the round (``fail``)."""

    aggregator: str = "mean"
    """How updates become the new model: NAME, or NAME:SETTING=VALUE,SETTING=VALUE. ``mean`` is
    their weighted mean (FedAvg), ``median`` and ``trimmed_mean:beta=0.2`` withstand updates that
    are wrong, ``fedavgm:eta=1,beta=0.9`` (server momentum) and
    ``fedadam:eta=0.1,beta1=0.9,beta2=0.99,tau=0.001`` are optimizers on the server, which keep a
    state."""

    clip_norm: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """The largest L2 norm of what an update may change (the model's unit); longer ones are
    shortened to it. 0: none is. In lockstep each client must declare the norm of its update, since
    it is needed before the first byte is used; with ``gather: spool`` the server computes those
    that are not declared, in a first pass over the stored update."""

    schedules: str = ""
    """Facts that tasks get and that change from round to round, separated by semicolons, each as
    FACT=NAME:SETTING=VALUE,SETTING=VALUE. The names are ``constant``, ``step``, ``linear`` and
    ``cosine``, such as ``lr=step:start=0.1,every=10``."""

    choose: str = "all"
    """Which of the connected clients a round asks: ``all``, or a share of them that is drawn anew
    for each round: ``fraction:share=0.1,least=2,seed=7``."""

    part: Patterns = ()
    """Patterns (``*``, ``?``, ``[]``) of the tensors that clients send back, separated by commas;
    empty: all. The other tensors do not change."""

    duplex_bytes: Size = Field(default=0, ge=0)
    """Memory for ranges of the next model that are sent while updates still arrive (bytes); 0: off.
    It needs lockstep rounds, and clients with memory or disk for two models. A round that
    ``gather: auto`` spools makes no use of it."""

    max_attempts: int = Field(default=3, ge=1)
    """Most attempts of one round (count). It also bounds how often a lost client may return within
    a round."""

    evaluate_every: int = Field(default=0, ge=0)
    """How many rounds lie between two evaluations of the new model at the clients (count); the last
    model is evaluated, too. 0: none is."""

    evaluate_timeout: float = Field(default=0.0, ge=0)
    """The longest time of an evaluation at one client, transfer included (seconds); 0: no limit as
    long as it makes progress."""

    min_evaluate_clients: int = Field(default=1, ge=1, le=MAX_CLIENTS)
    """The clients whose metrics an evaluation needs (count); with fewer it has no mean."""

    evaluate_task_name: str = "evaluate"
    """Name of the task with which a model is sent for evaluation."""

    best_metric: str = ""
    """The metric of the evaluations that decides which model is the best so far; empty: none is.
    It needs ``evaluate_every``."""

    best_mode: Literal["max", "min"] = "max"
    """Whether the best model has the largest or the smallest ``best_metric``."""

    patience: int = Field(default=0, ge=0)
    """The job ends after this number of evaluations in a row without a better ``best_metric``
    (count); 0: it runs all its rounds."""

    min_delta: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """By how much ``best_metric`` must be better to count for ``patience`` (the metric's unit)."""

    @model_validator(mode="after")
    def _has_what_it_judges_by(self) -> Self:
        if self.best_metric and not self.evaluate_every:
            raise ValueError(
                f"best_metric is {self.best_metric!r}, and no model is evaluated; set "
                "evaluate_every (--evaluate-every 1)"
            )
        if self.patience and not self.best_metric:
            raise ValueError("patience needs best_metric, the metric to watch (--best-metric)")
        return self

    @model_validator(mode="after")
    def _can_take_the_first(self) -> Self:
        if not self.take_first:
            return self
        if self.gather != "spool":
            raise ValueError(
                f"take_first is {self.take_first}, and gather is {self.gather!r}: only a round "
                "that stores its updates can leave some out; set gather to spool (--gather spool "
                "--spool DIR)"
            )
        if self.take_first < self.min_clients:
            raise ValueError(
                f"take_first is {self.take_first}, but a round needs min_clients = "
                f"{self.min_clients} updates; raise take_first, or lower min_clients"
            )
        return self

    @model_validator(mode="after")
    def _can_send_ahead(self) -> Self:
        if self.duplex_bytes and self.gather == "spool":
            raise ValueError(
                f"duplex_bytes is {self.duplex_bytes}, and gather is 'spool': only a lockstep "
                "round knows ranges of the next model before all updates are here; leave out "
                "duplex_bytes, or set gather to lockstep (--gather lockstep)"
            )
        return self

    def is_evaluated(self, number: int, *, is_last: bool) -> bool:
        """Return whether the model of round ``number`` is evaluated at the clients."""
        every = self.evaluate_every
        return bool(every) and (is_last or (number - self.start_round + 1) % every == 0)

    @property
    def awaited_clients(self) -> int:
        """How many clients the first round waits for (count)."""
        return max(self.min_clients, self.wait_for_clients)

    def require_room(self, grpc: GrpcConfig) -> None:
        """Check that all clients that the job waits for can be connected at the same time.

        Raises:
            ValueError: they cannot, so the job would wait for ever; says what to change.
        """
        if (count := self.awaited_clients) <= grpc.max_clients:
            return
        name = "wait_for_clients" if count > self.min_clients else "min_clients"
        raise ValueError(
            f"rounds.{name} is {count}, but the server admits at most grpc.max_clients = "
            f"{grpc.max_clients} clients at once; raise grpc.max_clients to {count}, or lower "
            f"rounds.{name}"
        )


class JobConfig(LinkConfig):
    """All settings of a job: those of its links, and the rules of its rounds.

    One file can be used at both ends: a client ignores ``rounds``.
    """

    rounds: RoundConfig = RoundConfig()
    """The rules of a round."""

    @model_validator(mode="after")
    def _relations(self) -> Self:
        # A value that the user gave is never raised: it may be what the machine can bear.
        # ``require_room`` then reports the conflict.
        awaited = self.rounds.awaited_clients
        if self.is_max_clients_set or awaited <= self.grpc.max_clients:
            return self
        if memory := self.stream.memory_bytes:
            raise ValueError(
                f"stream.memory_bytes ({memory}) is enough for {self.grpc.max_clients} clients, "
                f"and the job waits for {awaited}; set it to {(awaited + 1) * self.client_bytes} "
                "or more, or lower rounds.min_clients, stream.min_chunk_bytes or limits.max_streams"
            )
        self._admit(awaited)
        return self

    @classmethod
    def assemble(
        cls,
        file: str | Path | None = None,
        settings: Sequence[str] = (),
        overrides: Mapping[str, object] | None = None,
    ) -> Self:
        """Build the settings of a job from a file and from options.

        Precedence: ``overrides``, then ``settings``, then ``file``, then the defaults.

        Args:
            file: YAML with the sections ``stream``, ``timeouts``, ``grpc``, ``limits``,
                ``security`` and ``rounds``.
            settings: each ``"section.key=value"``, such as ``"stream.chunk_bytes=4MiB"``; if a key
                is given twice, the last value counts.
            overrides: ``"section.key"`` to value; None: not set.

        Raises:
            ValueError: a setting is not of that form, or the file is not a mapping of settings.
            ValidationError: a key is unknown, or a value is not allowed; both are named.
            OSError: the file cannot be read.
        """
        # In ascending precedence, each over the one before. Validated once, at the end: a relation
        # between two keys may be broken by one source and mended by the next.
        values = sections(load_yaml(file)) if file is not None else {}
        for setting in settings:
            name, equals, text = setting.partition("=")
            if not equals:
                raise ValueError(f"setting {setting!r} is not of the form section.key=value")
            _put(values, name.strip(), text.strip())
        for name, value in (overrides or {}).items():
            if value is not None:
                _put(values, name, value)
        return cls.model_validate(values)


def _put(values: dict[str, Any], name: str, value: object) -> None:
    section, dot, key = name.partition(".")
    if not (section and dot and key):
        full = _in_section(name)
        raise ValueError(f"setting {name!r} names no section; write it as {full}=value")
    there = values.setdefault(section, {})
    if isinstance(there, dict):  # pydantic refuses a section that is not a mapping, by its name
        there[key] = value


def _in_section(key: str) -> str:
    """Return the setting's full name, if exactly one section has such a key."""
    found = [
        f"{section}.{key}"
        for section, field in JobConfig.model_fields.items()
        if isinstance(field.annotation, type)
        and issubclass(field.annotation, BaseModel)
        and key in field.annotation.model_fields
    ]
    return found[0] if len(found) == 1 else "section.key"
