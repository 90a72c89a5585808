"""The tasks of the simulated cell: which object moves, what it moves to, and how people say it."""

from __future__ import annotations

from dataclasses import dataclass

from rollout_monitor.errors import InputError

COLOURS = ("red", "green")
"""The cubes' colours, in the order in which states are stored."""


@dataclass(frozen=True)
class Task:
    """One task of the cell.

    Attributes:
        name: identifier, for example ``stack_red_on_green``.
        moving: colour of the cube to pick up.
        base: colour of the cube to put it on; None for a lift.
        scene: the robosuite environment that holds the objects, ``Lift`` or ``Stack``.
        text: the instruction in plain words.
    """

    name: str
    moving: str
    base: str | None
    scene: str
    text: str

    @property
    def index(self) -> int:
        """Place in `TASKS`; part of every seed, so that tasks do not share scenes."""
        return list(TASKS).index(self.name)


TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task("lift", "red", None, "Lift", "lift the red cube"),
        Task("stack_red_on_green", "red", "green", "Stack", "stack the red cube on the green cube"),
        Task("stack_green_on_red", "green", "red", "Stack", "stack the green cube on the red cube"),
    )
}


def get_task(name: str) -> Task:
    """Look a task up by name.

    Raises:
        InputError: no such task; the message lists the known ones.
    """
    if name not in TASKS:
        raise InputError(f"unknown task {name!r}; known tasks: {', '.join(TASKS)}")
    return TASKS[name]
