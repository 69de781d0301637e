"""Builds that are told to end: the command and its processes do, and `--resume` goes on."""

import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingot.converters.records.writers import RecordWriter

TOKENIZER = Path(__file__).parents[4] / "examples/tokenizer/tokenizer.json"
WORDS = (
    "the data of a model 床前明月光 疑是地上霜 token 😀 naïve x86_64 <|im_start|> 1,024".split()  # noqa: SIM905
)
COMMAND = "from ingot.__main__ import parquet2mbt; parquet2mbt()"
META = dict.fromkeys(
    ["source", "language", "timestamp", "token_count", "quality_score", "original_id"]
)


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

    def units(self) -> int:
        """Units that are finished in the lanes."""
        journals = self.out.glob("x.journal*.tmp")
        with suppress(FileNotFoundError):
            return sum(path.read_bytes().count(b'{"unit"') for path in journals)
        return 0


@pytest.mark.more
@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGTERM]
)
def test_signals_end_the_command_and_its_processes(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "in").mkdir()
    write_texts(tmp_path / "in", 40, 100, random.Random(6))
    place = Scene(folder=tmp_path, processes=2)
    process = place.start()
    while process.poll() is None and not place.units():
        time.sleep(0.01)
    own = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)
    assert process.wait() == 128 + number
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
