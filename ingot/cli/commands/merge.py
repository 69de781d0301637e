"""`ingot merge`: the command that the parts of a job noted, once more, to put them together."""

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from ingot.cli.command import command_options
from ingot.cli.console import note_line
from ingot.converters.errors import OutputError, error_text, redact_urls
from ingot.converters.json_yaml import find_json
from ingot.converters.output.commit import find_finished, unfinished_runs
from ingot.converters.output.difference import describe_difference
from ingot.converters.output.files import MANIFEST, is_store_url
from ingot.converters.output.identity import ALREADY_DONE
from ingot.converters.output.object_store import check_url, list_names, read_json
from ingot.converters.output.sharding import (
    COMMAND_FILE,
    COMMAND_KIND,
    JOB_FILE,
    LAKE_FOLDER,
    MERGE,
)
from ingot.converters.output.store_commit import STORE_WORK
from ingot.converters.rows import Json
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

    commands_found = find_commands(place)
    if not commands_found and _is_finished(place):
        note_line(ALREADY_DONE)
        return
    if not commands_found:
        hint = "run the command of the parts with `--shard merge`"
        raise OutputError(redact_urls(place), "has no parts", hint)
    if len(commands_found) > 1:
        (_, _, first), (_, _, second), *_ = commands_found
        form = "{} is {} in the first and {} in the second"
        differs = describe_difference(second or {}, first or {}, form=form)
        problem = f"{len(commands_found)} different jobs have parts there: {differs}"
        commands = [shlex.join(["ingot", *words]) for words, _, _ in commands_found]
        hint = "\n".join(["run one of these:", *commands])
        raise OutputError(redact_urls(place), problem, hint)
    arguments, folder, _ = commands_found[0]
    try:
        os.chdir(folder)
    except OSError as error:
        problem = f"was begun in {folder}, which cannot be entered here: {error_text(error)}"
        hint = "run the command of the parts with `--shard merge`"
        raise OutputError(redact_urls(place), problem, hint) from error
    if code := app(arguments, standalone_mode=False):
        raise typer.Exit(code)


def _is_finished(location: str) -> bool:
    if is_store_url(location):
        return read_json(f"{location.rstrip('/')}/{MANIFEST}") is not None
    path = Path(location).absolute()
    return find_finished(path) is not None or Path(f"{path}.idx").exists()


def find_commands(location: str) -> list[tuple[list[str], str, dict[str, Json] | None]]:
    """The commands of the jobs whose parts lie beside a folder or prefix, and where they ran.

    They say `--shard merge` in place of their part. The third is what was noted of the job.
    """
    path = Path(location).absolute()
    files = [
        path / LAKE_FOLDER / COMMAND_FILE,
        *(stage / "work" / COMMAND_FILE for stage in unfinished_runs(path)),
        Path(f"{path}.{COMMAND_KIND}.tmp"),
    ]
    documents = [
        (find_json(file, own=True) or {}, find_json(file.with_name(JOB_FILE), own=True))
        for file in files
        if file.exists()
    ]
    if is_store_url(location):
        documents = _find_store_commands(location)
    if any("folder" in one and one.get("arguments") is None for one, _ in documents):
        hint = "call the same function again, with `shard=JobShard()`"
        raise OutputError(redact_urls(location), "has parts that were begun from Python", hint)
    return [
        (_merging_words([*map(str, one["arguments"])]), str(one["folder"]), job)
        for one, job in documents
        if isinstance(one.get("arguments"), list) and "folder" in one
    ]


def _find_store_commands(url: str) -> list[tuple[dict[str, Json], dict[str, Json] | None]]:
    """Return what the parts of jobs noted in a store of commands and jobs."""
    work = f"{check_url(url)}/{STORE_WORK}"
    folders = [Path(name).parent for name in list_names(work) if Path(name).name == COMMAND_FILE]
    return [
        (read_json(f"{work}/{one}/{COMMAND_FILE}") or {}, read_json(f"{work}/{one}/{JOB_FILE}"))
        for one in folders
    ]


def _merging_words(words: list[str]) -> list[str]:
    """Return the words of a part as those of the merge; what is behind `--` stays behind it."""
    end = words.index("--") if "--" in words else len(words)
    options, remaining = iter(words[:end]), list[str]()
    for word in options:
        if word == "--shard":
            next(options, None)
        elif not word.startswith("--shard="):
            remaining.append(word)
    return [*remaining, "--shard", MERGE, *words[end:]]
