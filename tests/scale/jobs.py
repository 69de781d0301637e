"""The jobs that several machines can do together, on small inputs of many pieces."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from ingot.cli.app import app
from ingot.converters.json_yaml import load_json
from ingot.converters.megatron.inspect.merge import local_data_set
from ingot.converters.output import sharding
from tests.conftest import SURE
from tests.converters.recsys.criteo.lines import content
from tests.s3_server import Storage

EXAMPLES = Path(__file__).parents[2] / "examples"
# Small shards make many pieces.
_SMALL = {
    "ingot.converters.convert.plan.SHARD_BYTES": 60_000,
    "ingot.converters.megatron.run.store_build.SHARD_BYTES": 9_000,
}
_SMALL_CTR = {"ingot.converters.recsys.ctr.preprocess.job.PIECE_BYTES": 1 << 20}
RESULT = "o"
_STREAM = Path(__file__).parents[1] / "golden/monolith/mono_example_sortid.pb"
_GENERATOR = Path(__file__).parents[2] / "benchmarks/ctr/generate.py"


@dataclass(frozen=True)
class Job:
    """A command that writes `o` (a folder, or a prefix in it) below a folder with its input."""

    name: str
    prepare: Callable[[Path], None]
    words: tuple[str, ...]
    target: str = RESULT
    phases: int = 1


def _small(words: Sequence[str]) -> dict[str, int]:
    return _SMALL | _SMALL_CTR if words[0] == "ctr" else _SMALL


def program(words: Sequence[str]) -> str:
    """What runs a command line with small shards."""
    names = [(*name.rpartition(".")[::2], value) for name, value in _small(words).items()]
    lines = [f"import {module}; {module}.{name} = {value}" for module, name, value in names]
    return "; ".join([*lines, "from ingot.__main__ import main; main()"])


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it said."""

    returncode: int
    stdout: str
    stderr: str


def ingot(folder: Path, *words: str) -> Done:
    """Run the command line in this process, which has imported it already."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("NO_COLOR", "1")
        patch.setattr(sharding, "_COMMAND", [*words])  # the command of a merge is written down
        for name, value in _small(words).items():
            patch.setattr(name, value)
        ran = CliRunner().invoke(app, list(words))
    return Done(ran.exit_code, ran.stdout, ran.stderr)


def ingot_alone(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run the command line in a process of its own."""
    surroundings = {**os.environ, "NO_COLOR": "1", "RAY_DEDUP_LOGS": "0"}
    return subprocess.run(
        [sys.executable, "-c", program(words), *words],
        cwd=folder,
        env=surroundings,
        capture_output=True,
        text=True,
        check=False,
    )


def tree(folder: Path) -> dict[str, bytes]:
    """All files of a result but those with times, and what a lake keeps for itself."""
    return {
        name: path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and not (name := path.relative_to(folder).as_posix()).endswith(("run.json", "index.html"))
        and ".ingot-lake" not in name
        and name != "catalog.parquet"  # holds the place of each data set
    }


def in_store(job: Job, s3: Storage, folder: Path) -> tuple[list[str], str]:
    """Do a job on this machine; its command with input and output in a store, and its URL."""
    job.prepare(folder)
    assert ingot(folder, *job.words).returncode == 0
    source = {f"{folder.name}/src/{p.name}": p.read_bytes() for p in (folder / "src").iterdir()}
    s3.put("bucket", source)
    place = f"s3://bucket/{folder.name}"
    names = {"src": f"{place}/src", job.target: f"{place}/out"}
    return [names.get(word, word) for word in job.words], f"{place}/out"


def joined_tokens(folder: Path, url: str) -> dict[str, bytes]:
    """The data set of several shards in a store as `tree` has the local one."""
    prefix = local_data_set(url)
    assert len((load_json(prefix.parent / "manifest.json"))["shards"]) > 3
    ends = ("bin", "idx", "meta.json")
    return {f"t.{end}": prefix.with_name(f"{prefix.name}.{end}").read_bytes() for end in ends}


def _write_texts(folder: Path) -> None:
    (folder / "src").mkdir()
    (folder / "m.json").write_text('{"version": 2, "text": "text", "meta": {"original_id": "id"}}')
    for name, rows in (("a", 300), ("b", 2500), ("c", 40), ("d", 700)):  # b is cut
        lines = [
            json.dumps({"id": f"{name}{row}", "text": f"text {row} " * 9})
            if row % 97
            else '{"id": broken'
            for row in range(rows)
        ]
        (folder / "src" / f"{name}.jsonl").write_text("\n".join([*lines, ""]))


def _write_tables(folder: Path) -> None:
    (folder / "src").mkdir()
    for number in range(7):
        texts = [f"text {row} of file {number}. " * (row % 7) for row in range(400 + 50 * number)]
        pq.write_table(pa.table({"text": texts}), folder / f"src/f{number}.parquet")


def _write_lake(folder: Path) -> None:
    for number in range(6):
        place = folder / "src" / f"set{number}"
        place.mkdir(parents=True)
        lines = [
            json.dumps(
                {"prompt": f"What is {row} + {number}?", "response": f"It is {row + number}."}
            )
            for row in range(60 + number)
        ]
        (place / "data.jsonl").write_text("\n".join([*lines, ""]))


def _write_days(folder: Path) -> None:
    (folder / "src").mkdir()
    for day in range(5):
        text = content(4000 + 100 * day, day, values=900) + b"no row\n"
        (folder / f"src/day_{day}").write_bytes(text)


def _write_streams(folder: Path) -> None:
    (folder / "src").mkdir()
    for number in range(12):
        (folder / f"src/{number}.pb").write_bytes(_STREAM.read_bytes() * (40 + number))


def _write_ctr(folder: Path) -> None:
    command = [sys.executable, str(_GENERATOR), str(folder / "src"), "--scale", "0.004"]
    subprocess.run(command, check=True, capture_output=True)


# One process: most of the time of so small a lake is the start of processes.
_LAKE = ("lake", "run", "src", "--out", "o", *SURE, "--jobs", "1")
TOKENIZER = str(EXAMPLES / "tokenizer/tokenizer.json")
_TOKENS = ("tokens", "build", "--input-dir", "src", "--tokenizer", TOKENIZER, "--append-eod")
JOBS = {
    job.name: job
    for job in (
        Job("convert", _write_texts, ("convert", "m.json", "src", "--out", "o")),
        Job("tokens", _write_tables, (*_TOKENS, "--output-prefix", "o/t"), target="o/t"),
        Job("lake", _write_lake, _LAKE, phases=2),
    )
}
_RARE = ("--frequency-threshold", "3", "--threads", "1")
_RAW = (
    *("--skeleton", "src/sample_skeleton_train.csv"),
    *("--common", "src/common_features_train.csv"),
)
# Their parts are tested beside each of them.
RECSYS_JOBS = {
    job.name: job
    for job in (
        Job(
            "criteo",
            _write_days,
            ("criteo", "preprocess", "--input-dir", "src", *_RARE, "--out", "o"),
        ),
        Job(
            "monolith",
            _write_streams,
            ("monolith", "convert", "src", "o/", "--from", "example", "--to", "parquet"),
        ),
        Job("ctr", _write_ctr, ("ctr", "build", *_RAW, "--featuremap", "aliccp", "--out", "o")),
    )
}
