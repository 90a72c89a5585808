"""Who may see the dashboard: checks of Host, Origin and token around the web application, and its headers.

Bound to this machine alone, whoever can connect may look. Bound to anything else, a page must show a random token once
and gets a cookie for it. Host names are checked in both cases: a foreign site that lets its own name resolve to this
machine (DNS rebinding) would otherwise be taken for the dashboard's own page.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import os
import secrets
import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request, cookie_parser
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rollout_monitor.errors import InputError

TOKEN_BYTES = 32
SHORTEST_TOKEN = 16
WRONG_TOKEN_WAIT_S = 0.5
_LARGEST_LOGIN = 2048
_OPEN_PATHS = ("/", "/api/session", "/api/login")
_OPEN_FOLDER = "/page/"
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
REPORT_POLICY = (
    "sandbox allow-scripts allow-modals allow-downloads; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:; media-src data: blob:; font-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
"""A report is one file with its own script; in a sandbox it has an origin of its own and cannot reach the robots."""

HEADERS = {
    "content-security-policy": PAGE_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}


def is_loopback(host: str) -> bool:
    """Whether an address to bind to can be reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_token(file: Path) -> str:
    """The token in a file that only its owner can read.

    Raises:
        InputError: it is not there, others can read it, or it is too short to be a secret.
    """
    try:
        mode = file.stat().st_mode
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"token file {file}: cannot be read: {error}") from error
    if stat.S_IMODE(mode) & 0o077:
        raise InputError(f"token file {file}: others can read it; chmod 600 {file}")
    if len(token) < SHORTEST_TOKEN:
        raise InputError(f"token file {file}: a token has {SHORTEST_TOKEN} characters or more")
    return token


def own_token_file(port: int) -> Path:
    """Where the token of a dashboard on this port is kept when no file is named."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "rollout-monitor" / f"dashboard-{port}.token"


def write_token(file: Path) -> str:
    """Make a random token and keep it in ``file``, which only its owner can read; an older one is replaced.

    Raises:
        InputError: it cannot be written.
    """
    token = secrets.token_urlsafe(TOKEN_BYTES)
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.unlink(missing_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(token + "\n")
    except OSError as error:
        raise InputError(f"token file {file}: cannot be written: {error.strerror}") from error
    return token


@dataclass(frozen=True)
class Access:
    """Who may see this dashboard.

    Attributes:
        host: the address that the server is bound to.
        port: its port.
        names: further host names that it is reached under.
        token: what a page must show once; None: nothing. Never shown in a ``repr``.
    """

    host: str
    port: int
    names: Collection[str] = ()
    token: str | None = field(default=None, repr=False)
    _session: str = field(default_factory=lambda: secrets.token_urlsafe(TOKEN_BYTES), repr=False)

    def __post_init__(self) -> None:
        if self.token is None and not is_loopback(self.host):
            raise InputError(f"bound to {self.host}, others can reach the dashboard: it needs a token")

    @property
    def cookie(self) -> str:
        """Name of the cookie; cookies do not tell ports apart, so the name does."""
        return f"rollout_monitor_{self.port}"

    def knows_host(self, header: str) -> bool:
        """Whether a Host header names this server: one of its names, or an address (nobody can rebind those)."""
        name = _host_name(header)
        if name is None:
            return False
        if name in _LOOPBACK_NAMES or name == self.host.casefold() or name in self.names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return not is_loopback(self.host)

    def may_see(self, headers: Mapping[str, str]) -> bool:
        """Whether a request carries the session's cookie, where one is needed."""
        if self.token is None:
            return True
        return _same(cookie_parser(headers.get("cookie", "")).get(self.cookie, ""), self._session)

    async def session(self, request: Request) -> Response:
        """Tells a page whether it must ask for the token."""
        return JSONResponse({"open": self.may_see(request.headers)})

    async def login(self, request: Request) -> Response:
        """Gives the cookie for the right token; a wrong one is answered late."""
        given = await _token_in(request)
        if self.token is None or not _same(given, self.token):
            await anyio.sleep(WRONG_TOKEN_WAIT_S)
            return JSONResponse({"open": self.token is None}, status_code=403)
        response = JSONResponse({"open": True})
        response.set_cookie(self.cookie, self._session, httponly=True, samesite="strict", path="/")
        return response


class Guard:
    """ASGI middleware: refuses what must not come through, and puts the headers on what does."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request or web socket."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refused = self._refused(scope)
        if refused is None:
            await self._app(scope, receive, send_with_headers)
        elif scope["type"] == "http":
            await PlainTextResponse(refused[1], refused[0])(scope, receive, send_with_headers)
        else:
            await receive()  # websocket.connect
            await send({"type": "websocket.close", "code": 1008, "reason": ""})  # before accepting: answered with 403

    def _refused(self, scope: Scope) -> tuple[int, str] | None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._access.knows_host(hosts[0]):
            return 421, "the dashboard is not known under this name; see docs/dashboard.md on --name\n"
        changes = scope["type"] == "websocket" or scope["method"] not in ("GET", "HEAD")
        if changes and headers.get("origin", "").casefold() not in _origins(hosts[0]):
            return 403, "this does not come from the dashboard's own page\n"
        path: str = scope["path"]
        if path in _OPEN_PATHS or path.startswith(_OPEN_FOLDER) or self._access.may_see(headers):
            return None
        return 401, "the dashboard asks for its token first\n"


def _origins(host: str) -> tuple[str, str]:
    """The origins of pages that this server may have given out: a proxy may speak TLS in front of it."""
    return f"http://{host.casefold()}", f"https://{host.casefold()}"


def _host_name(header: str) -> str | None:
    """The name in a Host header, without port and brackets, in lower case."""
    name, colon, port = header.casefold().rpartition(":")
    if not colon or header.endswith("]"):
        name, port = header.casefold(), ""
    if port and not (port.isascii() and port.isdigit()):
        return None
    return name.removeprefix("[").removesuffix("]") or None


async def _token_in(request: Request) -> str:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _LARGEST_LOGIN:
            return ""
    try:
        token = json.loads(body)["token"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return token if isinstance(token, str) else ""


def _same(given: str, right: str) -> bool:
    """Equal, found out in a time that does not tell where they differ."""
    return hmac.compare_digest(given.encode(errors="surrogatepass"), right.encode())
