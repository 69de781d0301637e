"""The server of the page: its files, and the answers that it asks for, on this machine alone.

A request is answered only under the address that the server listens on. Answers about data want the
token and come from no page but its own; the page itself holds no data.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ingot import __version__
from ingot.agent.review.git_repository import ReviewOptions
from ingot.agent.review.mapping_review import review_files
from ingot.agent.served.order_input import (
    check_confined,
    check_tree,
    place_below,
)
from ingot.agent.served.request_guard import App
from ingot.agent.steps.order_schema import check_order
from ingot.agent.ui.example_rows import Facts, RowFilter
from ingot.agent.ui.folder_view import (
    list_folder,
    view_records,
    view_rejects,
    view_result,
    view_tokens,
)
from ingot.agent.ui.onboarding import Onboarding, Tell
from ingot.converters.errors import ConversionError, IngotError
from ingot.converters.rows import Json

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

_KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
_MOST_BODY = 1 << 20  # bytes of a request
Work = Callable[[Tell], Facts]


def build_app(onboarding: Onboarding) -> App:
    """Return the application: every route with what it does."""
    from starlette.applications import Starlette
    from starlette.routing import Route

    page = _Page(onboarding)
    return Starlette(
        routes=[
            Route("/", lambda _: _static_file("index.html")),
            Route("/static/{name}", lambda request: _static_file(request.path_params["name"])),
            *(Route(f"/api/{path}", _answer(act)) for path, act in page.shown.items()),
            *(_post_route(path, _take(act)) for path, act in page.taken.items()),
            *(_post_route(path, _stream(act)) for path, act in page.streamed.items()),
        ]
    )


def _post_route(path: str, act: Callable[["Request"], Any]) -> "Route":
    from starlette.routing import Route

    return Route(f"/api/{path}", act, methods=["POST"])


class _Page:
    """What is shown, taken, and answered with a stream of events, by path."""

    def __init__(self, onboarding: Onboarding) -> None:
        self._onboarding, self._root = onboarding, onboarding.root
        self.shown: dict[str, Callable[[Request], Facts]] = {
            "start": self._start,
            "files": lambda request: list_folder(self._folder(request), self._root),
            "onboard/{id}": lambda request: onboarding.view(_id(request)),
            "onboard/{id}/rows": self._rows,
            "result": lambda request: view_result(self._result(request)),
            "result/records": lambda request: view_records(*self._part(request)),
            "result/rejects": lambda request: view_rejects(*self._part(request)),
            "result/tokens": self._tokens,
            "lake": lambda request: onboarding.view_lake(request.query_params.get("path", "")),
        }
        self.taken = {"lake/decide": self._decide, "review": self._review}
        self.streamed = {
            "onboard": self._begin,
            "onboard/{id}/say": self._say,
            "onboard/{id}/approve": self._approve,
            "lake/open": self._open_waiting,
        }

    def _folder(self, request: "Request") -> Path:
        name = request.query_params.get("path", "")
        return self._place(name) if name else self._root

    def _place(self, name: str) -> Path:
        return Path(place_below(name, self._root))

    def _part(self, request: "Request") -> tuple[Path, int, int]:
        """A folder, and from which number on how many are asked for."""
        asked = [request.query_params.get(name, str(usual)) for name, usual in _PART.items()]
        start, count = (
            int(number) if re.fullmatch("[0-9]{1,15}", number) else 0 for number in asked
        )
        return self._result(request), start, count

    def _result(self, request: "Request") -> Path:
        folder = self._folder(request)
        if (folder / "manifest.json").is_file():
            check_tree(folder, self._root)
        return folder

    def _start(self, _: "Request") -> Facts:
        asking = self._onboarding.asking
        return {
            "root": self._root.name,
            "version": __version__,
            "model": f"{asking.endpoint.model} at {asking.endpoint.host}" if asking else None,
            "mapper": self._onboarding.mapper,
            "conversations": self._onboarding.list_conversations(),
        }

    def _rows(self, request: "Request") -> Facts:
        asked = (request.query_params.get(name, "") for name in RowFilter._fields)
        return self._onboarding.view_rows(_id(request), RowFilter(*asked))

    def _tokens(self, request: "Request") -> Facts:
        named = request.query_params.get("tokenizer")
        tokenizer = self._place(named) if named else None
        if tokenizer and tokenizer.is_dir():
            check_tree(tokenizer, self._root)
        return view_tokens(*self._part(request), str(tokenizer) if tokenizer else None)

    def _review(self, _: "Request", body: Json) -> Facts:
        old, new = (self._place(_text(body, name)) for name in ("old", "new"))
        data = str(self._place(_text(body, "source"))) if body.get("source") else None
        if data:
            check_confined(check_order({"source": data}), self._root)
        return {**review_files(old, new, ReviewOptions(source=data, offline=True))}

    def _begin(self, _: "Request", body: Json) -> Work:
        source, mode = _text(body, "source"), _text(body, "mode", "auto")
        return lambda tell: self._onboarding.begin(source, mode, tell)

    def _say(self, request: "Request", body: Json) -> Work:
        line = _text(body, "line")
        return lambda tell: self._onboarding.say(_id(request), line, tell)

    def _approve(self, request: "Request", body: Json) -> Work:
        out, tokenizer = _text(body, "out"), body.get("tokenizer") and _text(body, "tokenizer")
        seen = _text(body, "seen")
        return lambda tell: self._onboarding.approve(_id(request), seen, out, tokenizer, tell)

    def _open_waiting(self, _: "Request", body: Json) -> Work:
        lake, name = _text(body, "lake"), _text(body, "name")
        return lambda _: self._onboarding.open_waiting(lake, name)

    def _decide(self, _: "Request", body: Json) -> Facts:
        decision, id_ = _text(body, "decision"), _text(body, "id")
        if decision == "approve":
            return self._onboarding.approve_waiting(id_, _text(body, "seen"))
        if decision == "reject":
            return self._onboarding.reject_waiting(id_)
        raise ConversionError("decision", "must be approve or reject")


def _id(request: "Request") -> str:
    return str(request.path_params["id"])


_PART = {"start": 0, "count": 20}


def _text(body: Json, name: str, usual: str | None = None) -> str:
    value = body.get(name, usual)
    if not isinstance(value, str):
        raise ConversionError(name, "must be a text")
    return value


def _static_file(name: str) -> "Response":
    """A file of the page; nothing else of the machine can be named."""
    from starlette.responses import Response

    known = {file.name: file for file in resources.files(__package__).joinpath("static").iterdir()}
    if name not in known or Path(name).suffix not in _KINDS:
        return Response(status_code=404)
    kind = f"{_KINDS[Path(name).suffix]}; charset=utf-8"
    return Response(known[name].read_bytes(), headers={"content-type": kind})


# --- answers


def _answer(act: Callable[["Request"], Facts]) -> Callable[["Request"], Any]:
    from starlette.concurrency import run_in_threadpool

    async def answered(request: "Request") -> "Response":
        try:
            return _json(await run_in_threadpool(act, request))
        except (IngotError, OSError) as error:
            return _json({"error": _error_facts(error)}, 400)

    return answered


def _take(act: Callable[["Request", Json], Facts]) -> Callable[["Request"], Any]:
    async def taken(request: "Request") -> "Response":
        try:
            body = await _read_body(request)
        except IngotError as error:
            return _json({"error": _error_facts(error)}, 400)
        answer: Response = await _answer(lambda asked: act(asked, body))(request)
        return answer

    return taken


def _stream(act: Callable[["Request", Json], Work]) -> Callable[["Request"], Any]:
    """Answer with events; the work goes on where nobody reads them any more."""
    from starlette.responses import StreamingResponse

    async def streamed(request: "Request") -> "Response":
        try:
            work = act(request, await _read_body(request))
        except IngotError as error:
            return _json({"error": _error_facts(error)}, 400)
        return StreamingResponse(_events(work), media_type="text/event-stream")

    return streamed


async def _events(work: Work) -> AsyncIterator[bytes]:
    loop, events = asyncio.get_running_loop(), asyncio.Queue[tuple[str, Json]]()

    def tell(name: str, facts: Json) -> None:
        loop.call_soon_threadsafe(events.put_nowait, (name, facts))

    def work_and_tell() -> None:
        try:
            tell("done", work(tell))
        except (IngotError, OSError) as error:
            tell("error", {"error": _error_facts(error)})
        except BaseException:
            tell("error", {"error": {"where": "", "problem": "ingot failed", "hint": _FAILED}})
            raise

    done = loop.run_in_executor(None, work_and_tell)
    while True:
        name, facts = await events.get()
        yield f"event: {name}\ndata: {_dump(facts)}\n\n".encode()
        if name in ("done", "error"):
            break
    await done


_FAILED = "the terminal of ingot ui says more"


async def _read_body(request: "Request") -> Json:
    """The JSON object of a request. Raises ConversionError."""
    from starlette.requests import ClientDisconnect

    body = b""
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > _MOST_BODY:
                raise ConversionError("request", "is too large")
    except ClientDisconnect as error:  # the answer goes to nobody
        raise ConversionError("request", "ended in the middle") from error
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ConversionError("request", "is not JSON") from error
    if not isinstance(document, dict):
        raise ConversionError("request", "is not a JSON object")
    return document


def _json(facts: Json, status: int = 200) -> "Response":
    from starlette.responses import Response

    return Response(_dump(facts), status, media_type="application/json")


def _dump(facts: Json) -> str:
    # Lone surrogates of file names are no UTF-8; as escapes they are read back as they were.
    return json.dumps(facts, default=str)


def _error_facts(error: Exception) -> Facts:
    """Where, what and what to do, as far as the error says each by itself."""
    parts = {name: getattr(error, name, "") for name in ("where", "problem", "hint")}
    return parts if parts["problem"] else {**parts, "where": "", "problem": str(error)}
