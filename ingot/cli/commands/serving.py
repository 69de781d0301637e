"""`ingot mcp` and `ingot ui`: serve other programs' models, and a page to a browser."""

import os
import secrets
import socket
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ingot.agent.model.endpoint import ModelSettings
from ingot.agent.proposing.order import Mapper
from ingot.cli.command import command_options
from ingot.cli.console import note_line
from ingot.cli.model_options import find_model
from ingot.converters.settings import Setting

if TYPE_CHECKING:
    from ingot.agent.served.request_guard import App

TOKEN = "INGOT_MCP_TOKEN"
_ADDRESS = "127.0.0.1"
_SHORTEST_TOKEN = 32  # characters


@command_options
def mcp(
    *,
    root: Annotated[
        Path, Setting("Folder that the tools stay in: all they read and write.", metavar="DIR")
    ],
    http: Annotated[
        int | None,
        Setting(
            "Serve streamable HTTP on this port of 127.0.0.1 (0: a free one), for clients with the "
            "token of INGOT_MCP_TOKEN.",
            metavar="PORT",
            default="standard input and output",
            minimum=0,
            maximum=65535,
        ),
    ] = None,
    max_input: Annotated[
        int, Setting("Maximum size of a source of `convert`, in MiB.", metavar="N", minimum=1)
    ] = 1024,
    mapper: Mapper = "auto",
    llm: ModelSettings,
) -> None:
    """Serve ingot's tools over the Model Context Protocol; needs the extra `mcp`.

    A client can look at data, propose and change mappings, and convert what passes every gate. What
    needs a person is refused, with the command that the person types. The limits of the model hold
    for all calls together.
    """
    from ingot.converters.errors import require_package

    _check_root(root)
    require_package("ingot mcp", "the server", "mcp", "mcp")
    from ingot.agent.mcp.confined_folder import ConfinedFolder
    from ingot.agent.mcp.mcp_server import build_server, http_app

    asking = find_model(llm, mapper)
    folder = ConfinedFolder(
        root=root.resolve(), asking=asking, mapper=mapper, max_input=max_input << 20
    )
    server = build_server(folder)
    if http is None:
        server.run("stdio")
        return
    token = _read_token()
    listening, address = _listen(http)
    app = http_app(server, address, token)
    note_line(f"MCP server on http://{address}/mcp (stop: Ctrl-C)")
    _serve(app, listening)


def _read_token() -> str:
    """Return the token that clients have to show; it is no option, which others could see."""
    from ingot.converters.errors import ConversionError

    token = os.environ.get(TOKEN, "")
    if len(token) < _SHORTEST_TOKEN or not token.isascii():
        problem = f"set it to a random text of at least {_SHORTEST_TOKEN} characters"
        raise ConversionError(TOKEN, problem, "for example that of: openssl rand -hex 32")
    return token


@command_options
def ui(
    *,
    root: Annotated[
        Path,
        Setting(
            "Folder of the data: all that the page reads and writes is in it.",
            metavar="DIR",
            default="the current folder",
        ),
    ] = Path(),
    port: Annotated[
        int,
        Setting(
            "Port of 127.0.0.1.", metavar="PORT", minimum=0, maximum=65535, default="a free one"
        ),
    ] = 0,
    no_open: Annotated[bool, Setting("Do not open a browser; print the address only.")] = False,
    mapper: Mapper = "auto",
    llm: ModelSettings,
) -> None:
    """Onboard data sets in a browser: rows beside records, gates, approval; extra `ui`.

    Also shows results, what waits in a lake, and what a changed mapping changes. The address that
    is printed holds the key to the page: keep it to yourself.
    """
    from ingot.converters.errors import require_package

    _check_root(root)
    require_package("ingot ui", "the page", "starlette", "ui")
    require_package("ingot ui", "the page", "uvicorn", "ui")
    from ingot.agent.served.request_guard import guard_requests
    from ingot.agent.ui.onboarding import Onboarding
    from ingot.agent.ui.page_server import build_app

    asking = find_model(llm, mapper)

    onboarding, token = Onboarding(root.resolve(), asking, mapper), secrets.token_urlsafe(32)
    listening, host_port = _listen(port)
    address = f"http://{host_port}/#token={token}"
    note_line(f"{address} (stop: Ctrl-C)")
    if not no_open:
        webbrowser.open(address)
    _serve(guard_requests(build_app(onboarding), host_port, token), listening)


def _check_root(root: Path) -> None:
    from ingot.converters.errors import OutputError

    if not root.is_dir():
        raise OutputError(str(root), "is not a folder", "--root names the folder of the data")


def _listen(port: int) -> tuple[socket.socket, str]:
    """A listening socket on the loopback address and its `HOST:PORT`; port 0 takes a free one."""
    from ingot.converters.errors import OutputError

    listening = socket.socket()
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((_ADDRESS, port))
        listening.listen()
    except OSError as error:
        address, problem = f"{_ADDRESS}:{port}", f"cannot listen: {error.strerror}"
        raise OutputError(address, problem, "choose another port") from error
    return listening, f"{_ADDRESS}:{listening.getsockname()[1]}"


def _serve(app: "App", listening: socket.socket) -> None:
    import uvicorn  # an extra

    config = uvicorn.Config(
        app, log_level="warning", server_header=False, timeout_graceful_shutdown=3
    )
    uvicorn.Server(config).run(sockets=[listening])
