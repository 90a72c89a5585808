"""How people word the table's tasks: many templates to train with, some kept aside for tests.

``{m}`` is what moves, ``{t}`` the target. Some templates name the target first or turn the roles round ("the green
cube should end up underneath the red cube"): the order of the words alone must not give the roles away. None leaves
open which of two things moves ("the green cube goes left of the red cube" moves the green one). Templates in
`COMMANDS` can be parts of a longer instruction; those in `WISHES` stand alone.
"""

from __future__ import annotations

import numpy as np

from rollout_monitor.sim.tabletop.catalogue import NOUNS
from rollout_monitor.sim.tabletop.goals import Goal, Task, parse, text_of
from rollout_monitor.sim.tabletop.skins import names as skin_names

COMMANDS: dict[str, tuple[str, ...]] = {
    "lift": (
        "lift the {m}",
        "pick up the {m}",
        "pick the {m} up",
        "raise the {m}",
        "lift up the {m}",
        "grab the {m} and lift it",
        "grasp the {m} and raise it",
        "take the {m} off the table",
        "hold the {m} up in the air",
    ),
    "on": (
        "stack the {m} on the {t}",
        "stack the {m} on top of the {t}",
        "put the {m} on the {t}",
        "place the {m} onto the {t}",
        "set the {m} down on top of the {t}",
        "pick up the {m} and put it on the {t}",
        "take the {m} and stack it on the {t}",
        "move the {m} onto the {t}",
        "on the {t} put the {m}",
        "on top of the {t} place the {m}",
        "put the {t} under the {m}",
        "use the {t} as the base for the {m}",
        "make the {t} the base and the {m} the top",
    ),
    "in": (
        "put the {m} {p} the {t}",
        "place the {m} {p} the {t}",
        "drop the {m} {p} the {t}",
        "move the {m} to the {t}",
        "pick up the {m} and put it {p} the {t}",
        "take the {m} and place it {p} the {t}",
        "bring the {m} to the {t}",
        "{p} the {t} put the {m}",
        "fill the {t} with the {m}",
    ),
    "zone": (
        "push the {m} to the {t}",
        "push the {m} into the {t}",
        "slide the {m} to the {t}",
        "slide the {m} into the {t}",
        "move the {m} to the {t} by pushing it",
        "shove the {m} onto the {t}",
        "to the {t} push the {m}",
        "get the {m} into the {t} without lifting it",
    ),
    "left": (
        "place the {m} left of the {t}",
        "put the {m} to the left of the {t}",
        "set the {m} down on the left side of the {t}",
        "move the {m} to the left of the {t}",
        "pick up the {m} and put it left of the {t}",
        "left of the {t} place the {m}",
        "to the left of the {t} put the {m}",
        "put the {m} so that the {t} is right of it",
        "make the {t} the right one and the {m} the left one",
    ),
    "right": (
        "place the {m} right of the {t}",
        "put the {m} to the right of the {t}",
        "set the {m} down on the right side of the {t}",
        "move the {m} to the right of the {t}",
        "pick up the {m} and put it right of the {t}",
        "right of the {t} place the {m}",
        "to the right of the {t} put the {m}",
        "put the {m} so that the {t} is left of it",
        "make the {t} the left one and the {m} the right one",
    ),
    "peg": (
        "put the {m} on the {t}",
        "place the {m} over the {t}",
        "set the {m} onto the {t}",
        "hang the {m} on the {t}",
        "drop the {m} over the {t}",
        "pick up the {m} and put it on the {t}",
        "on the {t} put the {m}",
        "fit the {m} around the {t}",
    ),
    "open": (
        "open the {m}",
        "pull the {m} open",
        "pull open the {m}",
        "grab the handle and open the {m}",
        "open the {m} all the way",
        "take the handle and pull the {m} open",
        "get the {m} open",
        "move the {m} so that it is open",
    ),
    "close": (
        "close the {m}",
        "push the {m} shut",
        "shut the {m}",
        "grab the handle and close the {m}",
        "close the {m} all the way",
        "take the handle and push the {m} shut",
        "get the {m} closed",
        "move the {m} so that it is shut",
    ),
    "both": (
        "lift the {m} with both arms",
        "pick up the {m} with both arms",
        "raise the {m} with two hands",
        "take the {m} by both handles and lift it",
        "lift the {m} together",
        "with both arms lift the {m}",
        "use both arms to pick up the {m}",
        "grab both handles and raise the {m}",
    ),
    "give": (
        "hand the {m} over to the other arm",
        "pass the {m} to the other arm",
        "give the {m} to the other arm",
        "hand over the {m}",
        "pass the {m} from one arm to the other",
        "pick up the {m} and hand it to the other arm",
        "let the other arm take the {m}",
        "move the {m} from hand to hand",
    ),
}
WISHES: dict[str, tuple[str, ...]] = {
    "lift": ("the {m} should be up in the air", "please lift the {m}"),
    "on": (
        "the {m} goes on the {t}",
        "the {m} should end up on top of the {t}",
        "the {t} should end up underneath the {m}",
        "the {t} goes under the {m}",
        "the {t} should carry the {m}",
    ),
    "in": ("the {m} belongs {p} the {t}", "the {m} should end up {p} the {t}", "the {t} should hold the {m}"),
    "zone": ("the {m} belongs in the {t}", "the {m} should end up in the {t}", "the {t} is where the {m} should be"),
    "left": ("the {m} should be left of the {t}", "the {m} should end up left of the {t}"),
    "right": ("the {m} should be right of the {t}", "the {m} should end up right of the {t}"),
    "peg": ("the {m} belongs on the {t}", "the {t} should be inside the {m}"),
    "open": ("the {m} should be open",),
    "close": ("the {m} should be closed",),
    "both": ("the {m} should be up in the air, held by both arms",),
    "give": ("the other arm should hold the {m}",),
}
HELD_OUT: dict[str, tuple[str, ...]] = {
    "lift": ("please pick up the {m}", "grasp the {m} and lift it up", "lift the {m} off the table"),
    "on": (
        "please put the {m} on top of the {t}",
        "grab the {m} and set it down on the {t}",
        "the {t} should end up under the {m}",
        "place the {m} on top of the {t}",
        "the {m} should be on the {t}",
    ),
    "in": ("please put the {m} {p} the {t}", "grab the {m} and drop it {p} the {t}", "the {m} goes {p} the {t}"),
    "zone": ("please push the {m} to the {t}", "push the {m} onto the {t}", "the {m} should be in the {t}"),
    "left": (
        "please put the {m} left of the {t}",
        "the {m} goes to the left of the {t}",
        "get the {m} to the left side of the {t}",
    ),
    "right": (
        "please put the {m} right of the {t}",
        "the {m} goes to the right of the {t}",
        "get the {m} to the right side of the {t}",
    ),
    "peg": ("please put the {m} over the {t}", "place the {m} onto the {t}"),
    "open": ("please open the {m}", "pull the handle and open the {m}"),
    "close": ("please close the {m}", "push the handle and close the {m}"),
    "both": ("please lift the {m} with two hands", "pick the {m} up together"),
    "give": ("please pass the {m} to the other hand", "hand the {m} to the other arm"),
}
JOINS: dict[int, tuple[str, ...]] = {
    2: (
        "{a} and then {b}",
        "first {a}, then {b}",
        "{a}, after that {b}",
        "start with this: {a}; next: {b}",
        "before you {b}, {a}",
        "{b}, but before that {a}",
        "do this first: {a}; then {b}",
        "{a}; when that is done, {b}",
    ),
    3: (
        "first {a}, then {b}, finally {c}",
        "{a}, then {b}, then {c}",
        "{a} and then {b} and then {c}",
        "start with this: {a}; next: {b}; last: {c}",
        "{a}; after that {b}; after that {c}",
        "at the end {c}, but first {a}, then {b}",
        "before you {c}, {a} and then {b}",
        "do this first: {a}; then {b}; then {c}",
    ),
}
HELD_OUT_JOINS: dict[int, tuple[str, ...]] = {
    2: ("first {a}; after that {b}", "{b}, but first {a}", "start with this: {a}; then {b}"),
    3: ("first {a}; next {b}; last {c}", "at the end {c}; before that {b}; start with this: {a}"),
}
PLAIN_SHARE = 0.2
HELD_OUT_THINGS = ("can", "bowl")
"""Their names are no words of training."""

_PLAIN = tuple(
    Goal(kind, what, target)
    for kind, what, target in (
        ("lift", "red", None),
        ("on", "red", "green"),
        ("in", "red", "plate"),
        ("in", "red", "bin"),
        ("left", "red", "green"),
        ("right", "red", "green"),
        ("peg", "ring", "peg"),
        ("zone", "red", "white_zone"),
        ("open", "drawer", None),
        ("close", "door", None),
        ("both", "pot", None),
        ("give", "bar", None),
    )
)
"""One goal of each kind: the words of the plainest texts."""


def fill(template: str, goal: Goal) -> str:
    """A template with the goal's names."""
    where = "on" if goal.target == "plate" else "in"
    return template.format(m=NOUNS[goal.what], t=NOUNS.get(goal.target or "", ""), p=where)


def plain(task: Task | str) -> str:
    """The task in the plainest words."""
    task = parse(task) if isinstance(task, str) else task
    texts = [text_of(goal) for goal in task.goals]
    return texts[0] if len(texts) == 1 else "first " + ", then ".join(texts)


def phrases(task: Task | str, *, held_out: bool = False) -> list[str]:
    """Every wording of a task of one goal; of a longer one every join over plain parts."""
    task = parse(task) if isinstance(task, str) else task
    if len(task.goals) > 1:
        parts = dict(zip("abc", (text_of(goal) for goal in task.goals), strict=False))
        return [join.format(**parts) for join in (HELD_OUT_JOINS if held_out else JOINS)[len(parts)]]
    (goal,) = task.goals
    templates = HELD_OUT[goal.kind] if held_out else COMMANDS[goal.kind] + WISHES[goal.kind]
    return [fill(template, goal) for template in templates]


def training_texts() -> list[str]:
    """Texts that together hold every word that training can show."""
    names = [noun for name, noun in NOUNS.items() if name not in HELD_OUT_THINGS]
    templates = [t for table in (COMMANDS, WISHES) for options in table.values() for t in options]
    texts = [t.format(m=name, t=name, p=place) for t in templates for name in names for place in ("in", "on")]
    texts += [*(text_of(goal) for goal in _PLAIN), *skin_names()]
    return texts + [join.format(a="", b="", c="") for joins in JOINS.values() for join in joins]


def draw_phrase(rng: np.random.Generator, task: Task | str, *, held_out: bool = False) -> str:
    """One wording; in training every fifth time the plain one, in a held-out set never one of training."""
    task = parse(task) if isinstance(task, str) else task
    if not held_out and rng.random() < PLAIN_SHARE:
        return plain(task)
    if len(task.goals) == 1:
        return _one_of(rng, phrases(task, held_out=held_out))
    parts = [fill(_one_of(rng, COMMANDS[goal.kind]), goal) for goal in task.goals]
    joins = (HELD_OUT_JOINS if held_out else JOINS)[len(parts)]
    return _one_of(rng, joins).format(**dict(zip("abc", parts, strict=False)))


def _one_of(rng: np.random.Generator, options: list[str] | tuple[str, ...]) -> str:
    return options[int(rng.integers(len(options)))]
