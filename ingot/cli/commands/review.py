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
    from ingot.agent.review.mapping_review import ReviewOptions

_BLOCKED = 1


class ReviewFormat(StrEnum):
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
    form: Annotated[ReviewFormat, typer.Option("--format", help="How the review is written.")] = (
        ReviewFormat.markdown
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
    from ingot.agent.review.mapping_review import ReviewOptions

    wish = ReviewOptions(
        mappings=mappings, source=source, allow_breaking=allow_breaking, offline=offline
    )
    found = _run_review(files or [], base, head, wish)
    _write_review(
        found,
        out,
        None if form is ReviewFormat.json else _render_markdown(found, full=full),
        as_json=as_json,
    )
    if os.environ.get("GITHUB_ACTIONS") == "true":
        _report_to_github(found, annotated=not as_json)
    _conclude(found)


def _run_review(
    files: list[Path], base: str | None, head: str | None, wish: "ReviewOptions"
) -> dict[str, Json]:
    from ingot.agent.review import mapping_review

    if not files:
        return mapping_review.review_mappings(
            *mapping_review.repository_sides(Path.cwd(), base, head), wish
        )
    if len(files) != 2:
        raise typer.BadParameter("two files are compared: ingot review OLD.json NEW.json")
    given = {"--base": base, "--head": head, "--mappings": wish.mappings}
    if named := [name for name, value in given.items() if value is not None]:
        raise typer.BadParameter(f"{named[0]} is for revisions, and two files are named")
    return mapping_review.review_files(files[0], files[1], wish)


def _write_review(
    found: dict[str, Json], out: Path | None, text: str | None, *, as_json: bool
) -> None:
    """The review into the file and onto stdout: there as JSON with --json, else without a file."""
    from ingot.cli.console import print_json
    from ingot.converters.output.commit import encode_json, output_errors, write_file

    if out is not None:
        with output_errors(out):
            write_file(out, encode_json(found, sort_keys=False) if text is None else text.encode())
    if as_json or (out is None and text is None):
        print_json(found)
    elif out is None and text is not None:
        _print_markdown(text)


def _render_markdown(found: dict[str, Json], *, full: bool) -> str:
    from ingot.agent.review.github_comment import COMMENT_LIMIT, render_comment

    return render_comment(found, limit=sys.maxsize if full else COMMENT_LIMIT)


def _print_markdown(text: str) -> None:
    """Markdown on stdout; in a GitHub job none of its lines is taken for a command."""
    from ingot.cli.console import safe_text

    shown = safe_text(text).rstrip("\n")
    if os.environ.get("GITHUB_ACTIONS") == "true":
        token = hashlib.sha256(shown.encode()).hexdigest()
        shown = f"::stop-commands::{token}\n{shown}\n::{token}::"
    sys.stdout.write(f"{shown}\n")


def _report_to_github(found: dict[str, Json], *, annotated: bool) -> None:
    """Annotations on stdout, and the summary of the job's step."""
    from ingot.agent.review.github_comment import github_annotations, render_summary
    from ingot.converters.output.commit import output_errors

    if annotated:
        sys.stdout.write("".join(f"{line}\n" for line in github_annotations(found)))
    place = os.environ.get("GITHUB_STEP_SUMMARY")
    if place:
        with output_errors(place), Path(place).open("a", encoding="utf-8") as file:
            file.write(f"{render_summary(found).rstrip()}\n")


def _conclude(found: dict[str, Json]) -> None:
    """The verdict on stderr, and the exit code."""
    from ingot.cli.console import plain_text, stderr_console

    levels = Counter(one["verdict"] for one in found["mappings"])
    count = len(found["mappings"])
    told = ", ".join(f"{levels[level]} {level}" for level in ("block", "warn") if levels[level])
    changed = f"{count} mapping{'s' * (count != 1)} changed" if count else "no mapping changed"
    stderr_console().print(
        plain_text(f"{found['verdict']}: {changed}{f' ({told})' if told else ''}")
    )
    if found["verdict"] == "block":
        raise typer.Exit(_BLOCKED)
