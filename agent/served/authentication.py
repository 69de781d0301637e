"""Who may talk to a served graph: programs of this machine, and the pages of known clients.

A server without accounts does what any page in the user's browser sends it, and an order reads and
writes files. So a request from another site's page is refused, and so is one that reached this
machine under a foreign name. `langgraph.json` names this for `langgraph dev`.
"""

import re
from collections.abc import Mapping

from langgraph_sdk import Auth

from ingot.agent.model.endpoint import url_host

STUDIO = "https://smith.langchain.com"
LOCAL = ("localhost", "127.0.0.1", "::1")
_LOCAL_HOST = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]*)?", re.IGNORECASE | re.ASCII)

auth = Auth()


@auth.authenticate
async def authenticate(headers: Mapping[bytes, bytes]) -> dict[str, str]:
    """Return the one user that exists."""
    why = refusal_reason(_header_text(headers, b"host"), _header_text(headers, b"origin"))
    if why:
        raise Auth.exceptions.HTTPException(status_code=403, detail=why)
    return {"identity": "local"}


def refusal_reason(host: str, origin: str) -> str:
    """Return why a request is refused, "" if it is not."""
    if not _LOCAL_HOST.fullmatch(host):
        return f"asked as {host!r}: this server answers under localhost only"
    if origin and origin != STUDIO and url_host(origin) not in LOCAL:
        return f"pages of {origin!r} may not use this server"
    return ""


def _header_text(headers: Mapping[bytes, bytes], name: bytes) -> str:
    return headers.get(name, b"").decode("latin-1")
