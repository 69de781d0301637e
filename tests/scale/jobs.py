"""The jobs that several machines can do together, on small inputs of many pieces."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

EXAMPLES = Path(__file__).parents[2] / "examples"
# Small shards make many pieces.
_PROGRAM = (
    "from ingot.converters.convert import plan; plan.SHARD_BYTES = 60_000; "
    "from ingot.converters.megatron.run import store_build; store_build.SHARD_BYTES = 9_000; "
    "from ingot.__main__ import main; main()"
)
RESULT = "o"


@dataclass(frozen=True)
class Job:
    """A command that writes `o` (a folder, or a prefix in it) below a folder with its input."""

    name: str
    prepare: Callable[[Path], None]
    words: tuple[str, ...]
    target: str = RESULT
    phases: int = 1


def ingot(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run the command line in a process of its own."""
    surroundings = {**os.environ, "NO_COLOR": "1", "RAY_DEDUP_LOGS": "0"}
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM, *words],
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


def joined_tokens(folder: Path, url: str) -> dict[str, bytes]:
    """The shards of a token data set in a store put together, as `tree` has the local one."""
    from ingot.converters.megatron.inspect.merge import merge_data_sets
    from ingot.converters.output.object_store import read_json

    manifest = read_json(f"{url}/manifest.json")
    assert manifest is not None
    copy = folder / "copy"
    copy.mkdir()
    system, path = fsspec.core.url_to_fs(
        url, endpoint_url=os.environ["AWS_ENDPOINT_URL"], use_listings_cache=False
    )
    system.get(f"{path}/", f"{copy}/", recursive=True)
    merge_data_sets([copy / name for name in manifest["shards"]], folder / "joined" / "t")
    meta = json.loads((folder / RESULT / "t.meta.json").read_bytes())
    assert manifest["data_set"] == meta
    assert len(manifest["shards"]) > 3
    return {name: data for name, data in tree(folder / "joined").items() if "meta" not in name}


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


TOKENIZER = str(EXAMPLES / "tokenizer/tokenizer.json")
_TOKENS = ("tokens", "build", "--input-dir", "src", "--tokenizer", TOKENIZER, "--append-eod")
JOBS = {
    job.name: job
    for job in (
        Job("convert", _write_texts, ("convert", "m.json", "src", "--out", "o")),
        Job("tokens", _write_tables, (*_TOKENS, "--output-prefix", "o/t"), target="o/t"),
        Job("lake", _write_lake, ("lake", "run", "src", "--out", "o", "--yes"), phases=2),
    )
}
