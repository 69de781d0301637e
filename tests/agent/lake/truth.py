"""The generated lake in tests: its truth, runs over it, what lies in its folder."""

import gzip
import hashlib
import importlib
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet as pq
from click.testing import Result

from tests.command_line import ingot
from tests.conftest import SURE

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks" / "lake"


_LOADED: dict[str, ModuleType] = {}


def script(name: str) -> ModuleType:
    """A module of benchmarks/lake, imported as where it is run.

    Other folders of benchmarks have modules of the same names: these here are known under their
    names only while they import each other.
    """
    others = {own: sys.modules.pop(own) for own in _own_names() if own in sys.modules}
    sys.modules.update(_LOADED)
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(BENCHMARKS))
        for own in _own_names():
            if own in sys.modules:
                _LOADED[own] = sys.modules.pop(own)
        sys.modules.update(others)


def _own_names() -> list[str]:
    return [path.stem for path in BENCHMARKS.glob("*.py")]


@dataclass(frozen=True)
class Lake:
    """A generated lake: `root` is the lake, `folder` has the truth beside it."""

    folder: Path
    truth: dict[str, Any]

    @property
    def root(self) -> Path:
        return self.folder / "lake"

    @property
    def sets(self) -> dict[str, dict[str, Any]]:
        return self.truth["sets"]

    def records(self, key: str) -> Counter[str]:
        """What the records of a set say, by the truth."""
        lines = (self.folder / "records" / f"{key}.jsonl").read_text().splitlines()
        return Counter(json.dumps(json.loads(line), sort_keys=True) for line in lines)

    def replies(self) -> list[dict[str, Any]]:
        return json.loads((self.folder / "model.json").read_text())


def generated(folder: Path, size: str = "test", seed: int = 7) -> Lake:
    make = script("generate")
    return Lake(folder, make.generate(folder, make.SIZES[size], seed))


def command(root: Path, out: Path, *more: str, url: str = "") -> list[str]:
    """The command that runs over a lake, with the model at that address."""
    model = ["--model", "m", "--base-url", url] if url else ["--mapper", "rules"]
    run = [sys.executable, "-m", "ingot", "lake", "run", str(root), "--out", str(out)]
    return [*run, *SURE, *model, *more]


def settings(home: Path) -> dict[str, str]:
    return {"INGOT_HOME": str(home), "OPENAI_API_KEY": "k", "NO_COLOR": "1"}


def surroundings(home: Path) -> dict[str, str]:
    return {**os.environ, **settings(home)}


def run(lake: Lake, out: Path, *more: str, url: str = "", code: int = 0) -> Result:
    """Run over a lake to the end, with its approved mappings."""
    home = out.parent / f"{out.name}.home"
    mappings = out / "mappings"
    if not mappings.exists():
        mappings.mkdir(parents=True)
        for one in (lake.folder / "mappings").iterdir():
            (mappings / one.name).write_bytes(one.read_bytes())
    words = command(lake.root, out, *more, url=url)[3:]
    return ingot(*words, code=code, **settings(home))


def said(record: dict[str, Any]) -> str:
    """What a record says, as the truth spells it."""
    if "text" in record:
        return json.dumps({"text": record["text"]}, sort_keys=True)
    turns = [[one["role"], one["content"]] for one in record["messages"]]
    told = {"messages": turns, "system": record["system"], "tools": record.get("tools")}
    return json.dumps(told, sort_keys=True)


def records_in(folder: Path) -> Iterator[dict[str, Any]]:
    """The records of a result or of a part of the corpus, in their order."""
    for file in sorted((folder / "records").iterdir()):
        if file.suffix == ".parquet":
            yield from pq.read_table(file).to_pylist()
        else:
            packed = gzip.open if file.suffix == ".gz" else open
            with packed(file, "rt", encoding="utf-8") as lines:
                yield from map(json.loads, lines)


def snapshot(out: Path, *, spent: bool = True) -> dict[str, str]:
    """Every file of a lake's folder by its bytes, but what may differ between equal runs.

    Without `spent`, what asking a model took is left out of catalog and page: a request that a kill
    cuts off is counted by the model only.
    """
    found = {}
    for base, folders, names in os.walk(out):
        folders[:] = [one for one in folders if one != ".ingot-lake"]
        for name in names:
            file = Path(base) / name
            if name != "run.json":
                data = file.read_bytes() if spent else _without_spent(file)
                found[file.relative_to(out).as_posix()] = hashlib.sha256(data).hexdigest()
    return found


def _without_spent(file: Path) -> bytes:
    if file.name == "catalog.parquet":
        return repr(pq.read_table(file).drop_columns(["spent"]).to_pylist()).encode()
    data = file.read_bytes()
    return re.sub(rb'"spent":\{[^}]*\}', b"", data) if file.name == "index.html" else data
