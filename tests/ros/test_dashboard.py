"""The dashboard's page in a real browser, against real nodes over DDS."""

from __future__ import annotations

import os
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import contrasts, keep_screenshot
from graph import Graph
from panel import Panel
from rollout_monitor_nodes.common import conversions as convert
from stack import NAMESPACE, Stack
from std_srvs.srv import Trigger
from synthetic import TASK, Rollout

from rollout_monitor.records import EpisodeState, Event, EventKind, MonitorStatus, Severity
from rollout_monitor.store.labels import read_facts

LATE_S = 1.0
MEASURED_S = 5.0
NS = 1_000_000_000
MSG = "rollout_monitor_msgs/msg"
OUTCOME = "failure"
HOSTILE = (
    "<script>window.pwned=1</script>",
    "<img src=x onerror='window.pwned=1'>",
    "one\nline\r\n\ttwo \x1b[31m \x00 red",
    "x" * 10_000,
    "🤖🦾 держи куб \u202egnorw\u202c \ud83e",
    "${window.pwned=1} {{7*7}} javascript:alert(1) \" ' ` &lt;b&gt;",
)

Opened = Callable[..., Panel]


@pytest.fixture
def panel(graph: Graph, browser: Any) -> Iterator[Opened]:
    """Makes dashboards whose pages are closed afterwards, before the nodes are."""
    made: list[Panel] = []

    def make(**parameters: object) -> Panel:
        made.append(Panel(graph, browser, **parameters))
        return made[-1]

    yield make
    for one in made:
        one.close()


class Robot:
    """A robot that says what a test wants it to."""

    def __init__(self, graph: Graph, name: str = "/fake") -> None:
        self.graph = graph
        self.name = name
        self._status = graph.publisher(f"{name}/rollout/status", f"{MSG}/MonitorStatus", "LATCHED")
        self._events = graph.publisher(f"{name}/rollout/events", f"{MSG}/MonitorEvent", "RECORDS")
        self._elapsed_s = 0.0

    def says(self, **fields: Any) -> MonitorStatus:
        """Publish a status, of a running attempt unless told otherwise."""
        self._elapsed_s += 0.1
        known = {"state": EpisodeState.RUNNING, "episode_id": "fake_1", "task": TASK, "elapsed_s": self._elapsed_s}
        status = MonitorStatus(stamp_ns=time.time_ns(), **{**known, **fields})
        self._status.publish(convert.status_to_msg(status))
        return status

    def raises(self, number: int, severity: Severity, reason: str = "something fell", subject: str = "") -> Event:
        """Publish an event, once the dashboard listens."""
        listeners = f"{self.name}/rollout/events"
        self.graph.until("a listener", lambda: "dashboard_node" in self.graph.subscribers(listeners))
        now_ns = time.time_ns()
        event = Event(
            event_id=number,
            episode_id="fake_1",
            kind=EventKind.DRAWDOWN,
            severity=severity,
            onset_ns=now_ns,
            detected_ns=now_ns,
            subject=subject,
            reason=reason,
        )
        self._events.publish(convert.event_to_msg(event))
        return event


def test_an_operator_watches_and_ends_an_attempt(graph: Graph, panel: Opened, endless: Rollout) -> None:
    """Progress comes within a second, End acts on the real monitor, the report is one click away."""
    stack = Stack(graph)
    stack.start_prm(endless.curve)
    stack.start_monitor(end_wait_s=0.5)
    stack.wait_until_connected()
    board = panel(episodes=[stack.episodes])
    page = board.open()
    card = f".card[aria-label='robot {NAMESPACE}']"
    board.shows(f"{card} .state", "IDLE")
    markers = stack.listen("rollout/episode", "Episode", "MARKERS")
    stack.play(endless.folder)
    board.shows(f"{card} .task", TASK)
    board.shows(f"{card} .progress dd", r"[1-9]\d? %")
    late_s = lateness(stack, board)
    print(f"a status is on the page after {1e3 * late_s[10]:.0f} ms, at most {1e3 * late_s[-1]:.0f} ms")
    assert late_s[-1] < LATE_S

    board.until("pictures move", lambda: int(page.get_attribute(card, "data-pictures") or 0) >= 3)
    board.shows(f"{card} .motion tbody", "elbow_joint")
    board.shows(f"{card} .health tbody", r"joints\s+500")
    board.shows(f"{card} .health tbody", r"front\s+10")
    page.click(f"{card} .cameras button >> text=wrist")
    pictures = int(page.get_attribute(card, "data-pictures"))
    board.until("the other camera", lambda: int(page.get_attribute(card, "data-pictures")) > pictures)
    assert page.get_attribute(f"{card} .picture", "aria-label") == f"camera wrist of {NAMESPACE}"
    keep_screenshot(page, "dashboard-running")

    page.click(f"{card} [data-do=end][data-label={OUTCOME}]")
    board.until("the END marker", lambda: len(markers.messages) >= 2)
    assert convert.marker_from_msg(markers.messages[-1]).label.value == OUTCOME
    assert stack.report(endless.episode_id).outcome.outcome.value == OUTCOME
    board.shows(f"{card} .state", f"ENDED · {OUTCOME}")
    look_back(board, stack.episodes, card)
    assert board.complaints == []


def lateness(stack: Stack, board: Panel) -> list[float]:
    """How long after this process heard them twenty statuses were on the page, s, sorted."""
    shown = "() => Number(document.querySelector('.card').dataset.stamp)"
    late_s = []
    for _ in range(20):
        status, heard_s = stack.status, stack.statuses.times_s[-1]
        board.until("it is on the page", lambda wanted=status: board.page.evaluate(shown) >= wanted.stamp_ns // 10**6)
        late_s.append(time.monotonic() - heard_s)
        board.until("the next status", lambda before=heard_s: stack.statuses.times_s[-1] > before)
    return sorted(late_s)


def look_back(board: Panel, episodes: Path, card: str) -> None:
    """The ended attempt is in the list, its report opens, a label is kept and found."""
    page = board.page
    board.shows("#episodes tbody tr", OUTCOME)
    with page.expect_popup() as opened:
        page.click("#episodes tbody a")
    report = opened.value
    assert TASK in board.until("the report", lambda: report.title() and report.inner_text("h1"))
    assert report.url.startswith(board.address + "reports/0/")
    report.close()

    page.fill("#who", "Ada")
    page.fill(f"{card} .note", "the gripper slipped")
    page.click(f"{card} [data-do=label][data-label=success]")
    board.shows(f"{card} .answer", "Ada on episode endless: success")
    (fact,) = read_facts(episodes / "labels.jsonl")[0]
    assert (fact.who, fact.label.value, fact.note) == ("Ada", "success", "the gripper slipped")
    page.fill("#words", "slipped")
    board.shows("#episodes tbody tr", r"success[\s\S]*success \(Ada\): the gripper")
    page.fill("#words", "no such thing")
    board.shows("#past-empty", "none fits")


def test_the_keyboard_alone_starts_and_ends_an_attempt(graph: Graph, panel: Opened) -> None:
    """Also: what is not there says so, and what is there is called."""
    stack = Stack(graph)
    stack.start_monitor(end_wait_s=0.3)
    stack.wait_until_connected()
    board = panel(episodes=[stack.episodes])
    page = board.open()
    press = page.keyboard.press
    board.shows(".card .state", "IDLE")
    board.shows(".card .noreset", "no resetter runs")
    board.until("services are known", lambda: page.evaluate("() => document.querySelector('.card .start') !== null"))
    press("1")
    assert page.evaluate("() => document.activeElement.className") == "card"
    press("a")
    board.shows(".card .answer", "cannot arm: no resetter")
    press("g")
    board.shows(".card .answer", "no attempt is running")
    press("s")
    page.keyboard.type("put the mug on the hook")
    press("Enter")
    board.shows(".card .state", "RUNNING")
    assert stack.status.task == "put the mug on the hook"
    press("Escape")
    press("1")
    press("g")
    board.shows(".card .state", "ENDED · success")
    press("n")
    page.keyboard.type("well done")
    press("Enter")
    board.shows(".card .answer", "say who you are")
    assert page.evaluate("() => document.activeElement.id") == "who"
    page.keyboard.type("Grace")
    press("Escape")
    press("1")
    press("n")
    press("Enter")
    board.shows("#episodes .tag", r"note \(Grace\): well done")
    press("Escape")
    arm_with_a_key(graph, board)
    press("?")
    board.shows("#keys[open]", "go to a robot")
    press("Escape")
    press("/")
    assert page.evaluate("() => document.activeElement.id") == "words"
    assert reached_with_tab(page) >= {"who", "sound", "help", "newtask", "note", "words", "outcome", "robot", "task"}
    assert board.complaints == []


def arm_with_a_key(graph: Graph, board: Panel) -> None:
    """A resetter appears; the button that was grey calls it."""
    armed: list[str] = []

    def serve(_: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        armed.append("armed")
        response.success, response.message = True, "the resetter is armed"
        return response

    graph.node.create_service(Trigger, f"{NAMESPACE}/rollout/arm_reset", serve)
    button = ".card [data-do=arm_reset]"
    board.until("the button", lambda: board.page.get_attribute(button, "aria-disabled") == "false")
    board.page.keyboard.press("a")
    board.shows(".card .answer", "the resetter is armed")
    assert armed == ["armed"]


def reached_with_tab(page: Any) -> set[str]:
    """Names of all that Tab comes to, round the whole page once."""
    page.evaluate("() => document.activeElement.blur()")
    reached: set[str] = set()
    for _ in range(80):
        page.keyboard.press("Tab")
        name, outlined = page.evaluate(
            "() => { const e = document.activeElement; const s = getComputedStyle(e);"
            " return [e.id || e.className, e === document.body || s.outlineStyle !== 'none']; }"
        )
        assert outlined, f"{name} does not show that it has the focus"
        reached.add(name)
    return reached


def test_a_lost_connection_is_said_within_two_seconds_and_heals(graph: Graph, panel: Opened) -> None:
    robot = Robot(graph)
    robot.says(progress=0.4)
    board = panel()
    page = board.open()
    board.shows(".card .progress dd", "40 %")
    complaints = len(board.complaints)
    assert complaints == 0

    def lost_after(number: signal.Signals) -> float:
        page.evaluate(
            "() => { window.lostAfter = null; const began = performance.now(); const bar = document.getElementById"
            "('connection'); new MutationObserver((_, watch) => { if (!bar.hidden) { window.lostAfter ="
            " performance.now() - began; watch.disconnect(); } }).observe(bar, { attributes: true }); }"
        )
        board.process.signal(number)
        board.shows("#connection", "Connection lost")
        return float(board.until("how long it took", lambda: page.evaluate("() => window.lostAfter")) / 1000)

    stopped_s = lost_after(signal.SIGSTOP)  # hangs: the connection stays open and nothing comes
    board.process.signal(signal.SIGCONT)
    board.until("it heals", lambda: page.is_hidden("#connection"))
    killed_s = lost_after(signal.SIGKILL)
    board.process.wait()
    page.click(".card [data-do=end][data-label=failure]")
    board.shows(".card .answer", "not connected: nothing was sent")
    robot.says(progress=0.7)
    board.start()
    board.until("it heals", lambda: page.is_hidden("#connection"))
    board.shows(".card .progress dd", "70 %")
    print(f"lost connection shown after {stopped_s:.2f} s (server hangs), {killed_s:.2f} s (server killed)")
    assert max(stopped_s, killed_s) < 2.0
    assert not [one for one in board.complaints if "ERR_CONNECTION_REFUSED" not in one], "beside failed attempts"


def test_hostile_words_harm_nothing(graph: Graph, panel: Opened, tmp_path: Path) -> None:
    board = panel(episodes=[tmp_path / "episodes"])
    page = board.open()
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    for number, words in enumerate(HOSTILE):
        robot = Robot(graph, f"/hostile_{number}")
        told = words.replace("\x00", "").encode("utf-8", "replace").decode()  # what DDS can carry
        events = [robot.raises(1, Severity.WARN, told, told)]
        robot.says(task=told, episode_id=told, model=told, active_events=events)
        card = f".card[aria-label='robot /hostile_{number}']"
        start = told.replace("\r\n", "\n")[:20].split("\n")[0].strip()
        board.until(f"{start!r} as text", lambda card=card, start=start: start in page.inner_text(f"{card} .task"))
    board.shows(".card .alarms", "onerror")
    assert page.evaluate("() => window.pwned") is None
    assert dialogs == []
    assert page.locator("main img, main script, main iframe").count() == 0
    wide, high = page.evaluate(
        "() => [document.documentElement.scrollWidth - innerWidth,"
        " Math.max(...[...document.querySelectorAll('.card .task, .card .alarms li')].map(e => e.offsetHeight))]"
    )
    assert wide <= 0 and high < 120, "a long task must not push the page about"
    assert "Traceback" not in board.process.text
    assert board.complaints == []


def test_an_error_is_heard_once_somebody_touched_the_page(graph: Graph, panel: Opened) -> None:
    robot = Robot(graph)
    robot.says()
    board = panel()
    board.page.add_init_script(
        "window.tones = 0; const start = OscillatorNode.prototype.start;"
        "OscillatorNode.prototype.start = function (...a) { window.tones++; return start.apply(this, a); };"
    )
    page = board.open()
    board.shows(".card .state", "RUNNING")
    robot.raises(1, Severity.ERROR, "before anybody touched the page")
    board.shows(".card .events", "before anybody")
    assert page.evaluate("() => window.tones") == 0
    page.click("h1")
    board.shows("#sound", "on \\(M\\)")
    robot.raises(2, Severity.WARN, "only a warning")
    robot.raises(3, Severity.ERROR, "the arm hit the table")
    board.until("three tones", lambda: page.evaluate("() => window.tones") == 3)
    assert "the arm hit the table" in page.inner_text("#announce")
    page.keyboard.press("m")
    board.shows("#sound", "off")
    robot.raises(4, Severity.ERROR, "muted")
    board.shows(".card .events", "muted")
    assert page.evaluate("() => window.tones") == 3
    assert board.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_can_be_read_in_light_and_dark(graph: Graph, panel: Opened, tmp_path: Path, scheme: str) -> None:
    """Contrast AA of every text, with every state that a card can have on the page."""
    robot = Robot(graph)
    events = [
        Event(event_id=n, episode_id="fake_1", kind=EventKind.STALL, severity=severity, onset_ns=1, detected_ns=1,
              reason="no progress for 3 s")
        for n, severity in enumerate(Severity)
    ]  # fmt: skip
    robot.says(active_events=events, progress=0.4, mp=0.5, drawdown=0.1)
    for number, state in enumerate((EpisodeState.ENDED, EpisodeState.IDLE), start=1):
        Robot(graph, f"/quiet_{number}").says(state=state)
    board = panel(episodes=[tmp_path / "none"])
    board.page.emulate_media(color_scheme=scheme)
    page = board.open()
    for number, severity in enumerate(Severity):
        robot.raises(number, severity)
    board.until("everything is there", lambda: page.locator(".card .events li").count() == 3)
    page.keyboard.press("1")
    page.keyboard.press("a")
    board.shows(".card .answer", "no resetter")
    found = contrasts(page)
    assert len(found) > 60
    bad = [one for one in found if one["value"] < one["needed"]]
    assert not bad, bad
    lines = page.evaluate(
        "() => { const s = getComputedStyle(document.documentElement); return ['live', 'band', 'field', 'link', 'card']"
        ".map(n => s.getPropertyValue('--' + n).trim()); }"
    )
    *drawn, ground = [luminance(colour) for colour in lines]
    ratios = [(max(one, ground) + 0.05) / (min(one, ground) + 0.05) for one in drawn]
    assert min(ratios) >= 3.0, "curves, borders and the focus ring"
    print(f"{scheme}: {len(found)} texts, the least contrast {min(one['value'] for one in found):.2f}")
    keep_screenshot(page, f"dashboard-{scheme}")
    assert board.complaints == []


def luminance(colour: str) -> float:
    """Relative luminance of #rgb or #rrggbb."""
    digits = colour.lstrip("#")
    digits = "".join(2 * one for one in digits) if len(digits) == 3 else digits
    channels = [int(digits[index : index + 2], 16) / 255 for index in (0, 2, 4)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_where_others_can_reach_it_the_page_asks_for_a_token(
    graph: Graph, panel: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    Robot(graph).says(progress=0.4)
    board = panel(host="0.0.0.0")  # noqa: S104 - that is what is tested
    file = tmp_path / "state" / "rollout-monitor" / f"dashboard-{board.port}.token"
    token = file.read_text().strip()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    page = board.page
    page.goto(board.address)
    board.shows("#login h2", "asks for its token")
    assert page.is_hidden("main") and page.locator(".card").count() == 0
    page.fill("#token", "not the token at all")
    page.keyboard.press("Enter")
    board.shows("#login-answer", "not the token")
    page.fill("#token", token)
    page.keyboard.press("Enter")
    board.shows(".card .progress dd", "40 %")
    assert page.evaluate("() => document.cookie") == "", "a script cannot read the cookie"

    stranger = page.context.browser.new_context()
    second = stranger.new_page()
    second.goto(f"{board.address}#token={token}")
    board.until("the link opens it", lambda: second.locator(".card").count() == 1)
    assert second.url == board.address, "the token is taken out of the address"
    stranger.close()
    assert token not in board.process.text
    assert not any(token.encode() in Path(f"/proc/{board.process.popen.pid}/{name}").read_bytes()
                   for name in ("cmdline", "environ"))  # fmt: skip
    assert all("403" in one for one in board.complaints), "the refused token only"


def test_ten_robots_at_ten_hertz_stay_fluid(graph: Graph, panel: Opened, root: Path) -> None:
    """Judges processor time and that nothing queues up; prints times, which a machine that does other things spoils."""
    crowd = root / "tests" / "ros" / "crowd.py"
    graph.start_command("crowd", [sys.executable, str(crowd), "10", "10"])
    board = panel()
    page = board.page
    page.set_viewport_size({"width": 1920, "height": 1080})
    board.open()
    board.until("ten cards", lambda: page.locator(".card").count() == 10)
    board.until("pictures", lambda: page.locator(".camera.has").count() >= 4)
    page.evaluate(
        """() => {
          window.frames_ms = []; window.lags_ms = []; let last = performance.now();
          const frame = (now) => { window.frames_ms.push(now - last); last = now; requestAnimationFrame(frame); };
          requestAnimationFrame(frame);
          for (const card of document.querySelectorAll('.card')) {
            const note = () => window.lags_ms.push(Date.now() - Number(card.dataset.stamp));
            new MutationObserver(note).observe(card, { attributeFilter: ['data-stamp'] });
          }
        }"""
    )
    inspector = page.context.new_cdp_session(page)
    inspector.send("Performance.enable", {"timeDomain": "threadTicks"})

    def used_s() -> tuple[float, float]:
        """Processor time of the server, and of the page's main thread."""
        metrics = {one["name"]: one["value"] for one in inspector.send("Performance.getMetrics")["metrics"]}
        return cpu_s(board.process.popen.pid), float(metrics["TaskDuration"])

    began_s, before = time.monotonic(), used_s()
    board.until("seconds of it", lambda: time.monotonic() - began_s > MEASURED_S)
    passed_s = time.monotonic() - began_s
    server, script = ((after - first) / passed_s for after, first in zip(used_s(), before, strict=True))
    frames, lags = (sorted(page.evaluate(f"() => window.{name}")) for name in ("frames_ms", "lags_ms"))
    seen = page.locator(".card").evaluate_all("cards => cards.filter(c => c.getBoundingClientRect().top < 1080).length")

    def at(values: list[float], part: float) -> float:
        return values[min(len(values) - 1, round(part * len(values)))]

    print(
        f"10 robots at 10 Hz, {seen} on the screen: server {100 * server:.0f} % of a core, the page's main thread "
        f"{100 * script:.0f} %; frame p50 {at(frames, 0.5):.0f} ms, p95 {at(frames, 0.95):.0f} ms; "
        f"stamp to page p50 {at(lags, 0.5):.0f} ms, p95 {at(lags, 0.95):.0f} ms, {len(lags)} updates"
    )
    assert server < 0.6 and script < 0.6
    newest = "() => Date.now() - Number(document.querySelector('.card').dataset.stamp)"
    board.until("a status within a second: nothing queues", lambda: page.evaluate(newest) < 1000 * LATE_S)
    keep_screenshot(page, "dashboard-ten-robots")
    assert board.complaints == []


def cpu_s(pid: int) -> float:
    """Processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
