"""Several processes: killed, stopped or with a wrong engine, they lose and double nothing."""

import json
import os
import random
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingot.converters.errors import ConversionError, OutputError, SourceError
from ingot.converters.megatron import BuildOptions, WorkOptions, build, scan
from ingot.converters.megatron.engines.fast_engines import (
    FAST_ENGINES,
    Verdict,
    keep_verdict,
    make_verdict_case,
    recall_verdict,
)
from ingot.converters.megatron.tokenizer import load_tokenizer
from ingot.converters.output import worker_pool
from ingot.converters.rows import Json

ENDINGS = ("bin", "idx", "meta.json")
HERE = BuildOptions(append_eod=True)
# A fastokens that gives other ids for texts with `odd` in them.
WRONG_ENGINE = """
import numpy as np
import tokenizers

class Tokenizer:
    def __init__(self, own):
        self.own = own
    @staticmethod
    def from_json_str(text):
        return Tokenizer(tokenizers.Tokenizer.from_str(text))
    def no_truncation(self):
        self.own.no_truncation()
    def no_padding(self):
        self.own.no_padding()
    def encode_batch_flat(self, texts, split_special_tokens):
        rows = [self.own.encode(text, add_special_tokens=False).ids for text in texts]
        rows = [row[::-1] if "odd" in text else row for row, text in zip(rows, texts)]
        ends = np.cumsum([0, *map(len, rows)])
        return np.array([i for row in rows for i in row], np.uint32).tobytes(), ends.tobytes()
"""


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    dice = random.Random(5)
    for number in range(9):
        words = dice.choices(["the fox", "狐狸", "x = 1\n", "<|endoftext|>"], k=40 + 20 * number)
        table = pa.table({"text": [f"{number} {row} {' '.join(words)}" for row in range(20)]})
        pq.write_table(table, folder / f"{number}.parquet")
    return folder


class Out:
    """Builds into a folder of its own, with a monitor that may interfere."""

    def __init__(self, inputs: Path, tokenizer: Path, folder: Path) -> None:
        self.inputs, self.tokenizer, self.folder = inputs, tokenizer, folder
        self.messages: list[dict[str, Json]] = []
        self.interfere: Callable[[dict[str, Json]], None] = lambda message: None

    def monitor(self, message: dict[str, Json]) -> None:
        self.messages.append(message)
        self.interfere(message)

    def make(self, name: str = "x", *, processes: int = 2, **work: Any) -> dict[str, bytes]:
        prefix = self.folder / name
        build(
            scan(self.inputs),
            self.tokenizer,
            prefix,
            HERE,
            WorkOptions(processes=processes, **work),
            monitor=self.monitor,
        )
        left = {path.name for path in self.folder.iterdir() if path.name.endswith(".tmp")}
        assert not left
        return {ending: (self.folder / f"{name}.{ending}").read_bytes() for ending in ENDINGS}

    def events(self, event: str) -> list[dict[str, Json]]:
        return [message for message in self.messages if message.get("event") == event]

    def units(self) -> int:
        return sum(message.get("units", 0) for message in self.messages if is_count(message))


def is_count(message: dict[str, Json]) -> bool:
    return bool(message["kind"] == "count")


@pytest.fixture
def out(inputs: Path, tokenizer_file: Path, tmp_path: Path) -> Out:
    return Out(inputs, tokenizer_file, tmp_path / "out")


_strangers: set[int] = set()


@pytest.fixture(autouse=True)
def _know_strangers() -> None:
    """Children of this process that other tests have left, perhaps dead, are no workers."""
    _strangers.clear()
    _strangers.update(child.pid for child in psutil.Process().children())


def workers() -> list[psutil.Process]:
    decoders = {one.process.pid for some in worker_pool._idle.values() for one in some}
    return [one for one in psutil.Process().children() if one.pid not in _strangers | decoders]


def kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        process.send_signal(signal.SIGKILL)


@pytest.mark.more
def test_killed_processes_are_replaced(out: Out) -> None:
    whole = out.make("one", processes=1)
    dice, done = random.Random(1), 0

    def interfere(message: dict[str, Json]) -> None:
        nonlocal done
        if is_count(message) and message.get("units"):
            done += 1
            if done == 2:
                kill([dice.choice(workers())])
            if done == 7:  # a third death could be blamed on a unit that both others were in
                kill(workers())

    out.interfere = interfere
    assert out.make() == whole
    assert len(out.events("worker_died")) >= 2
    assert {one["error"] for one in out.events("worker_died")} == {"signal 9"}
    assert not workers()


@pytest.mark.long
def test_processes_that_end_before_they_begin_end_the_build(out: Out) -> None:
    def interfere(message: dict[str, Json]) -> None:
        if message["kind"] == "phase" or message.get("event") == "worker_died":
            threading.Timer(0.05, lambda: kill(workers())).start()

    out.interfere = interfere
    with pytest.raises(ConversionError, match=r"processes end before they begin \(signal 9\)"):
        out.make()
    assert not workers()
    out.interfere = lambda message: None
    assert out.make(resume=True) == out.make("one", processes=1)


def hold(path: Path, own: list[psutil.Process]) -> list[psutil.Process]:
    """Those that have a file open."""
    found = []
    for process in own:
        try:
            if str(path) in (file.path for file in process.open_files()):
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


@pytest.mark.long
def test_a_file_that_no_process_survives_fails_and_the_others_are_there(
    out: Out, inputs: Path
) -> None:
    victim = inputs / "4.parquet"
    texts = ["the fox " * 60_000 for _ in range(30)]
    pq.write_table(pa.table({"text": texts}), victim, row_group_size=1)
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.005):
            kill(hold(victim, workers()))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        out.make(queue_cap=1)
    finally:
        stop.set()
        watcher.join()
    assert 3 <= len(out.events("worker_died")) <= 4
    meta = json.loads((out.folder / "x.meta.json").read_text())
    failed = {one["path"]: one["error"] for one in meta["files"] if one["status"] == "failed"}
    assert failed == {"4.parquet": "3 worker processes crashed on this file (signal 9)"}
    victim.unlink()
    assert (out.folder / "x.bin").read_bytes() == out.make("rest", processes=1)["bin"]


@pytest.mark.more
def test_a_stopped_process_is_waited_for(out: Out) -> None:
    whole = out.make("one", processes=1)
    stopped: list[psutil.Process] = []
    out.messages.clear()

    def interfere(message: dict[str, Json]) -> None:
        if is_count(message) and message.get("units"):
            if not stopped:
                stopped.append(workers()[0])
                stopped[0].suspend()
            elif out.units() >= 5:
                stopped[0].resume()

    out.interfere = interfere
    assert out.make() == whole
    assert not out.events("worker_died")


@pytest.mark.more
def test_an_error_in_one_process_ends_them_all(out: Out, inputs: Path) -> None:
    (inputs / "5.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(SourceError, match=r"5\.parquet"):
        out.make(fail_fast=True)
    assert not workers()
    (inputs / "5.parquet").unlink()
    with pytest.raises(OutputError, match=r"files.5.parquet is 12 .requested: not set"):
        out.make(resume=True)
    assert out.make() == out.make("one", processes=1)


@pytest.mark.more
def test_a_wrong_engine_in_a_process_is_switched_off_and_its_units_are_done_again(
    out: Out, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("fastokens")
    whole = out.make("one", processes=1, tok_engine="hf")
    pq.write_table(pa.table({"text": ["an odd text"]}), inputs / "8.parquet")
    expected = out.make("two", processes=1, tok_engine="hf")
    assert expected["bin"] != whole["bin"]
    fake = tmp_path / "fake"
    fake.mkdir()
    (fake / "fastokens.py").write_text(WRONG_ENGINE)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(fake), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("INGOT_HOME", str(tmp_path / "home"))
    case = make_verdict_case(FAST_ENGINES["fastokens"], load_tokenizer(out.tokenizer), plain=False)
    keep_verdict(case, Verdict(passed=True))
    assert out.make("x", tok_engine="fastokens") == expected
    (told,) = out.events("engine_wrong")
    assert told["engine"] == "fastokens"
    verdict = recall_verdict(case)
    assert verdict is not None
    assert not verdict.passed


def test_what_a_process_is_told_of_odd_names(out: Out, inputs: Path) -> None:
    (inputs / "0.parquet").rename(inputs / "caf\udce9\n.parquet")
    (inputs / "1.parquet").write_bytes(b"")
    (inputs / "1.parquet").rename(inputs / "\udcff.parquet")
    assert out.make() == out.make("one", processes=1)


def test_more_processes_than_units(out: Out, inputs: Path) -> None:
    for path in sorted(inputs.iterdir())[2:]:
        path.unlink()
    assert out.make(processes=4, affinity=True) == out.make("one", processes=1)
