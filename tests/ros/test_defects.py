"""A defect in a node: what raises is told, closed and ends with exit code 1, never silently or by a crash."""

from __future__ import annotations

import sys

import pytest
from graph import Graph

RAISING = """
import sys
from rclpy.node import Node
from rclpy.task import Future
from std_msgs.msg import String
from rollout_monitor_nodes.common import spin

WHERE = sys.argv[1]


class Raising(Node):
    def __init__(self):
        super().__init__("raising")
        self.exit = Future()

    def begin(self):
        self.timer = self.create_timer(0.05, self.on_tick)
        self.publisher = self.create_publisher(String, "words", 10)
        self.subscription = self.create_subscription(String, "words", self.on_word, 10)

    def on_tick(self):
        if WHERE == "timer":
            self.fail()
        if WHERE == "task":
            spin.call_soon(self.executor, self.fail)
            spin.call_soon(self.executor, self.stop, "done")
        self.publisher.publish(String(data="word"))

    def on_word(self, word):
        if WHERE == "subscription":
            self.fail()

    def fail(self):
        raise ValueError("a defect")

    def stop(self, reason):
        if WHERE == "stop":
            self.fail()
        if not self.exit.done():
            self.exit.set_result(0)

    def close(self):
        print("closed", flush=True)


sys.exit(spin.run("raising", Raising, []))
"""


@pytest.mark.parametrize(("where", "code"), [("timer", 1), ("subscription", 1), ("task", 0), ("stop", 1)])
def test_what_raises_in_a_callback_is_told_and_the_node_ends_cleanly(graph: Graph, where: str, code: int) -> None:
    """An exception in a task of the EventsExecutor takes the process down by SIGSEGV (rclpy PR 1718, rclpy#1641)."""
    script = graph.folder / "raising.py"
    script.write_text(RAISING)
    node = graph.start_command("raising", [sys.executable, str(script), where])
    if where == "stop":
        graph.until("the node", lambda: "raising" in graph.node.get_node_names())
        node.popen.terminate()
    assert node.wait() == code, node.text
    assert "ValueError: a defect" in node.text
    assert "closed" in node.text
