"""`ingot ui`: the page for onboarding and review, in a browser on this machine."""

import secrets
import webbrowser
from pathlib import Path
from typing import Annotated

from ingot.agent.model.endpoint import ModelSettings
from ingot.agent.proposing.order import Mapper
from ingot.cli.command import command_options
from ingot.cli.console import note_line
from ingot.cli.model_options import run_context
from ingot.converters.settings import Setting


@command_options
def ui(
    *,
    root: Annotated[
        Path,
        Setting("Folder of the data: all that the page reads and writes is in it.", metavar="DIR"),
    ],
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
    """Onboard data sets in a browser: fields beside records, gates, conversation, approval.

    Also shows results, what waits in a lake, and what a changed mapping changes. Needs the extra
    `ui`. The address that is printed holds the key to the page: keep it to yourself.
    """
    from ingot.converters.errors import OutputError, require_package

    if not root.is_dir():
        raise OutputError(str(root), "is not a folder", "--root names the folder of the data")
    require_package("ingot ui", "the page", "starlette", "ui")
    require_package("ingot ui", "the page", "uvicorn", "ui")
    from ingot.agent.ui.onboarding import Onboarding
    from ingot.agent.ui.page_server import serve_page

    asking = run_context(llm, mapper).asking

    def announce(address: str) -> None:
        note_line(f"{address} (stop: Ctrl-C)")
        if not no_open:
            webbrowser.open(address)

    onboarding = Onboarding(root.resolve(), asking, mapper)
    serve_page(onboarding, port, secrets.token_urlsafe(32), announce)
