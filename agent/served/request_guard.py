"""What every request to a server of this machine has to show: its token, and headers once."""

import hmac
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]


def has_token(scope: Scope, token: str) -> bool:
    """Return whether a request has the header `Authorization: Bearer TOKEN`."""
    given = header_value(scope, b"authorization") or b""
    return hmac.compare_digest(given, f"Bearer {token}".encode())


def header_value(scope: Scope, name: bytes) -> bytes | None:
    """Return the value of a request's header; None if it is missing or occurs twice."""
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
    """Return the application behind its token; other requests get status 401."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or (scope["type"] == "http" and has_token(scope, token)):
            return await app(scope, receive, send)
        if scope["type"] == "http":
            await send_refusal(send, 401, [(b"www-authenticate", b"Bearer")])
        return None

    return answer


def guard_requests(app: App, place: str, token: str) -> App:
    """Return the application behind its address, its own pages and its token.

    Other requests are refused. A page of another origin cannot ask: it neither knows the token nor
    may send the header. A host name that was made to lead here (DNS rebinding) is refused by its
    name.
    """
    own = {f"http://{place}".encode()}

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await app(scope, receive, send)
        if scope["type"] != "http":  # a websocket
            return await send({"type": "websocket.close"})
        origins = {value for key, value in scope["headers"] if key == b"origin"}
        sites = {value for key, value in scope["headers"] if key == b"sec-fetch-site"}
        if header_value(scope, b"host") != place.encode() or origins - own:
            return await send_refusal(send, 403)
        asks = scope["path"].startswith("/api/")
        if asks and sites - {b"same-origin", b"none"}:
            return await send_refusal(send, 403)
        if asks and not has_token(scope, token):
            return await send_refusal(send, 401)
        return await app(scope, receive, _with_headers(send))

    return answer


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: Any) -> None:  # noqa: ANN401
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *_HEADERS]}
        await send(message)

    return send_with_headers
