"""Who may act under which name, and which addresses are on this machine."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import logging
import re
from collections.abc import Callable, Mapping

import yaml

from streamlink.config import SecurityConfig
from streamlink.errors import AbortCode, SecurityError, StreamAborted
from streamlink.protocol.frames import Frame, Hello
from streamlink.transport.addresses import is_unix
from streamlink.transport.reloading import Reloading, read_file

__all__ = ["Guard", "is_loopback", "read_token", "require_loopback", "token_reader"]

logger = logging.getLogger("streamlink.security")

MIN_TOKEN_CHARACTERS, MAX_TOKEN_CHARACTERS = 16, 4096
"""A token must be too long to be guessed from its hash, and short enough for a greeting."""

_SHA256 = re.compile(r"[0-9a-f]{64}")
_NOBODYS = ("0" * 64,)  # compared with where there is no such name: response times reveal nothing

Tokens = Mapping[str, tuple[str, ...]]


class Guard:
    """Decides under which name a client may act: that of its certificate, its token, or both.

    Raises:
        SecurityError: the file of tokens cannot be used.
    """

    def __init__(self, security: SecurityConfig) -> None:
        self._wants_certificate = security.ca is not None
        self._tokens: Reloading[Tokens] | None = None
        if path := security.tokens:
            self._tokens = Reloading("the list of tokens", [path], lambda: read_tokens(security))

    def check_greeting(self, first: Frame, names: frozenset[str] | None) -> None:
        """Check who greets, for a new session or one that is resumed.

        Args:
            first: the first frame of a session's call.
            names: names in the certificate of its connection; None: there is no certificate.

        Raises:
            StreamAborted: it is not who it claims to be; the code is ``UNAUTHENTICATED``.
        """
        if not isinstance(first, Hello):
            if self._wants_certificate or self._tokens is not None:
                raise _refused("a session begins with hello")
            return  # the session machine reports what is wrong with it
        self.check_name(first.name, names)
        if self._tokens is not None:
            _check_token(first, self._tokens.get())

    def check_name(self, name: str, names: frozenset[str] | None) -> None:
        """Check that a call may act for the session of ``name``.

        The certificate has to carry that name. Not the same bytes: it may have been renewed since.

        Raises:
            StreamAborted: it may not; the code is ``UNAUTHENTICATED``.
        """
        if not self._wants_certificate:
            return
        if names is None:
            raise _refused("this server asks for a certificate, and none was shown")
        if name not in names:
            whose = " or ".join(sorted(names)) or "nobody"
            raise _refused(
                f"the certificate is that of {whose}, not of {name!r}; a client acts only under "
                "the name in its certificate (--name)"
            )


def _check_token(hello: Hello, tokens: Tokens) -> None:
    if not hello.token:
        raise _refused(
            f"this server asks for a token, and {hello.name!r} brought none; give the client the "
            "file that holds it (security.token)"
        )
    brought = hashlib.sha256(hello.token.encode()).hexdigest()
    # Only hashes are kept and compared: whoever reads the file has no token.
    accepted = tokens.get(hello.name, _NOBODYS)
    fits = [hmac.compare_digest(brought, each) for each in accepted]  # each of them, in full
    if not any(fits):
        raise _refused(f"the token is not that of {hello.name!r}")


def _refused(why: str) -> StreamAborted:
    return StreamAborted(AbortCode.UNAUTHENTICATED, why, by_peer=False)


# --- tokens -----------------------------------------------------------------


def read_token(security: SecurityConfig) -> str:
    """Return this site's token; empty: no token is set.

    Raises:
        SecurityError: the file cannot be used; what is in it is not quoted.
    """
    if security.token is None:
        return ""
    token = read_file("token", security.token).decode("ascii", errors="replace").strip()
    if not MIN_TOKEN_CHARACTERS <= len(token) <= MAX_TOKEN_CHARACTERS:
        raise SecurityError(
            f"security.token: {security.token} holds {len(token)} characters; a token has "
            f"{MIN_TOKEN_CHARACTERS} to {MAX_TOKEN_CHARACTERS}"
        )
    if not all("!" <= character <= "~" for character in token):
        raise SecurityError(
            f"security.token: {security.token} must hold one word of printable ASCII and nothing "
            "else"
        )
    return token


def token_reader(security: SecurityConfig) -> Callable[[], str]:
    """Return what gives this site's token, read again once its file was replaced; empty: no token.

    Raises:
        SecurityError: as ``read_token``.
    """
    if (path := security.token) is None:
        return lambda: ""
    return Reloading("this end's token", [path], lambda: read_token(security)).get


def read_tokens(security: SecurityConfig) -> Tokens:
    """Return the SHA-256 of the tokens of each site (lower-case hexadecimal), by its name.

    Raises:
        SecurityError: the file cannot be used; what is in it is not quoted, but for the names.
    """
    assert security.tokens is not None
    where = f"security.tokens: {security.tokens}"
    try:
        loaded = yaml.safe_load(read_file("tokens", security.tokens))
    except (yaml.YAMLError, ValueError) as error:  # ValueError: 2026-99-99 looks like a date
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        raise SecurityError(f"{where}{line}: this is not YAML") from None  # the cause quotes it
    if not isinstance(loaded, dict) or not loaded:
        raise SecurityError(f"{where}: expected the SHA-256 of each site's token by its name")
    return {_name(name, where): _hashes(name, found, where) for name, found in loaded.items()}


def _name(name: object, where: str) -> str:
    if not isinstance(name, str):
        raise SecurityError(f"{where}: a name is not text; put it into quotes")
    return name


def _hashes(name: str, found: object, where: str) -> tuple[str, ...]:
    # A list, so that an old token and its successor both count while a site changes over.
    hashes = found if isinstance(found, list) else [found]
    lowered = tuple(each.lower() if isinstance(each, str) else "" for each in hashes)
    if not lowered or not all(_SHA256.fullmatch(each) for each in lowered):
        raise SecurityError(
            f"{where}: what stands for {name!r} is not the SHA-256 of a token, 64 hexadecimal "
            "digits, or a list of them; the token itself has no place in this file"
        )
    return lowered


# --- addresses --------------------------------------------------------------


def is_loopback(address: str) -> bool:
    """Tell whether ``address`` is on this machine: 127.0.0.0/8, ::1, localhost, or unix:."""
    if is_unix(address):
        return True
    host = address.rpartition(":")[0]
    if host.lower() == "localhost":
        return True
    is_bracketed = host.startswith("[") and host.endswith("]")
    try:
        # Without brackets gRPC takes all of ::1:80 for an address, which is another machine's.
        if is_bracketed:
            return ipaddress.IPv6Address(host[1:-1]).is_loopback
        return ipaddress.IPv4Address(host).is_loopback
    except ValueError:
        return False


def require_loopback(address: str, security: SecurityConfig, *, remedy: str) -> None:
    """Let plain text leave this machine only where it was asked for by name, with a warning.

    Raises:
        SecurityError: it was not asked for; with what to do.
    """
    if is_loopback(address):
        return
    if not security.insecure:
        raise SecurityError(
            f"{address} is beyond this machine, and nothing here is encrypted. {remedy}; "
            "`streamlink certs` makes what is needed for a try-out. Or ask for plain text by name, "
            "behind a VPN for example: security.insecure (--insecure)"
        )
    logger.warning(
        "plain text at %s, as asked for (insecure): whoever is on the way can read and change "
        "everything, and a name proves nothing",
        address,
    )
