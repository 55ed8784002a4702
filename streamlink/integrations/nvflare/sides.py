"""The two ends of one job: the object server in the server's job process, a site's session with it.

FLARE's messages carry references; the bytes go over two more ports of the server, a pair. A site
learns the lower one and its token from the first reference it gets, through FLARE's authenticated
channel, and dials only the host it was configured with. It listens nowhere.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from nvflare.apis.fl_constant import SystemConfigs
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.drivers.driver_params import DriverParams
from nvflare.fuel.utils.config_service import ConfigService
from nvflare.fuel.utils.fobs import FOBSContextKey
from nvflare.fuel.utils.memory_utils import try_malloc_trim

from streamlink import CancelToken, LinkConfig, ModelSource, StreamlinkError
from streamlink.config import ObjectLimits, parse_size
from streamlink.integrations.background import begin
from streamlink.integrations.connecting import Resting, connected
from streamlink.integrations.folders import own_folder
from streamlink.integrations.ports import checked_ports, dialled, listening, within
from streamlink.integrations.settings import check_settings, checked_seconds
from streamlink.integrations.tensors import StoredItems, fresh, read
from streamlink.integrations.tokens import SecretFile, TokenList
from streamlink.objects import ObjectServer

__all__ = ["Offer", "ServerSide", "Side", "SiteSide", "check", "close_all", "join", "setting"]
__all__ += ["side_of"]

_log = logging.getLogger(__name__)
_PATIENCE = {"reconnect_timeout": "30", "rejoin_timeout": "300"}  # streamlink's own
_DEFAULTS = {"ports": "0", "min_bytes": "1MiB", "ttl": "86400", "max_bytes": "4TiB"}
_DEFAULTS |= {"max_clients": "64", **_PATIENCE}


@dataclass(frozen=True)
class Offer:
    """What travels inside FLARE's download in the place of the bytes."""

    reference: str
    port: int = 0
    site: str = ""
    token: str = ""


def setting(name: str) -> str:
    """Return a setting of this site: ``NVFLARE_STREAMLINK_<NAME>`` or ``resources.json``."""
    default, name = _DEFAULTS.get(name, ""), f"streamlink_{name}"
    return str(ConfigService.get_str_var(name, SystemConfigs.RESOURCES_CONF, default))


_CHECKS: dict[str, Callable[[str], object]] = {"ports": checked_ports, "min_bytes": parse_size}
_CHECKS |= dict.fromkeys(_PATIENCE, checked_seconds)
# What sites read: raised with a job's first model, their errors would come too late to be clear.
check = partial(check_settings, setting, _CHECKS, "streamlink_{name} (NVFLARE_STREAMLINK_{upper})")


def _is_server(fqcn: str) -> bool:
    return bool(FQCN.split(fqcn)[0] == FQCN.ROOT_SERVER)


class ServerSide:
    """The object server of one job, on the first free pair of ports of the configured range.

    Attributes:
        objects: the object server.
        port: where sites connect.
        known, strangers: cells that can read a reference, and others that cannot.
    """

    def __init__(self, cell: Any) -> None:
        self._job = FQCN.split(cell.get_fqcn())[-1]
        self.known, self.strangers = set[str](), set[str]()
        self._admitted, self._issued, self._lock = TokenList(), dict[str, str](), threading.Lock()
        self._most = int(setting("max_clients"))
        config = _config(cell, "SERVER", {"tokens": self._admitted.path}, self._most)
        host = setting("listen") or ("0.0.0.0" if config.security.certificate else "127.0.0.1")
        with ExitStack() as stack:
            self.objects = stack.enter_context(_listening(host, config, stack))
            self._opened = stack.pop_all()
        self.port = self.objects.port
        _log.info("job %s: objects are served at %s", self._job, self.objects.address)

    def reaches(self, requester: str) -> bool:
        """Tell whether ``requester`` can get an offer of this side: the job's process at a site.

        A process that this one starts for the training is another cell, and has no side. Nor have
        sites beyond ``streamlink_max_clients``: their sessions would be refused.
        """
        *sites, process = FQCN.split(requester)
        if process != self._job or not sites or requester in self.strangers:
            return False
        return bool(self._token_of(sites[-1]))

    def offer(self, source: ModelSource, requester: str, cancel: CancelToken) -> Offer:
        """Make ``source`` an object that the site of ``requester`` may read."""
        site = FQCN.split(requester)[-2]
        reference = self.objects.put(source, readers=(site,), digest="")
        return Offer(str(reference), self.port, site, self._token_of(site))

    def _token_of(self, site: str) -> str:
        """Return the token of a site; it is empty if as many others as may join have theirs."""
        with self._lock:
            if site not in self._issued and len(self._issued) < self._most:
                self._issued[site] = self._admitted.admit(site)
                self._admitted.publish()
            return self._issued.get(site, "")

    def fetch(self, offer: Offer, kind: str, cancel: CancelToken, *, lazy: bool) -> Any:
        """Return the tensors of an object that a site has put: unread if ``lazy``."""
        # FLARE adds each result in another thread, and glibc keeps what was freed for its thread.
        items = StoredItems(self.objects.open(offer.reference), kind, closed=try_malloc_trim)
        return items if lazy else read(items, cancel)

    def drop(self, offer: Offer) -> None:
        """Release what was offered."""
        self.objects.drop(offer.reference)
        try_malloc_trim()

    def close(self) -> None:
        """Stop serving, and remove everything that it holds."""
        self._opened.close()


def _listening(host: str, config: LinkConfig, stack: ExitStack) -> ObjectServer:
    """Return a server with a spool of its own, which ``stack`` removes."""
    ttl, most = setting("ttl"), setting("max_bytes")
    # Each object has one reader, so there is nothing to share.
    limits = {"ttl": ttl, "max_ttl": ttl, "max_bytes": most, "shared_bytes": 1 << 20}
    spool = stack.enter_context(own_folder("streamlink-nvflare", setting("spool")))
    make = partial(ObjectServer, limits=ObjectLimits(**limits), spool=spool)
    return listening(f"{host}:{setting('ports')}", make, config)


class SiteSide:
    """A site's session with the object server of one job; it dials, and never listens."""

    def __init__(self, cell: Any, offer: Offer, cancel: CancelToken) -> None:
        host = setting("server") or urlsplit(cell.get_root_url_for_child()).hostname
        ports = f"{host}:{setting('ports')}"
        address = dialled(ports, offer.port)  # it refuses a port that is none of them
        self.port, self._token = offer.port, SecretFile(offer.token)
        self.known, self.strangers = set[str](), set[str]()
        config = within(ports, _config(cell, "CLIENT", {"token": self._token.path}))
        self.client = connected(address, offer.site, config, cancel)

    def reaches(self, requester: str) -> bool:
        """Tell whether ``requester`` can get an offer of this side: another site cannot."""
        return _is_server(requester)

    def offer(self, source: ModelSource, requester: str, cancel: CancelToken) -> Offer:
        """Put ``source`` at the server, for the server; returns when it is there."""
        return Offer(str(self.client.put(source, readers=(), reads=1, cancel=cancel)))

    def fetch(self, offer: Offer, kind: str, cancel: CancelToken, *, lazy: bool) -> Any:
        """Return the tensors of an object of the server, in new memory."""
        made: dict[str, Any] = {}
        self.client.get(offer.reference, into=fresh(kind, made), cancel=cancel)
        return made

    def drop(self, offer: Offer) -> None:
        """Let the server release what was put; it has done so already with what it has read."""
        begin(lambda: self.client.drop(offer.reference))  # FLARE's thread must not wait for it

    def close(self) -> None:
        """Leave the server."""
        self.client.close()


Side = ServerSide | SiteSide
_sides: dict[str, Side | None] = {}  # of this process, by the name of the cell
_resting = Resting(300.0)
_lock = threading.Lock()


def side_of(cell: Any) -> Side | None:
    """Return this cell's side; None at a site that has not had a reference yet."""
    fqcn = cell.get_fqcn()
    with _lock:
        if fqcn not in _sides and _is_server(fqcn) and len(FQCN.split(fqcn)) > 1:
            _sides[fqcn] = None
            try:
                _sides[fqcn] = ServerSide(cell)
            except (StreamlinkError, OSError, ValueError):
                # Raised, FLARE would try the same message for ever.
                _log.exception("%s: no objects are served; FLARE carries its models itself", fqcn)
        return _sides.get(fqcn)


def join(cell: Any, offer: Offer, cancel: CancelToken) -> Side:
    """Return this cell's side; a site connects to the port that the server offers.

    Raises:
        StreamlinkError: the site cannot connect, or could not some minutes ago.
    """
    fqcn = cell.get_fqcn()
    with _lock:
        side = _sides.get(fqcn)
        if isinstance(side, SiteSide) and (side.port != offer.port or side.client.is_over):
            side.close()  # the job's server is another process now, or was lost for too long
            del _sides[fqcn]
            side = None
        if side is None:
            with _resting.trying(f"{fqcn} at port {offer.port}"):
                _sides[fqcn] = side = SiteSide(cell, offer, cancel)
        return side


def close_all() -> None:
    """Close what this process has, at its end."""
    while _sides:
        if side := _sides.popitem()[1]:
            side.close()


def _config(cell: Any, end: str, token: dict[str, Any], clients: int = 1) -> LinkConfig:
    """Return the settings of one end, with FLARE's own certificates of it, where it has any."""
    found = cell.get_fobs_context().get(FOBSContextKey.SEC_CREDS) or {}
    names = {"certificate": f"{end}_CERT", "key": f"{end}_KEY", "ca": "CA_CERT"}
    files = {each: found.get(DriverParams[name].value) for each, name in names.items()}
    security = token | (files if all(files.values()) else {})
    timeouts = {name: setting(name) for name in _PATIENCE}
    sections = {"security": security, "timeouts": timeouts, "grpc": {"max_clients": clients}}
    return LinkConfig.model_validate(sections)
