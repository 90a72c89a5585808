"""The web server, in a thread of its own: bound at once, so that a taken port is known before anything starts."""

from __future__ import annotations

import errno
import socket
import threading

import uvicorn
from starlette.types import ASGIApp

from rollout_monitor.errors import InputError

LARGEST_MESSAGE = 32_768
"""Bytes of a message from a page."""

_MOST_CONNECTIONS = 128
_STOP_WAIT_S = 3.0


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens already; port 0 takes any that is free.

    Raises:
        InputError: the port is taken, or this machine has no such address.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_MOST_CONNECTIONS)
    except (OSError, UnicodeError) as error:
        taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
        why = "the port is taken: choose another one, or 0 for any" if taken else str(error)
        raise InputError(f"the dashboard cannot be bound to {host} port {port}: {why}") from error


class Server:
    """Serves an application on a bound socket until it is stopped."""

    def __init__(self, app: ASGIApp, listening: socket.socket) -> None:
        config = uvicorn.Config(
            app,
            loop="asyncio",
            http="h11",
            ws="websockets-sansio",
            ws_max_size=LARGEST_MESSAGE,
            ws_per_message_deflate=False,  # costs more than it saves on one machine
            lifespan="off",
            log_config=None,
            access_log=False,  # addresses are nobody's business
            server_header=False,
            proxy_headers=False,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_graceful_shutdown=1,
        )
        self._socket = listening
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([listening],), name="web", daemon=True)

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def stop(self) -> None:
        """Close all connections and end the thread."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(_STOP_WAIT_S)
        self._socket.close()
