"""`ingot review`: review changed mappings without a model."""

import hashlib
import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ingot.agent.review.git_repository import ReviewOptions
from ingot.cli import command as o
from ingot.cli.command import SettingError, command_options
from ingot.cli.console import note_line, print_json, safe_text
from ingot.cli.display import write_output
from ingot.converters.errors import ExitCode, count_text
from ingot.converters.settings import Setting

if TYPE_CHECKING:
    from ingot.agent.review.review_document import ReviewDocument


@command_options
def review(
    *,
    files: Annotated[
        tuple[Path, ...],
        Setting(
            "Two mapping files to compare, instead of two revisions.",
            metavar="[OLD NEW]",
            positional=True,
            repeatable=True,
            parse=Path,
        ),
    ] = (),
    base: Annotated[
        str | None,
        Setting(
            "Revision to compare with; the changes since the head left it are reviewed.",
            metavar="REF",
            default="the main branch, of origin if there is one",
        ),
    ] = None,
    head: Annotated[
        str | None, Setting("Revision to review.", metavar="REF", default="the working tree")
    ] = None,
    options: ReviewOptions,
    form: Annotated[
        Literal["markdown", "json"], Setting("Format of the review.", flag="format")
    ] = "markdown",
    out: o.OutFile = None,
    full: Annotated[
        bool, Setting("Do not shorten the review to the length of a GitHub comment.")
    ] = False,
    as_json: o.Json = False,
) -> None:
    """Show what changed mappings change on a sample: pass, warn or block (exit code 1).

    Compares two revisions of a git repository, or two files. No model is asked, and nothing of the
    repository is executed. In a GitHub job the summary and annotations are written too.
    """
    from ingot.agent.review.github_comment import COMMENT_LIMIT, render_comment
    from ingot.converters.output.files import encode_json

    document = _run_review(files, base, head, options)
    text = None
    if form != "json":
        text = render_comment(document, limit=sys.maxsize if full else COMMENT_LIMIT)
    if out is not None:
        write_output(out, text.encode() if text else encode_json(document, sort_keys=False))
    if as_json or (out is None and text is None):
        print_json(document)
    elif out is None and text is not None:
        _print_markdown(text)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        _report_to_github(document, annotated=not as_json)
    _conclude(document)


def _run_review(
    files: tuple[Path, ...], base: str | None, head: str | None, options: ReviewOptions
) -> "ReviewDocument":
    from ingot.agent.review import mapping_review

    if not files:
        return mapping_review.review_mappings(
            *mapping_review.repository_sides(Path.cwd(), base, head, options.source), options
        )
    if len(files) != 2:
        raise typer.BadParameter("two files are compared: ingot review OLD.json NEW.json")
    revision_options = {"base": base, "head": head, "mappings": options.mappings}
    if named_options := [name for name, value in revision_options.items() if value is not None]:
        raise SettingError(
            f"--{named_options[0]} is for revisions, and two files are named", named_options[0]
        )
    return mapping_review.review_files(files[0], files[1], options)


def _print_markdown(text: str) -> None:
    """Print Markdown; in a GitHub job no line of it is read as a command."""
    output = safe_text(text).rstrip("\n")
    if os.environ.get("GITHUB_ACTIONS") == "true":
        token = hashlib.sha256(output.encode()).hexdigest()
        output = f"::stop-commands::{token}\n{output}\n::{token}::"
    sys.stdout.write(f"{output}\n")


def _report_to_github(document: "ReviewDocument", *, annotated: bool) -> None:
    """Print annotations, and write the summary of the job's step."""
    from ingot.agent.review.github_comment import github_annotations, render_summary
    from ingot.converters.output.files import output_errors

    if annotated:
        sys.stdout.write("".join(f"{line}\n" for line in github_annotations(document)))
    summary_path = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary_path:
        with output_errors(summary_path), Path(summary_path).open("a", encoding="utf-8") as file:
            file.write(f"{render_summary(document).rstrip()}\n")


def _conclude(document: "ReviewDocument") -> None:
    levels = Counter(one["verdict"] for one in document["mappings"])
    count = len(document["mappings"])
    counts = ", ".join(f"{levels[level]} {level}" for level in ("block", "warn") if levels[level])
    changed = f"{count_text(count, 'mapping')} changed" if count else "no mapping changed"
    note_line(f"{document['verdict']}: {changed}{f' ({counts})' if counts else ''}")
    if document["verdict"] == "block":
        raise typer.Exit(ExitCode.FAILED)
