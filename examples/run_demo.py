"""The main job on every data set beside this file, offline: `make demo`.

    python examples/run_demo.py [--out demo] [NAME ...]

Runs the installed `ingot run` on each folder (or on those named) with the embedded rules mapper and
prints for each what was decided, coverage, records, rejects, tokens and where the files lie. Exits
with 1 if a run fails.
"""

import argparse
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from ingot.agent.reporting.mapping_words import describe
from ingot.converters.mapping.bind import bind
from ingot.converters.rows import Json

ROOT = Path(__file__).resolve().parent.parent
TOKENIZER = "examples/tokenizer/tokenizer.json"
NO_DATA = ("criteo", "ctr", "github", "lake", "monolith", "parquet2mbt", "tokenizer", "__pycache__")


@dataclass(frozen=True, kw_only=True)
class Run:
    """One `ingot run --json`: exit code, the outcome it printed, what it said on stderr."""

    name: str
    out: str
    exit_code: int
    told: dict[str, Json]
    said: str


def example_names() -> list[str]:
    """The folders with raw data, sorted."""
    folders = (path for path in (ROOT / "examples").iterdir() if path.is_dir())
    return sorted(path.name for path in folders if path.name not in NO_DATA)


def command(name: str, out: str) -> list[str]:
    """The command line, to be run in the repository's root."""
    # The results of these folders are known to be right (examples/README.md), also where the rules
    # are less sure than the default asks for: three of them would wait for a person.
    sure = ["--yes", "--min-confidence", "0.8"]
    wanted = ["--mapper", "rules", "--tokenizer", TOKENIZER, *sure, "--overwrite", "--json"]
    return ["ingot", "run", f"examples/{name}", "--out", out, *wanted]


def run(name: str, out: str) -> Run:
    """Run one data set."""
    argv = [sys.executable, "-m", *command(name, out)]
    done = subprocess.run(
        argv, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=False
    )
    told = json.loads(done.stdout) if done.returncode == 0 else {}
    return Run(name=name, out=out, exit_code=done.returncode, told=told, said=done.stderr.strip())


def cells(one: Run) -> Iterator[str]:
    """One run in the table."""
    yield one.name
    if one.exit_code != 0:
        yield f"[red]failed: {one.exit_code}[/]"
        return
    check, manifest = one.told["check"], one.told["result"]["manifest"]
    yield one.told["decision"]
    yield f"{check['ok_rows']}/{check['rows']}" if check else "-"
    yield f"{manifest['rows']['read']:,}"
    yield f"{manifest['records']['written']:,}"
    yield f"{manifest['rows']['rejected'] + manifest['rows']['filtered']:,}"
    yield f"{manifest['tokens']['tokens']:,}" if manifest["tokens"] else "-"


def summary(runs: list[Run]) -> Table:
    """All runs side by side; fits 80 columns."""
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("data set", "decided"):
        table.add_column(heading, no_wrap=True)
    for heading in ("coverage", "rows", "records", "left out", "tokens"):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in runs:
        table.add_row(*cells(one))
    return table


def details(one: Run) -> Table:
    """What was taken from where, what was rejected, and where the files lie."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="cyan", no_wrap=True)
    grid.add_column(overflow="fold")
    if one.exit_code != 0:
        grid.add_row("failed", escape(one.said))
        return grid
    manifest = one.told["result"]["manifest"]
    grid.add_row("decided", escape(f"{one.told['decision']}: {one.told['reason']}"))
    if one.told["mapping"]:
        for target, how in describe(bind(one.told["mapping"])):
            grid.add_row(target, escape(how))
    reasons = manifest["rejects"] | {"filtered": manifest["rows"]["filtered"]}
    lost = ", ".join(f"{reason} {count:,}" for reason, count in reasons.items() if count)
    if lost:
        grid.add_row("left out", lost)
    made = sorted(path.name + "/" * path.is_dir() for path in (ROOT / one.out).iterdir())
    grid.add_row("files", escape(f"{one.out}/: {' '.join(made)}"))
    return grid


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all of them")
    parser.add_argument("--out", default="demo", help="folder for the results")
    args = parser.parse_args()
    unknown = sorted(set(args.names) - set(example_names()))
    if unknown:
        parser.error(f"no such example: {', '.join(unknown)}; there are {example_names()}")
    return args


def main() -> int:
    """Run, print what came of each and the table; the process's exit status."""
    args, runs = options(), []
    console = Console(highlight=False)
    for name in args.names or example_names():
        out = f"{args.out}/{name}"
        console.print(f"[bold]$ {escape(shlex.join(command(name, out)))}", soft_wrap=True)
        runs.append(run(name, out))
        console.print(Padding(details(runs[-1]), (0, 0, 1, 2)))
    console.print(summary(runs))
    return int(any(one.exit_code != 0 for one in runs))


if __name__ == "__main__":
    sys.exit(main())
