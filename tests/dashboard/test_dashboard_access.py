"""Who may see the dashboard, asked of the real server over real sockets."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from rollout_monitor.dashboard import access
from rollout_monitor.dashboard.access import Access, is_loopback, read_token
from rollout_monitor.dashboard.commands import Answer, Command, Start
from rollout_monitor.dashboard.dashboard import Dashboard, Options
from rollout_monitor.dashboard.server import LARGEST_MESSAGE
from rollout_monitor.errors import InputError
from rollout_monitor.records import EpisodeState, MonitorStatus

EVERYWHERE = "0.0.0.0"  # noqa: S104 - what a token is needed for


class Robots:
    """A robots' side that remembers."""

    def __init__(self) -> None:
        self.commands: list[Command] = []
        self.cameras: list[frozenset[tuple[str, str]]] = []

    def call(self, command: Command, answered: Callable[[Answer], None]) -> None:
        self.commands.append(command)
        answered(Answer(True, f"{command.robot} does it"))

    def show_cameras(self, wanted: frozenset[tuple[str, str]]) -> None:
        self.cameras.append(wanted)


class Served:
    """A dashboard that serves, and ways to ask it."""

    def __init__(self, **options: object) -> None:
        self.robots = Robots()
        self.dashboard = Dashboard(self.robots, Options(port=0, **options))
        self.port = int(self.dashboard.address.rpartition(":")[2])
        self.host = f"127.0.0.1:{self.port}"
        self.dashboard.start()

    def ask(self, path: str, method: str = "GET", body: str = "", **headers: str) -> HTTPResponse:
        sent = {"Host": self.host, **{name.replace("_", "-"): value for name, value in headers.items()}}
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        with closing(connection):
            connection.putrequest(method, path, skip_host=True)
            for name, value in {**sent, "Content-Length": str(len(body))}.items():
                connection.putheader(name, value)
            connection.endheaders(body.encode())
            response = connection.getresponse()
            response.text = response.read().decode()  # type: ignore[attr-defined]
            return response

    def socket(self, origin: str | None = "", host: str = "", cookie: str = "") -> ClientConnection:
        headers = {"Cookie": cookie} if cookie else {}
        return connect(
            f"ws://{host or self.host}/live",
            sock=socket.create_connection(("127.0.0.1", self.port), 10),
            origin=f"http://{self.host}" if origin == "" else origin,
            additional_headers=headers,
            compression=None,
            max_size=None,
        )


@pytest.fixture
def served() -> Iterator[Served]:
    one = Served()
    yield one
    one.dashboard.stop()


@pytest.fixture
def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr(access, "WRONG_TOKEN_WAIT_S", 0.01)
    file = tmp_path / "token"
    file.write_text("correct-horse-battery-staple\n")
    file.chmod(0o600)
    one = Served(token_file=file)
    yield one
    one.dashboard.stop()


def receive(connection: ClientConnection, kind: str) -> dict[str, object]:
    """The next message of a kind."""
    while True:
        message = connection.recv(timeout=10)
        if isinstance(message, str) and (fields := json.loads(message))["type"] == kind:
            return dict(fields)


def test_every_answer_has_the_headers(served: Served) -> None:
    for path, status in (("/", 200), ("/page/dashboard.js", 200), ("/nothing", 404), ("/api/episodes?count=x", 400)):
        answer = served.ask(path)
        policy = answer.headers["content-security-policy"]
        assert answer.status == status
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in answer.headers and "server" not in answer.headers


def test_a_foreign_name_for_this_machine_is_refused(served: Served) -> None:
    """DNS rebinding: the browser asks this server in the name of another site."""
    for host in (
        "evil.example",
        f"evil.example:{served.port}",
        "localhost.evil.example",
        "10.0.0.1",
        "",
        "127.0.0.1:x",
    ):
        assert served.ask("/", Host=host).status == 421, host
    for host in (f"localhost:{served.port}", "LOCALHOST", f"[::1]:{served.port}", "127.0.0.1:9000"):
        assert served.ask("/", Host=host).status == 200, host
    with pytest.raises(InvalidStatus):
        served.socket(host="evil.example", origin="http://evil.example")


def test_only_the_own_page_gets_a_socket(served: Served) -> None:
    for origin in ("http://evil.example", f"http://127.0.0.1:{served.port + 1}", "null", None):
        with pytest.raises(InvalidStatus) as refused:
            served.socket(origin=origin)
        assert refused.value.response.status_code == 403
    assert served.ask("/api/login", "POST", "{}", Origin="http://evil.example").status == 403
    with served.socket() as connection:
        assert receive(connection, "hello")["version"]


@pytest.mark.parametrize(
    "path",
    [
        "/reports/0/../../../etc/passwd",
        "/reports/0/..%2f..%2fetc/report.html",
        "/reports/0/%2e%2e/report.html",
        "/reports/9999999999999999999999/a/report.html",
        "/reports/-1/a/report.html",
        "/page/..%2f..%2fcards.py",
        "/page/../cards.py",
        "/page/cards.py",
        "/../../../../etc/passwd",
        "//etc/passwd",
    ],
)
def test_no_path_leads_out(served: Served, path: str) -> None:
    answer = served.ask(path)
    assert answer.status == 404 and "root:" not in answer.text and "import" not in answer.text  # type: ignore[attr-defined]


def test_a_token_is_asked_for_and_never_said(guarded: Served, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    origin = f"http://{guarded.host}"
    for path in ("/api/episodes", "/reports/0/a/report.html", "/anything"):
        assert guarded.ask(path).status == 401
    with pytest.raises(InvalidStatus):
        guarded.socket()
    assert json.loads(guarded.ask("/api/session").text) == {"open": False}  # type: ignore[attr-defined]
    wrong = ("", "correct", "correct-horse-battery-staplé", "\\ud800", "x" * 10_000)
    for token in wrong:
        answer = guarded.ask("/api/login", "POST", f'{{"token": "{token}"}}', Origin=origin)
        assert answer.status == 403 and "set-cookie" not in answer.headers
    for body in ("", "[]", "{}", '{"token": 7}', "[" * 1500):
        assert guarded.ask("/api/login", "POST", body, Origin=origin).status == 403

    right = guarded.ask("/api/login", "POST", '{"token": "correct-horse-battery-staple"}', Origin=origin)
    cookie = right.headers["set-cookie"]
    assert right.status == 200 and "HttpOnly" in cookie and "samesite=strict" in cookie.lower()
    assert "correct-horse" not in cookie
    pair = cookie.split(";")[0]
    assert guarded.ask("/api/episodes", Cookie=pair).status == 200
    with guarded.socket(cookie=pair) as connection:
        receive(connection, "hello")
    assert guarded.ask("/api/episodes", Cookie=pair[:-1]).status == 401
    assert "correct-horse" not in caplog.text and "correct-horse" not in repr(guarded.dashboard.__dict__)


def test_a_token_file_that_is_no_secret_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    with pytest.raises(InputError, match="cannot be read"):
        read_token(file)
    file.write_text("correct-horse-battery-staple")
    file.chmod(0o644)
    with pytest.raises(InputError, match="others can read it; chmod 600"):
        read_token(file)
    file.chmod(0o600)
    file.write_text("short")
    with pytest.raises(InputError, match="16 characters"):
        read_token(file)


def test_others_cannot_reach_it_without_a_token() -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost")] == [True] * 4
    assert [is_loopback(host) for host in (EVERYWHERE, "::", "192.168.1.2", "cell-3.local")] == [False] * 4
    with pytest.raises(InputError, match="needs a token"):
        Access(EVERYWHERE, 80)
    reachable = Access(EVERYWHERE, 80, ["cell-3.local"], "correct-horse-battery-staple")
    assert reachable.knows_host("192.168.1.2:80") and reachable.knows_host("Cell-3.local")
    assert not reachable.knows_host("evil.example")


def test_a_port_that_is_taken_is_one_clear_error(served: Served) -> None:
    with pytest.raises(InputError, match=f"port {served.port}: the port is taken"):
        Dashboard(Robots(), Options(port=served.port))


def test_commands_are_checked_before_anything_is_called(served: Served) -> None:
    served.dashboard.on_status("/a", MonitorStatus(stamp_ns=1, state=EpisodeState.IDLE))
    wrong = [
        {"do": "start", "robot": "/a", "task": ""},
        {"do": "start", "robot": "/a", "task": "x" * 1001},
        {"do": "start", "robot": "/nobody", "task": "lift"},
        {"do": "start", "robot": "/a", "task": "lift", "more": 1},
        {"do": "end", "robot": "/a", "episode": "take", "label": "maybe"},
        {"do": "label", "robot": "/a", "episode": "take", "who": ""},
        {"do": "shutdown", "robot": "/a"},
        {"robot": "/a"},
    ]
    with served.socket() as connection:
        for number, command in enumerate(wrong):
            connection.send(json.dumps({**command, "id": number}))
            answer = receive(connection, "answer")
            assert (answer["id"], answer["fine"]) == (number, False), command
        assert served.robots.commands == []
        connection.send(json.dumps({"do": "start", "robot": "/a", "task": "lift", "who": "Ada", "id": 99}))
        assert receive(connection, "answer") == {"type": "answer", "id": 99, "fine": True, "words": "/a does it"}
    assert served.robots.commands == [Start(do="start", robot="/a", task="lift", who="Ada")]


@pytest.mark.parametrize("message", ["", "null", "[]", "{", "[" * 20_000, "x" * (LARGEST_MESSAGE + 1), b"\x00\xff"])
def test_a_message_that_is_none_ends_the_connection_and_nothing_else(served: Served, message: str | bytes) -> None:
    with served.socket() as connection, served.socket() as other:
        connection.send(message)
        with pytest.raises(Exception, match=r"1008|1009|policy|too big"):
            while True:
                connection.recv(timeout=10)
        receive(other, "news")


def test_pictures_go_to_pages_that_show_them(served: Served) -> None:
    jpeg = b"\xff\xd8\xff" + bytes(100)
    with served.socket() as connection:
        connection.send(json.dumps({"cameras": [["/a", "front"]]}))
        while not served.robots.cameras:
            connection.recv(timeout=10)
        served.dashboard.pictures.put("/a", "wrist", "image/jpeg", jpeg)
        served.dashboard.pictures.put("/a", "front", "image/jpeg", jpeg)
        while not isinstance(data := connection.recv(timeout=10), bytes):
            pass
        length = int.from_bytes(data[:2], "big")
        assert json.loads(data[2 : 2 + length]) == {"robot": "/a", "camera": "front", "kind": "image/jpeg"}
        assert data[2 + length :] == jpeg
    with served.socket() as connection:
        while len(served.robots.cameras) < 2:
            connection.recv(timeout=10)
    assert served.robots.cameras == [frozenset({("/a", "front")}), frozenset()]


def test_news_go_on_twice_a_second_although_nothing_is_new(served: Served) -> None:
    with served.socket() as connection:
        for _ in range(4):
            assert receive(connection, "news")["robots"] == {}
