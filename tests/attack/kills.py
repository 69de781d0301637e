"""`kill -9` at random moments for every job.

    python -m tests.attack.kills --kills 300 --seed 1 --jobs lake export --figures FILE

Whatever a kill leaves: the destination is what it was or the whole new result, the next run makes
the bytes of a run that nobody disturbed, and nothing else and no process stays behind. Moments are
random over the run, over the time in which it writes, or a moment after the files appear that are
there only while a result is put in its place.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.attack.raw_data import sentence
from tests.conftest import SURE
from tests.converters.megatron.run.test_ended_builds import write_chats, write_texts

EXAMPLES = Path(__file__).parents[2] / "examples"
TOKENIZER = str(EXAMPLES / "tokenizer/tokenizer.json")
# Small shards make many places where a run can be cut.
SMALL_SHARDS = (
    "from ingot.converters.convert import plan; plan.SHARD_BYTES = 150_000; "
    "from ingot.__main__ import main; main()"
)
STAGED = (".o.ingot-stage-*", "o.*", "o/*")
LAST = (".o.ingot-stage-*/result/run.json",)
GRACE = 60.0  # seconds in which the processes of a killed run have to end


@dataclass(frozen=True, kw_only=True)
class Job:
    """A command that writes `o` in a folder, and its inputs.

    `prepare` may leave a folder `old`: then every second run replaces that result. `last` are globs
    of what is there only at the end; `parts` says that `o` is filled bit by bit.
    """

    name: str
    prepare: Callable[[Path], None]
    words: tuple[str, ...]
    resume: tuple[str, ...] = ()
    last: tuple[str, ...] = LAST
    parts: bool = False
    small_shards: bool = False

    def command(self, *more: str) -> list[str]:
        """The words of the process."""
        start = ["-c", SMALL_SHARDS] if self.small_shards else ["-m", "ingot"]
        return [sys.executable, *start, *self.words, *more]


def tree(folder: Path) -> dict[str, bytes] | None:
    """All files of a result but those with times, and what a lake keeps for itself."""
    if not folder.exists():
        return None
    files = (path for path in folder.rglob("*") if path.is_file() or path.is_symlink())
    named = {path.relative_to(folder).as_posix(): path for path in files}
    return {
        name: path.read_bytes()
        for name, path in named.items()
        if not name.endswith("run.json") and ".ingot-lake" not in name
    }


class Scene:
    """A folder with the inputs of a job, its undisturbed result, and runs that are killed."""

    def __init__(self, job: Job, folder: Path, dice: random.Random) -> None:
        self.job, self.folder, self.dice, self.out = job, folder, dice, folder / "o"
        job.prepare(folder)
        self.run()  # compiles, and fills caches
        shutil.rmtree(self.out)
        started = time.monotonic()
        self.run()
        self.seconds = time.monotonic() - started
        self.whole = tree(self.out) or {}
        assert self.whole
        self.beside = {path.name for path in folder.iterdir()} - {"o"}
        shutil.rmtree(self.out)

    def surroundings(self) -> dict[str, str]:
        return {**os.environ, "INGOT_HOME": str(self.folder / "home"), "NO_COLOR": "1"}

    def start(self, *more: str) -> "subprocess.Popen[bytes]":
        with (self.folder / "errors").open("wb") as errors:
            return subprocess.Popen(
                self.job.command(*more),
                cwd=self.folder,
                env=self.surroundings(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )

    def run(self, *more: str) -> None:
        """To the end."""
        code = self.start(*more).wait()
        assert code == 0, (self.job.name, code, (self.folder / "errors").read_text()[-2000:])

    def kill(self, *more: str) -> bool:
        """Start a run and kill it, or all its processes; False if it was done before."""
        way, wait = self.dice.choice("ttwwwc"), self.dice.uniform(0.03, 1.0) * self.seconds
        group = self.dice.random() < 0.5
        globs = {"w": STAGED, "c": self.job.last}.get(way, ())
        if way != "t":
            wait *= 0.6 if way == "w" else 0.002
        process = self.start(*more)
        while globs and process.poll() is None and not self._has(globs):
            time.sleep(0.001)
        end = time.monotonic() + wait
        while process.poll() is None and time.monotonic() < end:
            time.sleep(0.001)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL) if group else process.kill()
        code = process.wait()
        assert code in (0, -signal.SIGKILL), (self.folder / "errors").read_text()[-2000:]
        self._await_processes()
        return code != 0

    def reached(self, before: dict[str, bytes] | None) -> str:
        """How far the run was that has just been killed; its destination is held to be whole."""
        now = tree(self.out)
        if now == self.whole:
            return "after the commit"
        if self.job.parts:
            self._hold_parts(now or {})
        else:
            assert now == before, f"{self.job.name}: neither the old result nor the new one"
        if self._has(self.job.last):
            return "during the commit"
        staged = [path for glob in STAGED for path in self.folder.glob(glob)]
        files = [one for path in staged for one in (path, *path.rglob("*")) if one.is_file()]
        new = any(one.stat().st_size for one in files) and (self.job.parts or not before)
        hidden = any(one.name.startswith(".") for one in staged)
        return "while it wrote" if new or hidden else "before the first byte"

    def hold_next_run(self) -> None:
        """The next run makes the result of an undisturbed one, and leaves nothing else."""
        self.run(*self.job.resume)
        now = tree(self.out) or {}
        wrong = [name for name in now | self.whole if now.get(name) != self.whole.get(name)]
        assert not wrong, f"{self.job.name}: other than undisturbed: {wrong[:5]}"
        beside = {path.name for path in self.folder.iterdir()} - {"o"}
        assert beside == self.beside, beside ^ self.beside
        shutil.rmtree(self.out)

    def _hold_parts(self, now: dict[str, bytes]) -> None:
        """Sets of a lake and data sets of tokens that have their last file are whole."""
        for name in now:
            done = name.startswith("sets/") and name.endswith("/manifest.json") and "/." not in name
            if done:
                folder = name.removesuffix("manifest.json")
                assert _below(now, folder) == _below(self.whole, folder), name
        if "x.idx" in now and "x.commit.tmp" not in now:
            assert now["x.bin"] == self.whole["x.bin"]
            assert now["x.idx"] == self.whole["x.idx"]

    def _has(self, globs: tuple[str, ...]) -> bool:
        return any(any(self.folder.glob(glob)) for glob in globs)

    def _await_processes(self) -> None:
        mark, end = f"INGOT_HOME={self.folder / 'home'}".encode(), time.monotonic() + GRACE
        while (left := _marked(mark)) and time.monotonic() < end:
            time.sleep(0.02)
        assert not left, f"{self.job.name}: processes are left"


def _below(files: dict[str, bytes], folder: str) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if name.startswith(folder)}


def _marked(mark: bytes) -> list[str]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                held = (folder / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if mark in held:
                found.append(folder.name)
    return found


def check_kills(job: Job, folder: Path, count: int, seed: int) -> Counter[str]:
    """Kill `count` runs, some of them in a row; gives how far they were.

    A run that ended before its kill is held too, but is no kill: more are tried.
    """
    dice, ends = random.Random(f"{job.name}:{seed}"), Counter[str]()
    scene = Scene(job, folder, dice)
    for number in range(4 * count):
        before = None
        if (folder / "old").exists() and number % 2 == 0:
            shutil.copytree(folder / "old", scene.out)
            before = tree(scene.out)
        for more in ((), job.resume, job.resume)[: dice.choice((1, 1, 1, 2, 3))]:
            if scene.kill(*more):
                ends[scene.reached(before)] += 1
        scene.hold_next_run()
        if ends.total() >= count:
            return ends
    raise AssertionError(f"{job.name}: only {ends.total()} of {4 * count} runs were killed")


def _mapping(folder: Path, name: str, text: list[str]) -> None:
    (folder / name).write_text(json.dumps({"version": 2, "text": text}))


def _write_rows(folder: Path, files: int, rows: int) -> None:
    folder.mkdir(parents=True)
    for file in range(files):
        lines = (
            json.dumps({"question": f"{folder.name} {file} {row}?", "answer": sentence(row)})
            for row in range(rows)
        )
        (folder / f"{file:02}.jsonl").write_text("\n".join(lines))


def _rows(folder: Path) -> None:
    _write_rows(folder / "raw", 8, 2500)
    _mapping(folder, "m.json", ["question", "answer"])


def _rows_over_old(folder: Path) -> None:
    _rows(folder)
    _mapping(folder, "old.json", ["question"])
    _ingot(folder, "convert", "old.json", "raw", "--out", "old")


def _rows_to_take_over(folder: Path) -> None:
    """The old result has shards that the new one takes over."""
    _rows(folder)
    words = [sys.executable, "-c", SMALL_SHARDS, "convert", "m.json", "raw", "--out", "old"]
    subprocess.run(words, cwd=folder, check=True, capture_output=True)
    (folder / "raw/03.jsonl").write_text('{"question": "changed?", "answer": "yes"}\n')
    (folder / "raw/05.jsonl").unlink()


def _ingot(folder: Path, *words: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "ingot", *words], cwd=folder, check=True, capture_output=True
    )


def _result(folder: Path) -> None:
    _rows(folder)
    document = {"role": "user", "content": "question"}, {"role": "assistant", "content": "answer"}
    (folder / "chat.json").write_text(json.dumps({"version": 2, "messages": document}))
    _ingot(folder, "convert", "chat.json", "raw", "--out", "result")


def _texts(folder: Path) -> None:
    (folder / "raw").mkdir()
    write_texts(folder / "raw", 24, 60, random.Random(1))


def _chats(folder: Path) -> None:
    (folder / "raw").mkdir()
    write_chats(folder / "raw", 24, 15, random.Random(1))


def _clicks(folder: Path) -> None:
    head, *rows = (EXAMPLES / "ctr/impressions.csv").read_text().splitlines()
    (folder / "t.csv").write_text("\n".join([head, *rows * 40]) + "\n")
    shutil.copy(EXAMPLES / "ctr/impressions.yaml", folder / "f.yaml")


def _days(folder: Path) -> None:
    (folder / "raw").mkdir()
    for day in range(3):
        content = (EXAMPLES / "criteo/day_2").read_bytes() * 20
        (folder / f"raw/day_{day}").write_bytes(content)


def _arrays(folder: Path) -> None:
    rng = np.random.default_rng(1)
    (folder / "data").mkdir()
    for day in range(3):
        ids = rng.integers(0, 90_000, (30_000, 26), np.int32)
        np.save(folder / f"data/day_{day}_sparse.npy", ids)
        np.save(folder / f"data/day_{day}_dense.npy", np.zeros((30_000, 13), np.float32))
        np.save(folder / f"data/day_{day}_labels.npy", np.zeros((30_000, 1), np.int32))
    sizes = {"num_embeddings": [60_000] * 26, "multi_hot_sizes": [1, 3] * 13}
    (folder / "hot.json").write_text(json.dumps(sizes))


def _feeds(folder: Path) -> None:
    (folder / "raw").mkdir()
    for number in range(5):
        content = (EXAMPLES / "monolith/feed.pb").read_bytes() * 40
        (folder / f"raw/{number}.pb").write_bytes(content)


def _lake(folder: Path) -> None:
    for number in range(6):
        _write_rows(folder / f"raw/set{number}", 2, 400)
    table = pa.table({"text": [sentence(number) * 3 for number in range(500)]})
    (folder / "raw/table").mkdir()
    pq.write_table(table, folder / "raw/table/a.parquet")


CONVERT = ("convert", "m.json", "raw", "--out", "o", "--overwrite")
TOKENS = (
    *("tokens", "build", "--input-dir", "raw", "--output-prefix", "o/x", "--append-eod"),
    *("--tokenizer", TOKENIZER, "--no-progress", "--log-file", "log", "--processes"),
)
TOKENS_LAST = ("o/x.idx.tmp", "o/x.commit.tmp")
CRITEO = ("criteo", "preprocess", "--input-dir", "raw", "--out", "o", "--threads", "2")
MULTIHOT = ("criteo", "multihot", "data", "--config", "hot.json", "--out", "o")
LAKE = ("lake", "run", "raw", "--out", "o", *SURE, "--mapper", "rules", "--dedup", "exact")
RUN = ("run", "raw", "--out", "o", "--mapping", "m.json", "--tokenizer", TOKENIZER, "--yes")


def _tokens(name: str, prepare: Callable[[Path], None], processes: str) -> Job:
    words, resume = (*TOKENS, processes), ("--resume",)
    return Job(name=name, prepare=prepare, words=words, resume=resume, last=TOKENS_LAST, parts=True)


JOBS = (
    Job(name="convert", prepare=_rows, words=(*CONVERT, "--workers", "1"), small_shards=True),
    Job(
        name="convert, 2 workers",
        prepare=_rows_over_old,
        words=(*CONVERT, "--workers", "2"),
        small_shards=True,
    ),
    Job(
        name="take over",
        prepare=_rows_to_take_over,
        words=(*CONVERT, "--workers", "2"),
        small_shards=True,
    ),
    Job(name="run", prepare=_rows_over_old, words=(*RUN, "--overwrite")),
    Job(name="export", prepare=_result, words=("export", "result", "--to", "trl", "--out", "o")),
    _tokens("tokens, 1 process", _texts, "1"),
    _tokens("tokens, 2 processes", _texts, "2"),
    _tokens("chat tokens", _chats, "3"),
    Job(
        name="ctr",
        prepare=_clicks,
        words=("ctr", "build", "--table", "t.csv", "--featuremap", "f.yaml", "--out", "o"),
    ),
    Job(name="criteo", prepare=_days, words=CRITEO),
    Job(name="criteo, by columns", prepare=_days, words=(*CRITEO, "--encode", "columns")),
    Job(name="multihot", prepare=_arrays, words=(*MULTIHOT, "--overwrite")),
    Job(
        name="monolith",
        prepare=_feeds,
        words=(
            *("monolith", "convert", "raw", "o", "--from", "examplebatch", "--to", "example"),
            *("--overwrite", "--skip-bad"),
        ),
    ),
    Job(
        name="lake",
        prepare=_lake,
        words=(*LAKE, "--split", "train=0.9,valid=0.1", "--jobs", "2"),
        last=("o/catalog.parquet", "o/corpus"),
        parts=True,
    ),
)
MOMENTS = ("before the first byte", "while it wrote", "during the commit", "after the commit")


def table(ends: dict[str, Counter[str]]) -> str:
    """The figures by job and moment."""
    rows = [(name, end.total(), *(end[one] for one in MOMENTS)) for name, end in ends.items()]
    rows.append(("all", *(sum(column) for column in list(zip(*rows, strict=True))[1:])))
    heads = ("job", "kills", *MOMENTS)
    return "\n".join(
        f"{name:<22}{kills!s:>7}" + "".join(f"{one!s:>24}" for one in rest)
        for name, kills, *rest in (heads, *rows)
    )


def main() -> int:
    """Kill runs of jobs and print the figures; 1 where there are findings."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", nargs="*", default=[job.name for job in JOBS])
    parser.add_argument("--figures", type=Path)
    given = parser.parse_args()
    chosen, ends, findings = [job for job in JOBS if job.name in given.jobs], {}, []
    for job in chosen:
        with tempfile.TemporaryDirectory(prefix="kills-") as folder:
            try:
                count = -(-given.kills // len(chosen))
                ends[job.name] = check_kills(job, Path(folder), count, given.seed)
                print(table({job.name: ends[job.name]}).splitlines()[1], flush=True)  # noqa: T201
            except AssertionError as error:
                findings.append(f"{job.name}: {error}")
                print("finding", findings[-1], flush=True)  # noqa: T201
    if ends:
        print(table(ends), flush=True)  # noqa: T201
    if given.figures:
        given.figures.write_text(json.dumps({"ends": ends, "findings": findings}, indent=1))
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
