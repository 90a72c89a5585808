"""What a page can ask a robot's monitor to do, checked before anything is called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from rollout_monitor.errors import InputError

SOURCE = "dashboard"
"""What markers name as the source of a boundary, before the name of whoever set it."""


class _Command(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    robot: str = Field(min_length=1, max_length=200)
    who: str = Field(default="", max_length=100)


class Start(_Command):
    """Begin an attempt."""

    do: Literal["start"]
    task: str = Field(min_length=1, max_length=1000)


class End(_Command):
    """End the running attempt ``episode``, with its outcome where the operator knows it."""

    do: Literal["end"]
    episode: str = Field(min_length=1, max_length=128)
    label: Literal["success", "failure"] | None = None


class Say(_Command):
    """Label an attempt that ended, or note something about it: no label and no note takes this person's back."""

    do: Literal["label"]
    episode: str = Field(min_length=1, max_length=128)
    label: Literal["success", "failure"] | None = None
    note: str = Field(default="", max_length=10_000)
    who: str = Field(min_length=1, max_length=100)


class Arm(_Command):
    """Let the resetter act when an attempt ends, or not."""

    do: Literal["arm_reset", "disarm_reset"]


Command: TypeAlias = Start | End | Say | Arm
_COMMANDS: TypeAdapter[Command] = TypeAdapter(Annotated[Command, Field(discriminator="do")])


@dataclass(frozen=True)
class Answer:
    """What the robot's side answered, in words for the operator."""

    fine: bool
    words: str


class Robots(Protocol):
    """The robots' side, as the dashboard needs it. Both methods are called from the server's thread."""

    def call(self, command: Command, answered: Callable[[Answer], None]) -> None:
        """Carry a command out; ``answered`` is called once, from any thread, also where nobody answers."""

    def show_cameras(self, wanted: frozenset[tuple[str, str]]) -> None:
        """Pictures of these cameras (robot, camera) are looked at now, and of no others."""


def parse(fields: object) -> Command:
    """The command in a page's message.

    Raises:
        InputError: it is none; says which field is wrong.
    """
    try:
        return _COMMANDS.validate_python(fields)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"][1:]) or "command"
        raise InputError(f"{place}: {first['msg']}") from None
