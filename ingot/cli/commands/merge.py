"""`ingot merge`: the command that the parts of a job noted, once more, to put them together."""

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from ingot.cli.command import command_options
from ingot.cli.console import note_line
from ingot.converters.errors import OutputError, redact_urls
from ingot.converters.output.commit import find_finished
from ingot.converters.output.files import MANIFEST, is_store_url
from ingot.converters.output.identity import ALREADY_DONE, describe_difference
from ingot.converters.output.object_store import read_json
from ingot.converters.output.sharding import find_commands
from ingot.converters.settings import Setting


@command_options
def merge(
    *,
    place: Annotated[
        str, Setting("The job's folder or prefix, as its command names it.", positional=True)
    ],
) -> None:
    """Put together what the parts of a job (`--shard I/N`) made, and commit it.

    Runs the command of the parts with `--shard merge`; refuses where a piece is missing.
    """
    from ingot.cli.app import app

    found = find_commands(place)
    if not found and _is_finished(place):
        note_line(ALREADY_DONE)
        return
    if not found:
        hint = "run the command of the parts with `--shard merge`"
        raise OutputError(redact_urls(place), "has no parts", hint)
    if len(found) > 1:
        (_, _, first), (_, _, second), *_ = found
        form = "{} is {} in the first and {} in the second"
        differs = describe_difference(second or {}, first or {}, form=form)
        problem = f"{len(found)} different jobs have parts there: {differs}"
        commands = [shlex.join(["ingot", *words]) for words, _, _ in found]
        hint = "\n".join(["run one of these:", *commands])
        raise OutputError(redact_urls(place), problem, hint)
    arguments, folder, _ = found[0]
    os.chdir(folder)
    if code := app(arguments, standalone_mode=False):
        raise typer.Exit(code)


def _is_finished(place: str) -> bool:
    if is_store_url(place):
        return read_json(f"{place.rstrip('/')}/{MANIFEST}") is not None
    path = Path(place)
    return find_finished(path) is not None or path.with_name(f"{path.name}.idx").exists()
