"""The frame of a managed (lifecycle) node: parameters, transitions that cannot kill it, a clean end.

A node is configured (model loaded, folder opened) and activated (subscribed) at once unless ``autostart`` is false.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any, TypeVar

from lifecycle_msgs.srv import ChangeState
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.task import Future

from rollout_monitor.errors import RolloutMonitorError
from rollout_monitor_nodes.common.params import declare
from rollout_monitor_nodes.interfaces import NodeInterface

R = TypeVar("R")


class ManagedNode(LifecycleNode):
    """Base of the managed nodes. Subclasses fill in `configure`, `activate`, `deactivate`, `clean_up`."""

    def __init__(self, interface: NodeInterface) -> None:
        """Declare the parameters.

        Raises:
            InputError: a wrong parameter, in one line.
        """
        super().__init__(interface.name)
        self.exit = Future()
        self.active = False
        self._failure: RolloutMonitorError | None = None
        self.settings: Any = declare(self, interface.settings)
        self._service_change_state.callback = self._refuse_impossible(self._service_change_state.callback)

    # --- for subclasses -----------------------------------------------------------------------------------------

    def configure(self) -> None:
        """Load and open what is needed. Raises RolloutMonitorError where that fails."""

    def activate(self) -> None:
        """Begin to work."""

    def deactivate(self) -> None:
        """Cease to work, keeping what was configured."""

    def clean_up(self) -> None:
        """Give back what was configured."""

    def converted(self, from_msg: Callable[[Any], R], msg: object) -> R | None:
        """A record, or None after a complaint: another version's or a stranger's message must not end the node."""
        try:
            return from_msg(msg)
        except ValueError as error:  # pydantic's and ours
            line = " ".join(str(error).split())
            self.get_logger().error(f"{type(msg).__name__} message refused: {line}", throttle_duration_sec=5.0)
            return None

    # --- what `run` asks for ------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Configure and activate, if wanted.

        Raises:
            RolloutMonitorError: why it could not be configured.
        """
        if not self.settings.autostart:
            return
        for trigger in (self.trigger_configure, self.trigger_activate):
            if trigger() is not TransitionCallbackReturn.SUCCESS:
                raise self._failure or RolloutMonitorError("the node could not be started; see above")

    def stop(self, reason: str) -> None:  # noqa: ARG002 - the signature that `run` calls
        """Nothing to finish: done."""
        self.finish()

    def finish(self, code: int = 0) -> None:
        """End spinning."""
        if not self.exit.done():
            self.exit.set_result(code)

    def close(self) -> None:
        """Deactivate and clean up, whatever state it is in."""
        if self.active:
            self.active = False
            self.deactivate()
        self.clean_up()

    # --- transitions --------------------------------------------------------------------------------------------

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:  # noqa: ARG002
        """Transition: configure."""
        return self._guarded(self.configure)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Transition: activate."""
        result = self._guarded(self.activate)
        self.active = result is TransitionCallbackReturn.SUCCESS
        return super().on_activate(state) if self.active else result

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Transition: deactivate."""
        self.active = False
        result = self._guarded(self.deactivate)
        return super().on_deactivate(state) if result is TransitionCallbackReturn.SUCCESS else result

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:  # noqa: ARG002
        """Transition: clean up."""
        return self._guarded(self.clean_up)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:  # noqa: ARG002
        """Transition: shut down; ends the process."""
        self.stop("shutdown was requested")
        return TransitionCallbackReturn.SUCCESS

    def _guarded(self, action: Callable[[], None]) -> TransitionCallbackReturn:
        """Run a transition's work; rclpy would swallow an exception without a word."""
        try:
            action()
        except RolloutMonitorError as error:
            self._failure = error
            self.get_logger().error(str(error))
            return TransitionCallbackReturn.FAILURE
        except Exception:
            self.get_logger().fatal(traceback.format_exc())
            return TransitionCallbackReturn.ERROR
        return TransitionCallbackReturn.SUCCESS

    def _refuse_impossible(self, change: Callable[..., ChangeState.Response]) -> Callable[..., ChangeState.Response]:
        """An impossible transition raises inside rclpy and would end the node (rclpy issue 1209); answer no instead."""

        def answer(request: ChangeState.Request, response: ChangeState.Response) -> ChangeState.Response:
            try:
                return change(request, response)
            except Exception as error:
                asked = request.transition.label or f"number {request.transition.id}"
                self.get_logger().warning(f"transition {asked} is not possible now: {error}")
                response.success = False
                return response

        return answer
