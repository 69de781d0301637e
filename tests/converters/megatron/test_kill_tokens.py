"""`kill -9` of token builds at random moments; `--resume` ends as if nobody had disturbed them.

The command itself is killed: sometimes the one process that was started (the others have to see to
it), sometimes all of them at once, sometimes twice in a row. Moments are random over the run, over
the files that are done, or wait for a file that is there only while the data set is put together.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingot.converters.megatron import IndexedReader
from ingot.converters.records.writers import RecordWriter

TOKENIZER = Path(__file__).parents[3] / "examples/tokenizer/tokenizer.json"
KILLS = int(os.environ.get("INGOT_KILLS", "200"))
FILES = 44
WORDS = (
    "the data of a model 床前明月光 疑是地上霜 token 😀 naïve x86_64 <|im_start|> 1,024".split()  # noqa: SIM905
)
COMMAND = "from ingot.__main__ import parquet2mbt; parquet2mbt()"
META = dict.fromkeys(
    ["source", "language", "timestamp", "token_count", "quality_score", "original_id"]
)
# Files that are there at the end of a run alone.
LATE = ("idx", "commit", "meta")


def text(dice: random.Random) -> str:
    return " ".join(dice.choices(WORDS, k=dice.randint(0, 400)))


def write_texts(folder: Path, files: int, rows: int, dice: random.Random) -> None:
    """Files of 0 to `rows` rows, some of many row groups, one cut off; some rows are no UTF-8."""
    for number in range(files):
        values: list[bytes | None] = [text(dice).encode() for _ in range(dice.randint(1, rows))]
        if number % 5 == 0:
            values += [b"\xed\xa0\x80", None, b""]
        table = pa.table({"text": pa.array(values, pa.binary())})
        path = folder / f"{number % 3}" / f"{number:03d}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(table, path, row_group_size=7 if number % 7 == 0 else 1_000)
    path.write_bytes(path.read_bytes()[:-20])


def write_chats(folder: Path, files: int, rows: int, dice: random.Random) -> None:
    for number in range(files):
        with RecordWriter(folder, kind="sft", part=number) as writer:
            writer.write([chat(dice) for _ in range(dice.randint(1, rows))])


def chat(dice: random.Random) -> dict[str, Any]:
    messages = [
        {"role": role, "content": text(dice) or "-", "loss_mask": role == "assistant"}
        for role in ("user", "assistant") * dice.randint(1, 2)
    ]
    return {"messages": messages, "system": None, "meta": META}


def tree(folder: Path) -> dict[str, bytes]:
    """All files but the one with the times of the run."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "x.run.json"}


@dataclass(frozen=True, kw_only=True)
class Moment:
    """When a run is killed: after a time, when some units are done, or when a file is there."""

    seconds: float = 60.0
    units: int | None = None
    late: str = ""


def random_moment(dice: random.Random, seconds: float) -> Moment:
    way = dice.random()
    if way < 0.3:
        return Moment(seconds=dice.uniform(0.0, 1.05) * seconds)
    if way < 0.8:
        return Moment(units=dice.randrange(FILES))
    return Moment(late=dice.choice(LATE))


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Inputs, and how they are built."""

    folder: Path
    processes: int

    @property
    def out(self) -> Path:
        return self.folder / "out"

    def start(self, *more: str) -> "subprocess.Popen[bytes]":
        options = {
            "--input-dir": self.folder / "in",
            "--output-prefix": self.out / "x",
            "--tokenizer": TOKENIZER,
            "--processes": self.processes,
            "--log-file": self.folder / "log",
        }
        given = [str(part) for pair in options.items() for part in pair]
        with (self.folder / "errors").open("wb") as errors:
            return subprocess.Popen(
                [sys.executable, "-c", COMMAND, *given, "--append-eod", "--no-progress", *more],
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )

    def build(self, *more: str) -> dict[str, bytes]:
        assert self.start(*more).wait() == 0, (self.folder / "errors").read_text()
        return tree(self.out)

    def kill(self, moment: "Moment", *, group: bool, resume: bool) -> bool:
        """Start a run and kill it; False if it was done before."""
        process = self.start(*(["--resume"] if resume else []))
        end = time.monotonic() + moment.seconds
        while process.poll() is None and time.monotonic() < end and not self.is_at(moment):
            time.sleep(0.001 if moment.late else 0.02)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL) if group else process.kill()
        return process.wait() != 0

    def is_at(self, moment: "Moment") -> bool:
        if moment.late:
            return (self.out / f"x.{moment.late}.tmp").exists()
        return moment.units is not None and self.units() >= moment.units

    def units(self) -> int:
        """Units that are finished in the lanes."""
        journals = self.out.glob("x.journal*.tmp")
        with suppress(FileNotFoundError):
            return sum(path.read_bytes().count(b'{"unit"') for path in journals)
        return 0

    def left_behind(self) -> str:
        """How far the run was that has just been killed."""
        names = {path.name for path in self.out.iterdir()} if self.out.exists() else set()
        stages = {"x.idx": "names given", "x.commit.tmp": "giving names", "x.idx.tmp": "merge"}
        for name, stage in stages.items():
            if name in names:
                return stage
        units = self.units()
        if units:
            return "units, first half" if units < FILES / 2 else "units, second half"
        return "no unit" if any(name.startswith("x.journal") for name in names) else "start-up"


def scene(folder: Path, processes: int, *, files: int, rows: int, chats: bool) -> Scene:
    (folder / "in").mkdir()
    write = write_chats if chats else write_texts
    write(folder / "in", files, rows, random.Random(files))
    return Scene(folder=folder, processes=processes)


def check_kills(place: Scene, count: int, seed: int) -> Counter[str]:
    """Kill `count` runs; gives what each kill left."""
    started = time.monotonic()
    whole = place.build()
    seconds = time.monotonic() - started
    assert IndexedReader(place.out / "x").counts.documents > 0
    dice = random.Random(seed)
    left: Counter[str] = Counter()
    for _ in range(4 * count):
        shutil.rmtree(place.out)
        for resume in (False, True)[: dice.choice((1, 1, 1, 2))]:
            moment = random_moment(dice, seconds)
            if place.kill(moment, group=dice.random() < 0.5, resume=resume):
                left[place.left_behind()] += 1
        assert place.build("--resume") == whole
        if left.total() >= count:
            return left
    raise AssertionError(f"only {left.total()} of {4 * count} runs were killed")


@pytest.mark.long
def test_a_kill_of_processes(tmp_path: Path) -> None:
    place = scene(tmp_path, 2, files=6, rows=40, chats=False)
    assert check_kills(place, count=1, seed=1).total() == 1


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGTERM]
)
def test_signals_end_the_command_and_its_processes(tmp_path: Path, number: signal.Signals) -> None:
    place = scene(tmp_path, 2, files=6, rows=100, chats=False)
    process = place.start()
    while process.poll() is None and not place.units():
        time.sleep(0.01)
    own = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)
    # A shell shows the end by a signal as 128 + 15 = 143.
    assert process.wait() == (130 if number == signal.SIGINT else -number)
    psutil.wait_procs(own)
    assert len(own) >= 2  # and those that decode Parquet
    assert "Traceback" not in (tmp_path / "errors").read_text()
    left = tree(place.out)
    assert "x.idx" not in left
    time.sleep(0.2)
    assert tree(place.out) == left  # nobody writes on
    resumed = place.build("--resume")
    assert "x.idx" in resumed
    assert not [name for name in resumed if name.endswith(".tmp")]


@pytest.mark.long
@pytest.mark.parametrize(("processes", "chats"), [(1, False), (1, True), (2, False), (3, True)])
def test_kills(tmp_path: Path, processes: int, chats: bool) -> None:
    rows = 15 if chats else 90
    place = scene(tmp_path, processes, files=FILES, rows=rows, chats=chats)
    left = check_kills(place, count=max(1, KILLS // 4), seed=processes)
    print(dict(left))  # noqa: T201 - where the kills fell, shown with `-rP`
    assert left.total() >= KILLS // 4
