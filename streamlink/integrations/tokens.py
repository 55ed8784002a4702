"""Tokens that a framework's own channel brings to its clients, in files that have no name.

Settings of security are paths; nothing of these files is on a disk, or outlives the process.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
import weakref
from hashlib import sha256
from pathlib import Path

from streamlink.config import LinkConfig, SecurityConfig

__all__ = ["SecretFile", "TokenList", "with_security"]


class SecretFile:
    """A file in memory, which ends with this object or its process.

    Args:
        text: what it holds.

    Attributes:
        path: where this process can read it, as often as it wants.
    """

    def __init__(self, text: str = "") -> None:
        self._fd = os.memfd_create("streamlink")
        self.path = Path(f"/proc/{os.getpid()}/fd/{self._fd}")
        self.close = weakref.finalize(self, os.close, self._fd)
        self.write(text)

    def write(self, text: str) -> None:
        """Replace what it holds; a reader gets the old text or the new one, never parts of both."""
        new = os.memfd_create("streamlink")
        try:
            with open(new, "w", encoding="utf-8", closefd=False) as file:
                file.write(text)
            os.dup2(new, self._fd, inheritable=False)  # another inode, as after a rename
        finally:
            os.close(new)


class TokenList(SecretFile):
    """Who may connect to a server: the SHA-256 of each token, by the client's name.

    ``path`` is what ``security.tokens`` takes; the server reads it again with the next session. Any
    thread may use it.
    """

    def __init__(self) -> None:
        self._lock, self._own = threading.Lock(), dict[str, str]()
        # A server refuses an empty list. No client has an empty name, and nobody has this token.
        self._hashes = {"": [_hash(secrets.token_urlsafe(32))]}
        super().__init__(json.dumps(self._hashes))

    def admit(self, name: str) -> str:
        """Return a new token for clients of that name; it counts from the next ``publish`` on."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._hashes.setdefault(name, []).append(_hash(token))
        return token

    def token_of(self, name: str) -> str:
        """Return the token of a client that keeps one as long as this list; it counts at once."""
        with self._lock:
            if (token := self._own.get(name)) is None:
                token = self._own[name] = secrets.token_urlsafe(32)
                self._hashes.setdefault(name, []).append(_hash(token))
                self.write(json.dumps(self._hashes))
        return token

    def dismiss(self, name: str, token: str) -> bool:
        """Let nobody in with that token any more, from the next ``publish`` on.

        Returns:
            whether nobody of that name is let in then.
        """
        with self._lock:
            left = [each for each in self._hashes.pop(name, []) if each != _hash(token)]
            self._hashes |= {name: left} if left else {}
        return not left

    def publish(self) -> None:
        """Let in who was admitted and not dismissed, and nobody else."""
        with self._lock:
            self.write(json.dumps(self._hashes))


def with_security(config: LinkConfig, **changes: object) -> LinkConfig:
    """Return ``config`` with other settings of its security.

    Raises:
        ValueError: together they make no sense.
    """
    security = SecurityConfig.model_validate({**config.security.model_dump(), **changes})
    return config.model_copy(update={"security": security})


def _hash(token: str) -> str:
    return sha256(token.encode()).hexdigest()
