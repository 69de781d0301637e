"""What the driver of a job bears: a million shard descriptions, and what Ray costs a task.

    .venv/bin/python benchmarks/scale.py [--shards 1000000] [--tasks 4000]

The first part plans shards of made-up files, pickles every task as a runner would send it, takes
the document of every shard, and adds up counts and manifest, as `ingot convert` does; nothing is
converted. The second sends tasks that do nothing to Ray and to processes of this machine.
"""

import argparse
import json
import pickle
import resource
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

from ingot.converters.convert import job, plan
from ingot.converters.convert import result as results
from ingot.converters.convert.options import ConvertOptions
from ingot.converters.convert.shard import ShardTask
from ingot.converters.mapping.bind import bind
from ingot.converters.output.files import encode_json
from ingot.converters.output.ray_workers import RayWorkers
from ingot.converters.output.worker_pool import Spreading, Workers, results_in_order
from ingot.converters.sources import open_source

_HASH = "0123456789abcdef" * 4


class _Pretends(Spreading):
    """A runner that pickles a task and at once gives the document of a shard of 64 MiB."""

    jobs = 1000

    def __init__(self) -> None:
        self.sent = self.tasks = 0

    def submit(self, work: Callable[..., Any], /, *arguments: ShardTask) -> "Future[Any]":
        (task,) = arguments
        self.sent += len(pickle.dumps((work, arguments)))
        self.tasks += 1
        done: Future[Any] = Future()
        sent_back = pickle.dumps(_document(task))
        done.set_result(pickle.loads(sent_back))  # noqa: S301 - its own
        return done


def _document(task: ShardTask) -> results.ShardDocument:
    rows = {"read": 30_000, "converted": 29_990, "rejected": 10, "filtered": 0}
    counts = results.Counts()
    counts.rows.update(rows)
    counts.records.update({"written": 29_990, "rejected": 10})
    counts.rejects.update({"missing": 10})
    counts.paths = {"text": [30_000, 10, 0], "id": [30_000, 0, 0]}
    file = task.source.files[0]
    part = {"path": "records/part-00000.parquet", "bytes": 20_000_000, "sha256": _HASH}
    return {
        **counts.to_document(),
        "inputs": [{"name": file.name, "bytes": file.bytes, "sha256": _HASH}],
        "parts": [part],
        "rejected_parts": [{**part, "path": "rejected/part-00000.jsonl"}],
        "seconds": 1.0,
        "peak_rss": 1,
        "taken_over": False,
    }


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def measure_driver(shards: int, folder: Path) -> None:
    """Print seconds and memory of every step of the driver."""
    (folder / "a.jsonl").write_text('{"text": "a", "id": 1}\n')
    source = open_source(str(folder / "a.jsonl"))
    (only,) = source.files
    started = time.monotonic()

    def step(name: str, more: str = "") -> None:
        nonlocal started
        print(f"{name:34} {time.monotonic() - started:8.1f} s  {_peak():7,} MiB at most  {more}")
        started = time.monotonic()

    files = tuple(
        replace(only, name=f"crawl/part-{number:07}.jsonl", bytes=plan.SHARD_BYTES)
        for number in range(shards)
    )
    source = replace(source, files=files)
    step("list of files")
    planned = plan.plan_shards(source, cut=False)
    step("plan", f"{len(planned):,} shards")
    mapping = bind({"version": 2, "text": "text", "meta": {"original_id": "id"}}, ())
    settled = results.options_document(ConvertOptions(), source.name)
    identity = results.conversion_identity(
        source, mapping.kind, results.mapping_sha256(mapping), settled
    )
    with identity.stage(folder / "out") as staged:
        step("identity and stage")
        held = job._Conversion(
            source=source,
            identity=identity,
            mapping=mapping,
            options=ConvertOptions(),
            staged=staged,
            watch=lambda _: None,
        )
        runner = _Pretends()
        documents = held._convert(planned, runner)
        step("tasks out, documents in", f"{runner.sent / runner.tasks:,.0f} bytes a task")
        counts = results.Counts()
        for one in documents:
            counts.add(one)
        entries = (entry for one in documents for entry in one["inputs"])
        manifest = results.build_manifest(identity, source, counts, inputs=entries)
        parts = [part for one in documents for part in one["parts"]]
        text = encode_json({**manifest, "files": parts})
        step("manifest", f"{len(text) / 1e6:,.0f} MB")


def measure_runners(tasks: int) -> None:
    """Print what a task that does nothing takes."""
    for name, open_runner in (("processes", lambda: Workers(2)), ("ray", RayWorkers)):
        started = time.monotonic()
        with open_runner() as runner:
            list(results_in_order(runner, abs, range(100), window=8))
            begun = time.monotonic()
            list(results_in_order(runner, abs, range(tasks), window=4 * runner.jobs))
            each = (time.monotonic() - begun) / tasks
        print(
            json.dumps(
                {
                    "runner": name,
                    "start_s": round(begun - started, 2),
                    "task_ms": round(1000 * each, 3),
                }
            )
        )


def main() -> int:
    """Measure and print."""
    import tempfile

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--shards", type=int, default=1_000_000)
    parser.add_argument("--tasks", type=int, default=4_000)
    told = parser.parse_args()
    measure_runners(told.tasks)
    with tempfile.TemporaryDirectory() as folder:
        measure_driver(told.shards, Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
