"""The web application: the page's own files, the past episodes, their reports, and the web socket."""

from __future__ import annotations

import hashlib
from importlib import resources
from pathlib import Path

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute

from rollout_monitor.dashboard.access import REPORT_POLICY, Access, Guard
from rollout_monitor.dashboard.live import Live
from rollout_monitor.dashboard.past import FILES, PastEpisodes, Query
from rollout_monitor.errors import InputError

_KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_INDEX = "index.html"


def page_files() -> dict[str, bytes]:
    """The page's own files by name."""
    folder = resources.files("rollout_monitor.dashboard") / "page"
    return {file.name: file.read_bytes() for file in folder.iterdir() if Path(file.name).suffix in _KINDS}


def version_of(files: dict[str, bytes]) -> str:
    """A short text that changes with the files."""
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(name.encode() + b"\0" + files[name])
    return digest.hexdigest()[:16]


def application(files: dict[str, bytes], past: PastEpisodes, live: Live, access: Access) -> Starlette:
    """All routes, behind the guard."""

    async def page(request: Request) -> Response:
        name = request.path_params.get("name", _INDEX)
        if name not in files:
            return _missing()
        return Response(files[name], media_type=f"{_KINDS[Path(name).suffix]}; charset=utf-8")

    async def episodes(request: Request) -> Response:
        try:
            query = Query.model_validate(dict(request.query_params))
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            return PlainTextResponse(f"{first['loc'][0]}: {first['msg']}\n", 400)
        return JSONResponse(await run_in_threadpool(past.find, query))

    async def report(request: Request) -> Response:
        name = request.path_params["name"]
        try:
            path = past.file(request.path_params["store"], request.path_params["folder"], name)
        except InputError:
            return _missing()
        return FileResponse(path, media_type=FILES[name], headers={"content-security-policy": REPORT_POLICY})

    return Starlette(
        routes=[
            Route("/", page),
            Route("/page/{name}", page),
            Route("/api/session", access.session),
            Route("/api/login", access.login, methods=["POST"]),
            Route("/api/episodes", episodes),
            Route("/reports/{store:int}/{folder}/{name}", report),
            WebSocketRoute("/live", live.serve),
        ],
        middleware=[Middleware(Guard, access=access)],
    )


def _missing() -> Response:
    return PlainTextResponse("there is nothing here\n", 404)
