"""What a run over a generated lake takes: time, memory of all its processes, calls to a model.

    python benchmarks/lake/run.py [--size full] [--jobs 2] [--latency 0.3] [--faults 0.1]
        [--dedup] [--work FOLDER]

The lake of `generate.py` is run over three times: from nothing, again with nothing changed, and
with one file changed. The model is a local server (`served.py`). Stops if rows read are not the sum
of converted, rejected and filtered ones, or not what the truth says.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))

from generate import SIZES, generate
from measuring import Measured, Row, add_options, keep_rows, timed
from served import Model, serving


def argv(work: Path, url: str, given: argparse.Namespace) -> list[str]:
    """The command of a run."""
    corpus = ["--dedup", "exact", "--split", "train=0.98,valid=0.02"] if given.dedup else []
    run = [sys.executable, "-m", "ingot", "lake", "run", str(work / "lake"), "--json"]
    model = ["--model", "m", "--base-url", url, "--yes", "--jobs", str(given.jobs)]
    mappings = ["--mappings", str(work / "mappings")]
    return [*run, "--out", str(work / "out"), *model, *mappings, *corpus]


def totals(out: Path) -> dict[str, int]:
    """Rows of all results together, by their manifests."""
    found = dict.fromkeys(("read", "converted", "rejected", "filtered", "records", "sets"), 0)
    for file in out.glob("sets/*/manifest.json"):
        manifest = json.loads(file.read_text())
        for name, count in manifest["rows"].items():
            found[name] += count
        found["records"] += manifest["records"]["written"]
        found["sets"] += 1
    parts = found["converted"] + found["rejected"] + found["filtered"]
    if found["read"] != parts:
        sys.exit(f"{found['read']} rows were read, {parts} are accounted for")
    return found


def expected(truth: dict[str, Any]) -> int:
    """Rows that are known to lie in the sets that are converted."""
    sets = truth["sets"].values()
    return sum(one["rows"] or 0 for one in sets if "converted" in one["status"])


def show(name: str, took: Measured, model: Model, before: int) -> None:
    calls = model.calls[before:]
    questions = len({call.question for call in calls})
    print(
        f"{name}: {took.seconds:.1f} s ({took.cpu_seconds:.1f} s of CPU), "
        f"{took.memory:,.0f} MB in all processes, {len(calls)} requests, {questions} questions"
    )


def change(root: Path, truth: dict[str, Any]) -> None:
    """Write a file of a data set anew, a row longer."""
    name = truth["sets"]["set-000"]["files"][0]
    with (root / name).open("ab") as file:
        file.write(b'{"id": "new", "text": "One more row, which nobody has seen before."}\n')
    os.utime(root / name, (time.time() + 5, time.time() + 5))


def main() -> None:
    """The command."""
    parse = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parse.add_argument("--size", choices=SIZES, default="full")
    parse.add_argument("--seed", type=int, default=7)
    parse.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parse.add_argument("--latency", type=float, default=0.3)
    parse.add_argument("--faults", type=float, default=0.0)
    parse.add_argument("--dedup", action="store_true")
    parse.add_argument("--work", type=Path)
    add_options(parse)
    given = parse.parse_args()
    given.size = "middle" if given.quick else given.size
    with tempfile.TemporaryDirectory() as made:
        work = given.work or Path(made)
        truth = generate(work, SIZES[given.size], given.seed)
        print(f"{truth['files']} files, {len(truth['sets'])} sets, {truth['broken']} broken")
        os.environ |= {"INGOT_HOME": str(work / "home"), "OPENAI_API_KEY": "k"}
        replies = json.loads((work / "model.json").read_text())
        with serving(Model(replies, given.latency, given.faults)) as model:
            keep_rows(_runs(work, truth, model, given), given.keep_rows)


def _runs(work: Path, truth: dict[str, Any], model: Model, given: argparse.Namespace) -> list[Row]:
    rows = []
    for name in ("from nothing", "nothing changed", "one file changed"):
        before = len(model.calls)
        if name == "one file changed":
            change(work / "lake", truth)
        took = timed(argv(work, model.url, given), work / "out")
        show(name, took, model, before)
        each = took.cpu_seconds / given.jobs
        rows.append(
            Row(
                job=f"lake run, {name}",
                data=f"{truth['files']:,} files, {len(truth['sets'])} sets",
                unit="times a second",
                ours=1 / took.seconds,
                peers={},
                wanted="45 s on two cores" if name == "from nothing" else "seconds",
                peak_mb=took.memory,
                ceiling=f"{took.cpu_seconds:.0f} s of CPU in {given.jobs} processes: {each:.0f} s",
            )
        )
    found = totals(work / "out")
    print(", ".join(f"{count:,} {name}" for name, count in found.items()))
    print(f"rows by the truth, without sets of which it says nothing: {expected(truth) + 1:,}")
    return rows


if __name__ == "__main__":
    main()
