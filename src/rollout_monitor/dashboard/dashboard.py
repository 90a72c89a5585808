"""The dashboard as a whole: fed with what the robots say, it keeps the cards, the bands and the pages up to date."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rollout_monitor.dashboard.access import Access, is_loopback, own_token_file, read_token, write_token
from rollout_monitor.dashboard.band import band
from rollout_monitor.dashboard.board import Board
from rollout_monitor.dashboard.cards import short
from rollout_monitor.dashboard.commands import Robots
from rollout_monitor.dashboard.live import Live
from rollout_monitor.dashboard.past import PastEpisodes
from rollout_monitor.dashboard.pictures import Pictures
from rollout_monitor.dashboard.server import Server, bind
from rollout_monitor.dashboard.web import application, page_files, version_of
from rollout_monitor.errors import RolloutMonitorError
from rollout_monitor.records import EpisodeReport, MonitorStatus


@dataclass(frozen=True)
class Options:
    """Where the dashboard is and what it shows.

    Attributes:
        host: address to bind to.
        port: its port; 0 takes any that is free.
        names: further host names that it is reached under, in lower case.
        token_file: file of the token that pages must show once. None: there is no token where ``host`` is this machine
            alone, else a random one is made and kept in a file of its own.
        stores: folders of reports.
    """

    host: str = "127.0.0.1"
    port: int = 8642
    names: Sequence[str] = ()
    token_file: Path | None = None
    stores: Sequence[Path] = ()


class Dashboard:
    """See the module's text.

    Attributes:
        board: the cards; what is not a method here is written there directly.
        pictures: of the cameras.
        address: where a browser finds it.
        token_file: where the token is; None: there is none.
    """

    def __init__(self, robots: Robots, options: Options) -> None:
        """Bind, but serve nothing yet.

        Raises:
            InputError: the port is taken, or the token's file cannot be used.
        """
        listening = bind(options.host, options.port)
        try:
            port = int(listening.getsockname()[1])
            self.token_file, token = _token(options, port)
            access = Access(options.host, port, options.names, token)
        except BaseException:
            listening.close()
            raise
        self.address = f"http://{f'[{options.host}]' if ':' in options.host else options.host}:{port}"
        self.board = Board()
        self.pictures = Pictures(robots.show_cameras)
        self._stores = list(options.stores)
        self._past = PastEpisodes(self._stores)
        self._lock = threading.Lock()
        self._tasks: dict[str, tuple[str, str]] = {}
        self._thread = ThreadPoolExecutor(1, "bands")
        files = page_files()
        live = Live(self.board, self.pictures, robots, version_of(files))
        self._server = Server(application(files, self._past, live, access), listening)

    def start(self) -> None:
        """Begin to serve."""
        self._server.start()

    def stop(self) -> None:
        """Close all pages' connections; safe to call twice."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._server.stop()

    def on_status(self, robot: str, status: MonitorStatus) -> None:
        """The monitor's newest status; another task, or another model, brings another band."""
        self.board.on_status(robot, status)
        key = (status.task, status.model)
        with self._lock:
            if not all(key) or self._tasks.get(robot) == key:
                return
            self._tasks[robot] = key
        self._ask_for_band(robot, key)

    def on_report(self, robot: str, report: EpisodeReport, folder: str) -> None:
        """A report was written to ``folder`` (empty: it could not be kept); bands of its task are made anew."""
        self.board.on_report(robot, report, self._past.link(Path(folder)) if folder else None)
        with self._lock:
            same = [(name, key) for name, key in self._tasks.items() if key[0] == report.task]
        for name, key in same:
            self._ask_for_band(name, key)

    def _ask_for_band(self, robot: str, key: tuple[str, str]) -> None:
        self._thread.submit(self._make_band, robot, key)

    def _make_band(self, robot: str, key: tuple[str, str]) -> None:
        with self._lock:
            if self._tasks.get(robot) != key:
                return
        task, model = key
        try:
            card = band(self._stores, task, model) or {"runs": 0}
        except RolloutMonitorError as error:
            card = {"runs": 0, "trouble": short(str(error))}
        self.board.set_part(robot, "band", {"task": short(task), **card})


def _token(options: Options, port: int) -> tuple[Path | None, str | None]:
    if options.token_file is not None:
        return options.token_file, read_token(options.token_file)
    if is_loopback(options.host):
        return None, None
    file = own_token_file(port)
    return file, write_token(file)
