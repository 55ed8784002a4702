"""The settings of a job: those of its links and the rules of its rounds, from every source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from streamlink.config.files import load_yaml, sections
from streamlink.config.link import MAX_CLIENTS, GrpcConfig, LinkConfig
from streamlink.config.values import Patterns, Seconds, Settings, Size

__all__ = ["JobConfig", "RoundConfig"]


class RoundConfig(Settings):
    """Scatter and gather, with the arguments users of NVIDIA FLARE know."""

    min_clients: int = Field(default=2, ge=1, le=MAX_CLIENTS)
    """A round needs this many whole updates (count)."""

    num_rounds: int = Field(default=3, ge=1)
    """How many rounds to run (count)."""

    start_round: int = Field(default=0, ge=0)
    """Number of the first round."""

    wait_time_after_min_received: float = Field(default=10.0, ge=0)
    """Grace for a client that dropped out to come back before the round goes on (seconds)."""

    train_timeout: float = Field(default=0.0, ge=0)
    """A round ends this long after its task was first offered (seconds); 0: no limit."""

    train_task_name: str = "train"
    """Name of the task the clients are given."""

    wait_for_clients: int = Field(default=0, ge=0, le=MAX_CLIENTS)
    """The first round waits for so many clients (count); 0: for ``min_clients``. It begins with
    ``min_clients`` when they have been waited for long enough."""

    wait_for_clients_seconds: Seconds = 120.0
    """How long the first round waits for clients to be there (seconds)."""

    gather: Literal["auto", "lockstep", "spool"] = "auto"
    """How updates are gathered: ``lockstep`` averages as they arrive and needs every one of them,
    ``spool`` stores each and lets stragglers go; ``auto``: spool where a directory was given for it
    and more clients are here than ``min_clients``, else lockstep."""

    weights: Literal["given", "equal"] = "given"
    """Whose weights count in the mean: those the clients give, such as samples; or all alike."""

    non_finite: Literal["accept", "reject", "fail"] = "reject"
    """NaN or infinity in an update: average it (``accept``), go on without that update, which costs
    a lockstep round an attempt (``reject``), or fail the round (``fail``)."""

    part: Patterns = ()
    """Patterns (``*``, ``?``, ``[]``) of the tensors clients send back; empty: all. The others stay
    as they are. As one text, separated by commas."""

    duplex_bytes: Size = Field(default=0, ge=0)
    """Memory for ranges of the next model that go down while updates still come up (bytes); 0: off.
    It takes a lockstep round, and clients that have room for two models."""

    max_attempts: int = Field(default=3, ge=1)
    """How many attempts one round may take: one, and one more for each it loses (count). A client
    that was lost may come back as often within a round."""

    @property
    def awaited_clients(self) -> int:
        """How many clients the first round waits for (count)."""
        return max(self.min_clients, self.wait_for_clients)

    def require_room(self, grpc: GrpcConfig) -> None:
        """Check that all clients a job waits for can be admitted at once.

        Raises:
            ValueError: they cannot, so the job would wait in vain; says what to change.
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

    One file serves both sides: a client does not look at ``rounds``.
    """

    rounds: RoundConfig = RoundConfig()
    """The rules of a round."""

    @model_validator(mode="after")
    def _relations(self) -> Self:
        if "max_clients" not in self.grpc.model_fields_set:
            self._admit(self.rounds.awaited_clients)
        return self

    def _admit(self, count: int) -> None:
        """Admit at least ``count`` clients, without marking ``max_clients`` as set by the user."""
        if count > self.grpc.max_clients:
            values = {**dict(self.grpc), "max_clients": count}
            given = self.grpc.model_fields_set
            # The model is frozen for its users; here it is still under construction.
            self.__dict__["grpc"] = GrpcConfig.model_construct(_fields_set=given, **values)

    @classmethod
    def assemble(
        cls,
        file: str | Path | None = None,
        settings: Sequence[str] = (),
        overrides: Mapping[str, object] | None = None,
    ) -> Self:
        """Build the settings of a job from where users write them.

        What is more particular wins: ``overrides`` over ``settings`` over ``file`` over defaults.

        Args:
            file: YAML with the sections ``stream``, ``timeouts``, ``grpc``, ``security`` and
                ``rounds``.
            settings: each ``"section.key=value"``, such as ``"stream.chunk_bytes=4MiB"``; of two
                for one key the later counts.
            overrides: ``"section.key"`` to value; None: not given.

        Raises:
            ValueError: a setting is not of that form, or the file is no mapping of settings.
            ValidationError: an unknown key, or a value that is not allowed; both are named.
            OSError: the file cannot be read.
        """
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
        raise ValueError(f"setting {name!r} names no section; write it as section.key=value")
    there = values.setdefault(section, {})
    if isinstance(there, dict):  # what is not is refused as a whole, by its name
        there[key] = value
