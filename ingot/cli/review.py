"""`ingot review`: mappings that changed, with a verdict; no model is asked."""

import hashlib
import os
import sys
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ingot.cli import options as o
from ingot.converters.rows import Json

if TYPE_CHECKING:
    from ingot.agent.review.reviewing import Wish

_BLOCKED = 1


class Form(StrEnum):
    """How the review is written."""

    markdown = "markdown"
    json = "json"


def review(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[OLD NEW]",
            help="Two mapping files to compare, in place of two revisions.",
            show_default=False,
        ),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(
            "--base",
            metavar="REF",
            help="Revision to compare with, at the commit where the head left it.  "
            "[default: the main branch, of origin if there is one]",
            show_default=False,
        ),
    ] = None,
    head: Annotated[
        str | None,
        typer.Option(
            "--head",
            metavar="REF",
            help="Revision to review.  [default: the working tree]",
            show_default=False,
        ),
    ] = None,
    mappings: Annotated[
        str | None,
        typer.Option(
            "--mappings",
            metavar="GLOB",
            help="Which JSON files are mappings.  [default: all that hold one]",
            show_default=False,
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--source",
            metavar="PATH",
            help="Data to try one mapping on, in place of the pinned sample beside it.",
            show_default=False,
        ),
    ] = None,
    allow_breaking: Annotated[
        bool,
        typer.Option("--allow-breaking", help="Breaking changes and lost records warn only."),
    ] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Read no data of another machine.")
    ] = False,
    form: Annotated[Form, typer.Option("--format", help="How the review is written.")] = (
        Form.markdown
    ),
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Write the review there, not to stdout.",
            show_default=False,
        ),
    ] = None,
    full: Annotated[
        bool,
        typer.Option("--full", help="All of it, longer than a comment of GitHub may be."),
    ] = False,
    as_json: o.JsonOption = False,
) -> None:
    """Say what changed mappings change, on a sample: pass, warn or block (exit code 1).

    Compares two revisions of a git repository, or two files. No model is asked, nothing of the
    repository is executed. In a GitHub job the summary and annotations are written too.
    """
    from ingot.agent.review.reviewing import Wish

    wish = Wish(mappings=mappings, source=source, allow_breaking=allow_breaking, offline=offline)
    found = _found(files or [], base, head, wish)
    _write(found, out, None if form is Form.json else _markdown(found, full=full), as_json=as_json)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        _tell_github(found, annotated=not as_json)
    _conclude(found)


def _found(files: list[Path], base: str | None, head: str | None, wish: "Wish") -> dict[str, Json]:
    from ingot.agent.review import reviewing

    if not files:
        return reviewing.review(*reviewing.sides(Path.cwd(), base, head), wish)
    if len(files) != 2:
        raise typer.BadParameter("two files are compared: ingot review OLD.json NEW.json")
    given = {"--base": base, "--head": head, "--mappings": wish.mappings}
    if named := [name for name, value in given.items() if value is not None]:
        raise typer.BadParameter(f"{named[0]} is for revisions, and two files are named")
    return reviewing.review_files(files[0], files[1], wish)


def _write(found: dict[str, Json], out: Path | None, text: str | None, *, as_json: bool) -> None:
    """The review into the file and onto stdout: there as JSON with --json, else without a file.

    Args:
        found: the review document.
        out: the file.
        text: the review as Markdown, None = JSON is asked for.
        as_json: JSON on stdout, whatever the file holds.
    """
    from ingot.cli.console import print_json
    from ingot.converters.commit import encode, write_file, writing

    if out is not None:
        with writing(out):
            write_file(out, encode(found, sort_keys=False) if text is None else text.encode())
    if as_json or (out is None and text is None):
        print_json(found)
    elif out is None and text is not None:
        _print(text)


def _markdown(found: dict[str, Json], *, full: bool) -> str:
    from ingot.agent.review.markdown import COMMENT_LIMIT, markdown

    return markdown(found, limit=sys.maxsize if full else COMMENT_LIMIT)


def _print(text: str) -> None:
    """Markdown on stdout; in a GitHub job none of its lines is taken for a command."""
    from ingot.cli.console import safe

    shown = safe(text).rstrip("\n")
    if os.environ.get("GITHUB_ACTIONS") == "true":
        token = hashlib.sha256(shown.encode()).hexdigest()
        shown = f"::stop-commands::{token}\n{shown}\n::{token}::"
    sys.stdout.write(f"{shown}\n")


def _tell_github(found: dict[str, Json], *, annotated: bool) -> None:
    """Annotations on stdout, and the summary of the job's step."""
    from ingot.agent.review.annotations import annotations
    from ingot.agent.review.markdown import summary
    from ingot.converters.commit import writing

    if annotated:
        sys.stdout.write("".join(f"{line}\n" for line in annotations(found)))
    place = os.environ.get("GITHUB_STEP_SUMMARY")
    if place:
        with writing(place), Path(place).open("a", encoding="utf-8") as file:
            file.write(f"{summary(found).rstrip()}\n")


def _conclude(found: dict[str, Json]) -> None:
    """The verdict on stderr, and the exit code."""
    from ingot.cli.console import notes, plain

    levels = Counter(one["verdict"] for one in found["mappings"])
    count = len(found["mappings"])
    told = ", ".join(f"{levels[level]} {level}" for level in ("block", "warn") if levels[level])
    changed = f"{count} mapping{'s' * (count != 1)} changed" if count else "no mapping changed"
    notes().print(plain(f"{found['verdict']}: {changed}{f' ({told})' if told else ''}"))
    if found["verdict"] == "block":
        raise typer.Exit(_BLOCKED)
