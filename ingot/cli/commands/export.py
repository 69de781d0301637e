"""`ingot export`: write a finished result for a trainer."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ingot.cli import command as o
from ingot.cli.command import command_options
from ingot.cli.console import print_line, progress_meter
from ingot.cli.display import print_result
from ingot.converters.export.options import TRAINER_NAMES, ExportOptions
from ingot.converters.settings import Setting, existing_folder

if TYPE_CHECKING:
    from ingot.converters.export.job import ExportResult


@command_options
def export(
    *,
    folder: Annotated[
        Path,
        Setting(
            "Finished result of run or convert; it is only read.",
            metavar="DIR",
            positional=True,
            parse=existing_folder,
        ),
    ],
    to: Annotated[str, Setting("Trainer to write for.", choices=TRAINER_NAMES)],
    out: Annotated[Path, Setting("Folder to create.", metavar="OUT")],
    options: ExportOptions,
    as_json: o.Json = False,
) -> None:
    """Write a trainer's config for a finished result, and files where it needs another layout."""
    from ingot.converters.export.job import export

    with progress_meter() as progress:
        done = export(folder, to, out, options, progress)
    if not as_json:
        trainer = done.manifest["trainer"]
        heading = f"For {trainer['name']} {trainer['version']}"
        print_line(heading, "bold")
    document = {"use": list(done.use), "manifest": done.manifest}
    uses = [("use", line) for line in done.use]
    print_result(done, _export_lines(done), uses, as_json=as_json, **document)


def _export_lines(done: "ExportResult") -> Iterator[tuple[str, str]]:
    """Yield what was read, written, left out and changed, and the data files."""
    from ingot.converters.export.chat_layout import REASONS

    records, chars = done.manifest["records"], done.manifest["trained_chars"]
    yield "records", f"{records['read']:,} read, {records['written']:,} written"
    for label, counts in (("left out", records["left_out"]), ("changed", records["changed"])):
        for reason, count in counts.items():
            yield label, f"{count:,}: {REASONS[reason]}"
    yield "trained", f"{chars['trainer']:,} characters; the records say {chars['records']:,}"
    for file in done.manifest["data"]:
        yield "data", file
