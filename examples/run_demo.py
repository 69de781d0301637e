"""The main job on every data set beside this file, offline: `make demo`.

    python examples/run_demo.py [NAME ...]

Runs the installed `ingot run` on each folder (or on those named) with the embedded rules mapper,
writes to `demo/NAME/`, and prints what was decided. Exits with 1 if a run fails.
"""

import json
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ingot.converters.rows import Json

ROOT = Path(__file__).resolve().parent.parent
TOKENIZER = "examples/tokenizer/tokenizer.json"
CODE_FOLDERS = {"tokenizer", "__pycache__"}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One run: its exit code, what it said, seconds, and what lies in the output folder."""

    name: str
    exit_code: int
    said: str
    seconds: float
    manifest: dict[str, Json]
    mapping: dict[str, Json]
    tokens: int | None


def example_names() -> list[str]:
    """The folders with raw data, sorted."""
    folders = (p for p in (ROOT / "examples").iterdir() if p.is_dir())
    return sorted(p.name for p in folders if p.name not in CODE_FOLDERS)


def command(name: str) -> list[str]:
    """The command line, to be run in the repository's root."""
    out = f"demo/{name}"
    options = ["--mapper", "rules", "--tokenizer", TOKENIZER, "--yes", "--overwrite"]
    return ["ingot", "run", f"examples/{name}", "--out", out, *options]


def read_json(path: Path) -> dict[str, Json]:
    """A JSON object, or an empty one where the run left no such file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def count_tokens(out: Path) -> int | None:
    """Tokens of the data set, as written beside its `.bin`; None where there is none."""
    metas = [read_json(p) for p in sorted(out.glob("tokens/*.meta.json"))]
    return sum(m["tokens"] for m in metas) if metas else None


def run(name: str) -> Outcome:
    """Run one data set and read back what lies in its output folder."""
    started = time.monotonic()
    argv = [sys.executable, "-m", *command(name)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, encoding="utf-8")
    out = ROOT / "demo" / name
    return Outcome(
        name=name,
        exit_code=done.returncode,
        said=(done.stderr + done.stdout).strip(),
        seconds=time.monotonic() - started,
        manifest=read_json(out / "manifest.json") if done.returncode == 0 else {},
        mapping=read_json(out / "mapping.json"),
        tokens=count_tokens(out),
    )


def paths_in(value: Json) -> list[str]:
    """The paths that a value of the mapping language takes its text from, in order."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [path for part in value for path in paths_in(part)]
    if isinstance(value, dict):
        keys = ("path", "concat", "any_of")
        return [path for key in keys if key in value for path in paths_in(value[key])]
    return []


def role_of(entry: dict[str, Json]) -> str:
    """How a message gets its role, in a word or two."""
    role = entry["role"]
    return role if isinstance(role, str) else f"role from {role['path']}"


def mapped_fields(mapping: dict[str, Json]) -> str:
    """What a mapping takes, in a line: `text: title + body`, `user: question; assistant: ...`."""
    if mapping.get("text"):
        return "text: " + " + ".join(paths_in(mapping["text"]))
    entries = mapping.get("messages") or []
    return "; ".join(f"{role_of(e)}: {' + '.join(paths_in(e['content']))}" for e in entries)


def row_of(outcome: Outcome) -> list[str]:
    """The cells of one run in the table."""
    if outcome.exit_code != 0:
        return [outcome.name, f"[red]failed ({outcome.exit_code})", *[""] * 5]
    rows, records = outcome.manifest["rows"], outcome.manifest["records"]
    coverage = outcome.mapping.get("provenance", {}).get("coverage", "")
    numbers = [rows["read"], records["written"], rows["rejected"], outcome.tokens]
    cells = ["-" if n is None else f"{n:,}" for n in numbers]
    return [outcome.name, outcome.manifest["decision"], str(coverage), *cells]


def table(outcomes: list[Outcome]) -> Table:
    """All runs side by side; fits 80 columns."""
    grid = Table(title="ingot run, rules mapper", title_justify="left")
    for heading in ("data set", "decided", "coverage"):
        grid.add_column(heading, no_wrap=True)
    for heading in ("rows", "records", "rejected", "tokens"):
        grid.add_column(heading, justify="right", no_wrap=True)
    for outcome in outcomes:
        grid.add_row(*row_of(outcome))
    return grid


def main(names: list[str]) -> int:
    """Run, print the table and where everything lies; the process's exit status."""
    console = Console(highlight=False)
    outcomes = []
    for name in names:
        console.print(f"[dim]$ {shlex.join(command(name))}", soft_wrap=True)
        outcomes.append(run(name))
    console.print(table(outcomes))
    failed = [o for o in outcomes if o.exit_code != 0]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or example_names()))
