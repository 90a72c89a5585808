"""Starts a node, spins it, and ends it cleanly: one way for all executables.

Exit codes: 0 ended as asked (by a signal, or because its work is done), 1 the run failed (starting it again may help),
2 it cannot begin like this: wrong parameters, arguments or files. A signal never ends in a traceback, but for that of a
node which hangs while it leaves: see `leaving`.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from typing import Any, Protocol

import rclpy
from rclpy.executors import Executor, SingleThreadedExecutor
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future

from rollout_monitor.errors import InputError, RolloutMonitorError
from rollout_monitor_nodes.common.leaving import CLOSE_S, FINISH_S, LEAVE_S, leave_within, limited
from rollout_monitor_nodes.common.signals import StopSignals, catch

FOREVER_S = 1e9
"""A time-out for spinning. The EventsExecutor spins without work and dispatches nothing when it gets no time-out."""

EXIT_OK, EXIT_FAILED, EXIT_USAGE = 0, 1, 2


class Finishing(Protocol):
    """What `run` needs of a node beyond being an rclpy node."""

    exit: Future
    """Done with the exit code when the node has nothing left to do."""

    def begin(self) -> None:
        """Start working; the executor is about to spin. Raises RolloutMonitorError where it cannot."""

    def stop(self, reason: str) -> None:
        """Asked to stop: finish soon and set ``exit``. Asked again: wait for nobody."""

    def close(self) -> None:
        """Spinning is over: end threads, close files. Called once, also after a failure."""


def make_executor() -> Executor:
    """The EventsExecutor where rclpy has it (a third of the CPU at 500 Hz), else the SingleThreadedExecutor.

    Never the MultiThreadedExecutor: it loses most messages of a 500 Hz topic.
    """
    try:
        from rclpy.experimental.events_executor import EventsExecutor  # noqa: PLC0415
    except ImportError:
        return SingleThreadedExecutor()
    return EventsExecutor()


def spin_until(executor: Executor, future: Future) -> None:
    """Spin until the future is done or rclpy is shut down."""
    while rclpy.ok() and not future.done():
        executor.spin_until_future_complete(future, timeout_sec=FOREVER_S)


def run(name: str, make_node: Callable[[], Any], args: list[str] | None = None) -> int:
    """Run one node until it is done or a signal comes.

    Args:
        name: the executable's name, for messages before the node exists.
        make_node: makes the node; it follows `Finishing`.
        args: command line with ROS arguments; None takes the process's own.

    Returns:
        The process's exit code.
    """
    signals = catch()
    try:
        rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
    except Exception as error:  # rcl raises several unrelated types for wrong arguments and parameter files
        return complain(name, error)
    try:
        return _run(name, make_node, signals)
    finally:
        with limited(LEAVE_S):
            rclpy.try_shutdown()


def _run(name: str, make_node: Callable[[], Any], signals: StopSignals) -> int:
    try:
        node = make_node()
    except (InputError, RolloutMonitorError) as error:
        return complain(name, error)
    executor = make_executor()
    executor.add_node(node)
    signals.on_stop(lambda signal_name: _ask_to_stop(executor, node, signal_name))
    try:
        return _work(node.get_name(), node, executor)
    finally:
        with limited(LEAVE_S):
            executor.remove_node(node)
            executor.shutdown()
            node.destroy_node()


def _work(name: str, node: Finishing, executor: Executor) -> int:
    code = EXIT_USAGE  # of an error that is told, until spinning begins
    try:
        node.begin()
        code = EXIT_FAILED
        spin_until(executor, node.exit)
        code = int(node.exit.result()) if node.exit.done() else EXIT_OK
    except RolloutMonitorError as error:
        complain(name, error)
    except Exception:
        traceback.print_exc()  # a defect: its place is wanted
        code = EXIT_FAILED
    try:
        with limited(CLOSE_S):
            node.close()
    except RolloutMonitorError as error:
        complain(name, error)
        code = code or EXIT_FAILED
    return code


def call_soon(executor: Executor, action: Callable[..., object], *args: object) -> None:
    """Call ``action`` in the executor's thread, from any other.

    A task that raises takes the EventsExecutor's process down by SIGSEGV (rclpy PR 1718), so nothing leaves here.
    """
    executor.create_task(_told, action, args)


def _told(action: Callable[..., object], args: tuple[object, ...]) -> None:
    try:
        action(*args)
    except Exception:
        traceback.print_exc()


def _ask_to_stop(executor: Executor, node: Finishing, signal_name: str) -> None:
    if not node.exit.done():
        leave_within(FINISH_S)
        call_soon(executor, _stop, node, signal_name)


def _stop(node: Finishing, signal_name: str) -> None:
    try:
        node.stop(signal_name)
    except Exception:
        traceback.print_exc()
        if not node.exit.done():
            node.exit.set_result(EXIT_FAILED)


def complain(name: str, error: Exception) -> int:
    """Print one line and return the exit code for it."""
    line = " ".join(str(error).split())
    print(f"{name}: error: {line}", file=sys.stderr, flush=True)
    return EXIT_USAGE
