"""Real nodes in processes of their own, on a domain of their own, and a node in the test that listens.

Nothing here sleeps for luck: everything waits for a condition with a deadline, and on failure the logs are shown.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import rclpy
from rcl_interfaces.srv import GetParameters
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node, NodeNameNonExistentError
from rclpy.qos import QoSProfile
from rclpy.signals import SignalHandlerOptions
from rclpy.subscription import Subscription
from rollout_monitor_nodes.common.qos import PROFILES
from rollout_monitor_nodes.common.types import import_type

from rollout_monitor.bringup import shared_memory

DEADLINE_S = 120.0
"""For what should take a second: a loaded machine must not fail a test."""

ASK_AGAIN_S = 0.2
"""An answer that was dropped does not come; see `Graph.answers_of`."""

FAREWELL_S = 1.0
"""A participant that is destroyed while it hears of another's end can spin for minutes (eProsima/Fast-DDS#6513)."""

WORK, WORK_S = 4_000_000, 0.05
"""So many numbers are added up in this time by a machine that has nothing else to do."""

T = TypeVar("T")


class TimeoutInTestError(AssertionError):
    """A condition did not come true in time."""


def until(
    what: str, check: Callable[[], T], deadline_s: float = DEADLINE_S, pump: Callable[[], None] | None = None
) -> T:
    """Wait until ``check`` gives something true, and return it."""
    end_s = time.monotonic() + deadline_s
    while True:
        found = check()
        if found:
            return found
        if time.monotonic() > end_s:
            raise TimeoutInTestError(f"not within {deadline_s:g} s: {what}")
        if pump is None:
            time.sleep(0.02)
        else:
            pump()


def slowness() -> float:
    """How many times longer than a machine that has nothing else to do this one takes for anything, now; 1 or more."""
    began_s = time.monotonic()
    sum(range(WORK))
    return max(1.0, (time.monotonic() - began_s) / WORK_S)


def unhurried() -> float:
    """A rate of playing with which this machine keeps up as easily as one that has nothing else to do with rate 1.

    For nodes that judge by stamps alone: to others a slow recording is one that falls silent again and again.
    """
    return max(0.1, 1.0 / slowness())


class Within:
    """A time that is promised on a machine that has nothing else to do, counted from when this is made."""

    def __init__(self, promised_s: float) -> None:
        self._promised_s = promised_s
        self._slowness = slowness()
        self._began_s = time.monotonic()

    def kept(self) -> bool:
        """Whether it is kept now; a machine that is slower before or after may take as much more time."""
        took_s = time.monotonic() - self._began_s
        return took_s < self._promised_s or took_s < self._promised_s * max(self._slowness, slowness())


def segments_of(pid: int) -> list[Path]:
    """The shared-memory segments that a running process owns: it holds their lock files open."""
    links: list[Path] = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # closed meanwhile
            links.append(link.readlink())
    locks = [link for link in links if link.parent == shared_memory.SHM and link.name.endswith("_el")]
    return [lock.with_name(lock.name.removesuffix("_el")) for lock in locks if "_port" not in lock.name]


@dataclass
class Process:
    """One node that was started."""

    name: str
    popen: subprocess.Popen[bytes]
    log: Path

    def signal(self, number: signal.Signals) -> None:
        self.popen.send_signal(number)

    def wait(self, deadline_s: float = DEADLINE_S) -> int:
        """Its exit code."""
        return self.popen.wait(deadline_s)

    @property
    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def said(self, words: str, deadline_s: float = DEADLINE_S) -> None:
        """Wait until the log holds the words."""
        until(f"{self.name} says {words!r}", lambda: words in self.text or self._fail_if_dead(words), deadline_s)

    def _fail_if_dead(self, words: str) -> bool:
        if self.popen.poll() is not None and words not in self.text:
            raise AssertionError(
                f"{self.name} ended with {self.popen.returncode} before it said {words!r}:\n{self.text}"
            )
        return False


@dataclass
class Heard:
    """What the test's own node received on one topic."""

    subscription: Subscription
    messages: list[Any] = field(default_factory=list)
    times_s: list[float] = field(default_factory=list)


class Graph:
    """A ROS graph of a test's own: start nodes, listen, call; `close` ends everything that was started here."""

    def __init__(self, folder: Path, domain: int) -> None:
        self.folder = folder
        self.domain = domain
        self.processes: list[Process] = []
        self._clients: dict[str, Any] = {}
        self.meanwhile: Callable[[], object] = lambda: None
        """Called all the while that the test waits, for instance to let streams go on."""
        self.context = rclpy.Context()
        rclpy.init(context=self.context, domain_id=domain, signal_handler_options=SignalHandlerOptions.NO)
        self.node = Node("test_probe", context=self.context)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)

    # --- processes ----------------------------------------------------------------------------------------------

    def start(self, node: str, *, namespace: str = "", name: str = "", **parameters: object) -> Process:
        """Start a node of rollout_monitor_nodes; parameters by name, a dot in a name written as two underscores."""
        arguments = []
        for key, value in parameters.items():
            arguments += ["-p", f"{key.replace('__', '.')}:={yaml_text(value)}"]
        if namespace:
            arguments += ["-r", f"__ns:={namespace}"]
        command = [sys.executable, "-m", f"rollout_monitor_nodes.{node}", "--ros-args", *arguments]
        return self.start_command(name or node, command)

    def start_command(self, name: str, command: list[str]) -> Process:
        """Start anything in this graph's domain."""
        log = self.folder / f"{len(self.processes):02d}_{name}.log"
        env = {
            **os.environ,
            "ROS_DOMAIN_ID": str(self.domain),
            "PYTHONUNBUFFERED": "1",
            "ROS_LOG_DIR": str(self.folder),
        }
        with log.open("wb") as out:
            popen = subprocess.Popen(
                command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=env, cwd=self.folder
            )
        process = Process(name, popen, log)
        self.processes.append(process)
        return process

    def close(self) -> None:
        """End all processes, first politely, and this graph's node."""
        for number, wait_s in ((signal.SIGINT, 8.0), (signal.SIGTERM, 3.0), (signal.SIGKILL, 10.0)):
            running = [process for process in self.processes if process.popen.poll() is None]
            for process in running:
                process.signal(number)
            end_s = time.monotonic() + wait_s
            while any(process.popen.poll() is None for process in running) and time.monotonic() < end_s:
                time.sleep(0.02)
        with suppress(TimeoutInTestError):  # a killed process has not said goodbye
            until("the others' farewells", self._is_alone, FAREWELL_S)
        self.executor.shutdown()
        self.node.destroy_node()
        rclpy.shutdown(context=self.context)
        shared_memory.remove_dead()  # of the processes that a test killed

    def _is_alone(self) -> bool:
        return self.node.get_node_names() == [self.node.get_name()]

    def logs(self) -> str:
        """The end of every log, for a failed test."""
        return "\n".join(f"--- {process.log.name}\n{process.text[-6000:]}" for process in self.processes)

    # --- the test's own node ------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Let the test's node receive for a moment."""
        self.meanwhile()
        self.executor.spin_once(timeout_sec=0.02)

    def until(self, what: str, check: Callable[[], T], deadline_s: float = DEADLINE_S) -> T:
        """Wait for a condition while receiving."""
        return until(what, check, deadline_s, self.pump)

    def listen(self, topic: str, type_name: str, profile: str | QoSProfile = "RECORDS", raw: bool = False) -> Heard:
        """Collect what is published on a topic."""
        heard: Heard

        def on_message(message: Any) -> None:
            heard.messages.append(message)
            heard.times_s.append(time.monotonic())

        qos = PROFILES[profile] if isinstance(profile, str) else profile
        heard = Heard(self.node.create_subscription(import_type(type_name), topic, on_message, qos, raw=raw))
        return heard

    def publisher(self, topic: str, type_name: str, profile: str | QoSProfile) -> Any:
        """A publisher of the test's own."""
        qos = PROFILES[profile] if isinstance(profile, str) else profile
        return self.node.create_publisher(import_type(type_name), topic, qos)

    def call(self, service: str, type_name: str, **fields: object) -> Any:
        """Call a service and return its answer."""
        client = self.client(service, type_name)
        self.until(f"service {service}", client.service_is_ready)
        self.until(f"answers of {service}", self.answers_of(service))
        future = client.call_async(import_type(type_name).Request(**fields))
        self.until(f"answer of {service}", future.done)
        return future.result()

    def answers_of(self, service: str) -> Callable[[], bool]:
        """A condition: the answers of a service whose client was made before will come here.

        A server drops its answer when it does not know the client's reader yet, and a client cannot see that it does.
        But it hears of readers in the order in which they were made: where it answers a client that was made later,
        it knows this one. A question about its parameters may be asked until it is answered.
        """
        later: Any = None
        asked: list[Any] = []
        asked_s = 0.0

        def come() -> bool:
            nonlocal later, asked_s
            if later is None:
                server = self._server_of(service)
                if server is not None:
                    later = self.node.create_client(GetParameters, f"{server}/get_parameters")
            elif any(future.done() for future in asked):
                self.node.destroy_client(later)
                return True
            elif later.service_is_ready() and time.monotonic() > asked_s + ASK_AGAIN_S:
                asked_s = time.monotonic()
                asked.append(later.call_async(GetParameters.Request(names=["use_sim_time"])))
            return False

        return come

    def _server_of(self, service: str) -> str | None:
        for name, namespace in self.node.get_node_names_and_namespaces():
            with suppress(NodeNameNonExistentError):  # it has just gone
                if service in dict(self.node.get_service_names_and_types_by_node(name, namespace)):
                    return f"{namespace.rstrip('/')}/{name}"
        return None

    def client(self, service: str, type_name: str) -> Any:
        """The client for a service; made early, it is matched when it is needed."""
        if service not in self._clients:
            self._clients[service] = self.node.create_client(import_type(type_name), service)
        return self._clients[service]

    def subscribers(self, topic: str) -> set[str]:
        """Names of the nodes that subscribe to a topic."""
        return {info.node_name for info in self.node.get_subscriptions_info_by_topic(topic)}

    def publishers(self, topic: str) -> set[str]:
        """Names of the nodes that publish on a topic."""
        return {info.node_name for info in self.node.get_publishers_info_by_topic(topic)}


def yaml_text(value: object) -> str:
    """A parameter value for the command line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return "[" + ", ".join(yaml_text(item) for item in value) + "]"
    return f'"{value}"' if isinstance(value, str | Path) else str(value)
