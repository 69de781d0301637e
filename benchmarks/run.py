"""All of the benchmarks of speed, one after another, and the table of docs/performance.md.

    python benchmarks/run.py [--quick] [--only NAME] [--again] [--write]

Each benchmark runs in a process of its own, with its peers, and its rows are kept in `build/bench`
as soon as it ends: a run that is broken off goes on with what is missing. Prints the table; with
`--write` it replaces the one in docs/performance.md and draws docs/img/performance.svg.
"""

import argparse
import json
import subprocess
import sys
from html import escape
from pathlib import Path

from measuring import Row

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PAGE = ROOT / "docs" / "performance.md"
PICTURE = ROOT / "docs" / "img" / "performance.svg"
ONCE = "times a second"
BEGIN, END = "<!-- rows of make bench -->", "<!-- end of rows -->"
HEADS = ("job", "data", "ingot", "beside it", "ratio", "wanted", "peak MB", "ceiling")
# What takes `--quick` and `--keep-rows`, by the name of its file of rows.
BENCHMARKS = {
    "convert": "convert_speed.py",
    "flat": "flat_columns.py",
    "harder": "harder_mappings.py",
    "criteo": "criteo/preprocess.py",
    "ctr-build": "ctr/build.py",
    "ctr-loader": "ctr/loader.py",
    "monolith": "monolith/convert.py",
    "run": "run_speed.py",
    "lake": "lake/run.py",
    "lake-files": "lake/listing.py",
    "tokens": "tokenize/speed.py",
}


def measure(name: str, quick: bool, kept: Path) -> list[Row]:
    """The rows of one benchmark: kept ones, or those of a run of it now."""
    if not kept.exists():
        print(f"{name}: {BENCHMARKS[name]}", file=sys.stderr)
        begun = kept.with_suffix(".begun")
        begun.unlink(missing_ok=True)
        argv = [sys.executable, str(HERE / BENCHMARKS[name]), "--keep-rows", str(begun)]
        if subprocess.run([*argv, *["--quick"][:quick]]).returncode != 0:
            sys.exit(f"{name} failed; what was measured before it is kept in {kept.parent}")
        begun.rename(kept)
    return [Row(**json.loads(line)) for line in kept.read_text(encoding="utf-8").splitlines()]


def table(rows: list[Row]) -> str:
    """The rows as a Markdown table, a line for each peer."""
    lines = [f"| {' | '.join(HEADS)} |", "| --- | --- | --: | --- | --: | --- | --: | --- |"]
    for row in rows:
        peers = row.peers or {"": 0.0}
        for place, (peer, rate) in enumerate(peers.items()):
            beside = f"{peer}: {shown(rate, row.unit)}" if peer else ""
            ratio = f"{row.ours / rate:.2f}" if rate else ""
            ours = shown(row.ours, row.unit)
            peak = f"{row.peak_mb:,.0f}" if row.peak_mb else ""
            cells = (row.job, row.data, ours, beside, ratio, row.wanted, peak, row.ceiling)
            if place:
                cells = ("", "", "", beside, ratio, "", "", "")
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def shown(rate: float, unit: str) -> str:
    """A rate for people: runs that are counted by the second as their seconds."""
    return f"{number(1 / rate)} s" if unit == ONCE else f"{number(rate)} {unit}"


def number(value: float) -> str:
    """With three digits at least."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


LINE, LEFT, SCALE = 16, 330, 420  # pixels: a bar's height, where bars begin, the fastest bar


def picture(rows: list[Row]) -> str:
    """Bars of every job: ingot's rate and those beside it, as shares of the fastest of them."""
    drawn, top = [], LINE
    for row in rows:
        drawn.append(f'<text x="0" y="{top}" font-weight="bold">{escape(_title(row))}</text>')
        fastest = max([row.ours, *row.peers.values()])
        for name, rate in {"ingot": row.ours, **row.peers}.items():
            top += LINE
            wide = max(1, round(SCALE * rate / fastest))
            color = "#c2410c" if name == "ingot" else "#94a3b8"
            said = shown(rate, row.unit)
            drawn += [
                f'<text x="{LEFT - 8}" y="{top}" text-anchor="end">{escape(name)}</text>',
                f'<rect x="{LEFT}" y="{top - 11}" width="{wide}" height="12" fill="{color}"/>',
                f'<text x="{LEFT + wide + 6}" y="{top}">{escape(said)}</text>',
            ]
        top += 2 * LINE
    width = LEFT + SCALE + 130
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-10 0 {width} {top}" width="{width}"'
    style = 'font-family="sans-serif" font-size="12"'
    back = f'<rect x="-10" y="0" width="{width}" height="{top}" fill="white"/>'
    return "\n".join([f"{head} {style}>", back, *drawn, "</svg>\n"])


def _title(row: Row) -> str:
    return f"{row.job} ({row.data})"


def main() -> None:
    """Measure what is missing and show all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="a tenth of the sizes")
    parser.add_argument("--only", action="append", choices=list(BENCHMARKS), help="default: all")
    parser.add_argument("--again", action="store_true", help="measure what is kept again")
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    args = parser.parse_args()
    folder = ROOT / "build" / ("bench-quick" if args.quick else "bench")
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for name in args.only or BENCHMARKS:
        kept = folder / f"{name}.jsonl"
        if args.again:
            kept.unlink(missing_ok=True)
        rows += measure(name, args.quick, kept)
    print(table(rows))
    if args.write:
        page = PAGE.read_text(encoding="utf-8")
        before, _, rest = page.partition(BEGIN)
        after = rest.partition(END)[2]
        PICTURE.write_text(picture(rows), encoding="utf-8")
        PAGE.write_text(f"{before}{BEGIN}\n{table(rows)}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
