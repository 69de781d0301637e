"""Serve on this machine alone: the socket, and the token that every request has to show."""

import hmac
import socket
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from ingot.converters.errors import OutputError

_ADDRESS = "127.0.0.1"
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def listen_on_loopback(port: int) -> tuple[socket.socket, str]:
    """A listening socket on the loopback address and its `HOST:PORT`; port 0 takes a free one.

    Raises OutputError where the port is taken.
    """
    listening = socket.socket()
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((_ADDRESS, port))
        listening.listen()
    except OSError as error:
        where = f"{_ADDRESS}:{port}"
        raise OutputError(
            where, f"cannot listen: {error.strerror}", "choose another port"
        ) from error
    return listening, f"{_ADDRESS}:{listening.getsockname()[1]}"


def serve_app(app: App, listening: socket.socket) -> None:
    """Serve an application on a socket until interrupted."""
    import uvicorn  # an extra

    config = uvicorn.Config(
        app, log_level="warning", server_header=False, timeout_graceful_shutdown=3
    )
    uvicorn.Server(config).run(sockets=[listening])


def has_token(scope: Scope, token: str) -> bool:
    """Whether a request shows `Authorization: Bearer TOKEN`."""
    given = header_value(scope, b"authorization") or b""
    return hmac.compare_digest(given, f"Bearer {token}".encode())


def header_value(scope: Scope, name: bytes) -> bytes | None:
    """The value of a header of a request; two of one name are refused by giving neither."""
    found = [value for key, value in scope.get("headers", ()) if key == name]
    return found[0] if len(found) == 1 else None


async def send_refusal(
    send: Send, status: int, headers: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    """Answer a request with a status and nothing else."""
    told = [*headers, (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": status, "headers": told})
    await send({"type": "http.response.body", "body": b""})


def require_token(app: App, token: str) -> App:
    """The application behind its token; other requests get status 401."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or (scope["type"] == "http" and has_token(scope, token)):
            return await app(scope, receive, send)
        if scope["type"] == "http":
            await send_refusal(send, 401, [(b"www-authenticate", b"Bearer")])
        return None

    return answer
