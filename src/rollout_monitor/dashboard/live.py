"""One page's web socket: what is new goes out ten times a second, what the operator asks for comes in.

A page that is slow gets fewer and larger messages, never a queue: what is new is asked of the board only when the last
message has left.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.websockets import WebSocket, WebSocketDisconnect

from rollout_monitor.dashboard.board import MOST_ROBOTS, Board, Cursor
from rollout_monitor.dashboard.commands import Answer, Robots, parse
from rollout_monitor.dashboard.pictures import PERIOD_S, Pictures
from rollout_monitor.errors import InputError

TICK_S = 0.1
HEARTBEAT_S = 0.5
"""A message goes out this often although nothing is new, so that a page notices within two seconds that none comes."""

STUCK_S = 10.0
"""A page that has not taken a message for so long is given up."""

MOST_PAGES = 16
MOST_OPEN = 8
"""Commands of one page that may wait for their answers."""

_TRY_AGAIN_LATER = 1013
_POLICY_VIOLATION = 1008


class _Cameras(BaseModel):
    """The cameras that a page shows now, by robot."""

    model_config = ConfigDict(extra="forbid")

    cameras: list[tuple[str, str]] = Field(max_length=MOST_ROBOTS)


@dataclass(eq=False)
class _Page:
    socket: WebSocket
    cursor: Cursor = field(default_factory=Cursor)
    cameras: frozenset[tuple[str, str]] = frozenset()
    sent: dict[tuple[str, str], int] = field(default_factory=dict)
    answers: list[dict[str, Any]] = field(default_factory=list)
    waiting: int = 0


class Live:
    """Serves all pages' web sockets."""

    def __init__(self, board: Board, pictures: Pictures, robots: Robots, version: str) -> None:
        """Serve nobody yet.

        Args:
            board: what is shown.
            pictures: of the cameras.
            robots: whom commands go to.
            version: of the page's files; a page that was loaded from others loads itself again.
        """
        self._board = board
        self._pictures = pictures
        self._robots = robots
        self._version = version
        self._pages = 0

    async def serve(self, socket: WebSocket) -> None:
        """One page, until it is gone."""
        await socket.accept()
        if self._pages >= MOST_PAGES:
            await socket.close(_TRY_AGAIN_LATER, f"{MOST_PAGES} pages are open already")
            return
        page = _Page(socket)
        self._pages += 1
        sender = asyncio.create_task(self._send(page))
        reader = asyncio.create_task(self._read(page))
        try:
            await asyncio.wait((sender, reader), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._pages -= 1
            self._pictures.want(page, frozenset())
            for task in (sender, reader):
                task.cancel()
            for result in await asyncio.gather(sender, reader, return_exceptions=True):
                if isinstance(result, Exception) and not isinstance(result, _GONE):
                    raise result

    # --- out ----------------------------------------------------------------------------------------------------

    async def _send(self, page: _Page) -> None:
        await self._put(page, {"type": "hello", "version": self._version})
        said_s = picture_s = 0.0
        while True:
            now_s = time.monotonic()
            answers, page.answers = page.answers, []
            for answer in answers:
                await self._put(page, answer)
            news = self._board.changes(page.cursor)
            if now_s - said_s >= HEARTBEAT_S or any(len(entry) > 1 for entry in news.values()):
                said_s = now_s
                await self._put(page, {"type": "news", "robots": news})
            if now_s - picture_s >= PERIOD_S - TICK_S / 2:
                picture_s = now_s
                await self._put_pictures(page)
            await asyncio.sleep(max(0.0, now_s + TICK_S - time.monotonic()))

    async def _put(self, page: _Page, message: Mapping[str, Any]) -> None:
        text = json.dumps(message, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
        # Half a surrogate pair cannot be sent; text from outside may hold one.
        text = text.encode("utf-8", "replace").decode("utf-8")
        await asyncio.wait_for(page.socket.send_text(text), STUCK_S)

    async def _put_pictures(self, page: _Page) -> None:
        for robot, camera in sorted(page.cameras):
            picture = self._pictures.newest(robot, camera)
            if picture is None or page.sent.get((robot, camera)) == picture.number:
                continue
            page.sent[robot, camera] = picture.number
            about = json.dumps({"robot": robot, "camera": camera, "kind": picture.kind}).encode()
            data = len(about).to_bytes(2, "big") + about + picture.data
            await asyncio.wait_for(page.socket.send_bytes(data), STUCK_S)

    # --- in -----------------------------------------------------------------------------------------------------

    async def _read(self, page: _Page) -> None:
        while True:
            message = await page.socket.receive()
            if message["type"] != "websocket.receive":
                return
            try:
                fields = json.loads(message.get("text") or "")
            except (ValueError, RecursionError):
                fields = None
            if not isinstance(fields, dict):
                await page.socket.close(_POLICY_VIOLATION, "not a message of the dashboard's page")
                return
            if "cameras" in fields:
                self._show_cameras(page, fields)
            else:
                self._carry_out(page, fields)

    def _show_cameras(self, page: _Page, fields: dict[str, Any]) -> None:
        with suppress(ValidationError):  # names that no robot has: nothing to show
            page.cameras = frozenset(_Cameras.model_validate(fields).cameras)
            page.sent = {key: number for key, number in page.sent.items() if key in page.cameras}
            self._pictures.want(page, page.cameras)

    def _carry_out(self, page: _Page, fields: dict[str, Any]) -> None:
        number = fields.pop("id", None)
        loop = asyncio.get_running_loop()

        def note(answer: Answer) -> None:
            page.waiting -= 1
            page.answers.append({"type": "answer", "id": number, "fine": answer.fine, "words": answer.words})

        def answered(answer: Answer) -> None:
            with suppress(RuntimeError):  # the server has stopped meanwhile
                loop.call_soon_threadsafe(note, answer)

        page.waiting += 1
        if not isinstance(number, int) or page.waiting > MOST_OPEN:
            note(Answer(False, "too many commands at once: wait for the answers"))
            return
        try:
            command = parse(fields)
        except InputError as error:
            note(Answer(False, str(error)))
            return
        if command.robot not in self._board.robots():
            note(Answer(False, "this robot is not here"))
            return
        self._robots.call(command, answered)


_GONE = (WebSocketDisconnect, TimeoutError, asyncio.TimeoutError, OSError, RuntimeError)
"""How a page that is gone, or stuck, shows itself."""
