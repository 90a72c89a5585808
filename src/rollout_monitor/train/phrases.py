"""How people word the cell's tasks: many templates for training, some kept aside for the test."""

from __future__ import annotations

import numpy as np

from rollout_monitor.sim.tasks import Task

LIFT = (
    "lift the {m} cube",
    "lift the {m} block",
    "pick up the {m} cube",
    "pick up the {m} block",
    "pick the {m} cube up",
    "raise the {m} cube",
    "grab the {m} cube and lift it",
    "grasp the {m} block and raise it",
    "take the {m} cube off the table",
    "hold the {m} cube up in the air",
    "please lift the {m} box",
    "lift up the {m} cube",
    "lift {m} cube",
    "get the {m} cube off the table",
)
STACK = (
    "stack the {m} cube on the {b} cube",
    "stack the {m} cube on top of the {b} cube",
    "stack the {m} block on the {b} block",
    "put the {m} cube on the {b} cube",
    "put the {m} block on top of the {b} one",
    "place the {m} cube on the {b} cube",
    "place the {m} cube onto the {b} block",
    "set the {m} cube down on the {b} cube",
    "pick up the {m} cube and put it on the {b} cube",
    "pick the {m} block and place it on top of the {b} block",
    "take the {m} cube and stack it on the {b} cube",
    "move the {m} cube onto the {b} cube",
    "please stack the {m} box on the {b} box",
    "the {m} cube goes on the {b} cube",
    "the {m} cube should end up on top of the {b} cube",
    "stack {m} on {b}",
    "put {m} on {b}",
    # the base is named first
    "on the {b} cube put the {m} cube",
    "on top of the {b} cube place the {m} cube",
    "the {b} cube should end up underneath the {m} cube",
    "the {b} block goes under the {m} block",
    "put the {b} cube under the {m} cube",
    "make the {b} cube the base and the {m} cube the top",
    "use the {b} cube as the base for the {m} cube",
)
LIFT_HELD_OUT = ("lift the {m} one off the table", "please pick up the {m} cube", "grasp the {m} cube and lift it up")
STACK_HELD_OUT = (
    "please put the {m} cube on top of the {b} cube",
    "grab the {m} block and set it on the {b} block",
    "the {m} block should end up on the {b} block",
    "the {b} cube should end up under the {m} cube",
    "move the {m} block on top of the {b} one",
)


def templates(task: Task, *, held_out: bool = False) -> tuple[str, ...]:
    """The templates of a task's kind."""
    if task.base is None:
        return LIFT_HELD_OUT if held_out else LIFT
    return STACK_HELD_OUT if held_out else STACK


def fill(template: str, task: Task) -> str:
    """A template with the task's colours."""
    return template.format(m=task.moving, b=task.base)


def draw(rng: np.random.Generator, task: Task) -> str:
    """One training phrasing; every fourth time the plain one."""
    if rng.random() < 0.25:
        return task.text
    options = templates(task)
    return fill(options[int(rng.integers(len(options)))], task)


def all_training_texts(tasks: list[Task]) -> list[str]:
    """Every training phrasing of some tasks: what the vocabulary is made of."""
    return [task.text for task in tasks] + [fill(t, task) for task in tasks for t in templates(task)]
