"""Damaged inputs by the thousand, each read in a worker process that a crash may take along.

    python -m tests.attack.campaign --share 0.1 --seed 1 --kinds parquet csv --figures FILE
    python -m tests.attack.campaign --case parquet:1:4711

A case is a sound input of a kind, damaged by a generator of random numbers that KIND:SEED:NUMBER
seeds. It may end in rows with counts that add up or in an error of ingot's that names the file;
whatever else comes of it is a finding. The second command repeats one case with its traceback.
"""

import argparse
import json
import os
import resource
import selectors
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.attack.kinds import Kind, damage, sound_case, source_kinds
from tests.attack.written import written_kinds

KINDS = {kind.name: kind for kind in (*source_kinds(), *written_kinds())}
CASES = 100_000
BLOCK = 250  # cases of a worker; then another one begins
CPU_SECONDS, WALL_SECONDS = 20.0, 150.0  # of one case: a guard against hangs, no measurement
MAKING_SECONDS = 600.0
ADDRESS_SPACE, MORE_MEMORY, LARGEST_FILE = 12 << 30, 1 << 30, 1 << 30


def run_case(kind: Kind, base: Path, folder: Path, seed: int, number: int) -> str:
    """Damage and check; gives how it ended. Raises whatever else than an allowed end came of it."""
    return kind.check(damage(kind, base, folder, f"{kind.name}:{seed}:{number}"))


@dataclass
class Block:
    """Consecutive cases of a kind for one worker."""

    kind: Kind
    first: int
    last: int


@dataclass
class Worker:
    """A process with its block, and the case it is at (-1: it has not begun)."""

    pid: int
    pipe: int
    block: Block
    at: int = -1
    since: float = field(default_factory=time.monotonic)
    cpu: float = 0.0
    text: bytes = b""

    def spent(self) -> float:
        """Seconds of CPU time so far."""
        try:
            return sum(psutil.Process(self.pid).cpu_times()[:2])
        except psutil.Error:
            return 0.0

    def is_over_time(self) -> bool:
        """Whether its case takes so long that it hangs."""
        wall = time.monotonic() - self.since
        return wall > WALL_SECONDS or (wall > CPU_SECONDS and self.spent() - self.cpu > CPU_SECONDS)


class Campaign:
    """Cases of some kinds, spread over workers; counts how they end and keeps the findings."""

    def __init__(self, kinds: list[Kind], cases: int, seed: int, folder: Path) -> None:
        self.seed, self.folder = seed, folder
        self.ends = {kind.name: Counter[str]() for kind in kinds}
        self.findings: list[dict[str, Any]] = []
        self._blocks = deque[Block]()
        self._workers: list[Worker] = []
        weights = sum(kind.weight for kind in kinds)
        for kind in kinds:
            self._make(kind)
            count = max(1, round(cases * kind.weight / weights))
            for first in range(0, count, BLOCK):
                self._blocks.append(Block(kind, first, min(count, first + BLOCK)))

    def run(self, workers: int) -> None:
        """Run all cases."""
        while self._blocks or self._workers:
            while self._blocks and len(self._workers) < workers:
                self._workers.append(self._start(self._blocks.popleft()))
            self._wait()

    def table(self) -> str:
        """The figures by kind."""
        heads = ("kind", "cases", "read whole", "counted", "clean errors", "findings")
        ends = ("whole", "counted", "error", "finding")
        rows = [(n, e.total(), *(e[k] for k in ends)) for n, e in self.ends.items()]
        rows.append(("all", *(sum(column) for column in list(zip(*rows, strict=True))[1:])))
        lines = [heads, *(tuple(map(str, row)) for row in rows)]
        return "\n".join(f"{first:<18}" + "".join(f"{o:>14}" for o in o_) for first, *o_ in lines)

    def _base(self, kind: Kind) -> Path:
        return self.folder / "base" / kind.name

    def _make(self, kind: Kind) -> None:
        """Make the sound input in a process of its own, and see that it is read whole."""
        pid = os.fork()
        if pid == 0:
            base, code = self._base(kind), 1
            try:
                _limit(MAKING_SECONDS)
                base.mkdir(parents=True)
                kind.make(base)
                shutil.copytree(base, self.folder / "sound" / kind.name)
                end = kind.check(sound_case(self.folder / "sound" / kind.name))
                assert end == kind.sound or not kind.sound, f"{kind.name}: {end}"
                code = 0
            except BaseException:  # noqa: BLE001 - the process ends here
                traceback.print_exc()
            finally:
                os._exit(code)
        if os.waitpid(pid, 0)[1]:
            raise RuntimeError(f"{kind.name}: the sound input is not read whole")

    def _start(self, block: Block) -> Worker:
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(read)
                self._work(block, write)
            except BaseException:  # noqa: BLE001 - the process ends here
                traceback.print_exc()
            finally:
                os._exit(0)
        os.close(write)
        return Worker(pid, read, block)

    def _work(self, block: Block, pipe: int) -> None:
        """What a worker does: cases, each told when it begins and when it has ended."""
        _limit()
        folder = self.folder / f"worker-{os.getpid()}"
        block.kind.check(sound_case(shutil.copytree(self._base(block.kind), folder)))
        top = _peak()
        for number in range(block.first, block.last):
            _tell(pipe, {"begin": number})
            try:
                end, why = (
                    run_case(block.kind, self._base(block.kind), folder, self.seed, number),
                    "",
                )
            except BaseException as error:  # noqa: BLE001 - anything is a finding
                end, why = "finding", _reason(error)
            if _peak() > top + MORE_MEMORY:
                end, why = "finding", f"memory: {_peak() >> 20:,} MiB; {end} {why}"
            _tell(pipe, {"number": number, "end": end, "why": why})
            if _peak() > top + MORE_MEMORY:
                break
        shutil.rmtree(folder, ignore_errors=True)

    def _wait(self) -> None:
        """Take what workers tell; end those that hang, replace those that have ended."""
        with selectors.DefaultSelector() as selector:
            for worker in self._workers:
                selector.register(worker.pipe, selectors.EVENT_READ, worker)
            ready = [key.data for key, _ in selector.select(1.0)]
        for worker in ready:
            text = os.read(worker.pipe, 1 << 16)
            worker.text += text
            *lines, worker.text = worker.text.split(b"\n")
            for line in lines:
                self._hear(worker, json.loads(line))
            if not text:
                self._replace(worker)
        for worker in self._workers:
            if worker.is_over_time():
                os.kill(worker.pid, signal.SIGKILL)
                self._find(worker.block, worker.at, "hang")
                worker.at = -2 - worker.at

    def _hear(self, worker: Worker, told: dict[str, Any]) -> None:
        if "begin" in told:
            worker.at, worker.since, worker.cpu = told["begin"], time.monotonic(), worker.spent()
        elif told["end"] == "finding":
            self._find(worker.block, told["number"], told["why"])
            worker.block.first, worker.at = told["number"] + 1, -1
        else:
            self.ends[worker.block.kind.name][told["end"]] += 1
            worker.block.first, worker.at = told["number"] + 1, -1

    def _replace(self, worker: Worker) -> None:
        _, status = os.waitpid(worker.pid, 0)
        os.close(worker.pipe)
        self._workers.remove(worker)
        shutil.rmtree(self.folder / f"worker-{worker.pid}", ignore_errors=True)
        block = worker.block
        if worker.at >= 0:
            self._find(block, worker.at, f"signal {os.WTERMSIG(status)}")
        elif worker.at == -1 and os.WIFSIGNALED(status):
            raise RuntimeError(f"{block.kind.name}: a worker ended by signal between two cases")
        if worker.at != -1:
            block.first = max(worker.at, -2 - worker.at) + 1
        if block.first < block.last:
            self._blocks.appendleft(block)

    def _find(self, block: Block, number: int, why: str) -> None:
        self.ends[block.kind.name]["finding"] += 1
        case = f"{block.kind.name}:{self.seed}:{number}"
        self.findings.append({"case": case, "why": why})
        print(f"finding {case} {why}", flush=True)  # noqa: T201 - nothing of it may be lost


def _limit(seconds: float = 0.0) -> None:
    """Bound what a process may take, and keep what it prints to itself."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
    signal.alarm(int(seconds))
    warnings.simplefilter("ignore")
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(0, 1)


def _tell(pipe: int, told: dict[str, Any]) -> None:
    os.write(pipe, json.dumps(told).encode() + b"\n")


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _reason(error: BaseException) -> str:
    """The error and where in ingot it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [one for one in frames if "/ingot/" in one.filename or "/converters/" in one.filename]
    at = (own or frames)[-1]
    return f"{type(error).__name__}: {str(error)[:300]!r} at {Path(at.filename).name}:{at.lineno}"


def repeat(case: str, keep: Path | None) -> str:
    """Run one case again in this process; its folder stays in `keep` if that is given."""
    name, seed, number = case.split(":")
    kind = KINDS[name]
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base"
        base.mkdir()
        kind.make(base)
        kind.check(sound_case(shutil.copytree(base, Path(folder) / "sound")))
        if keep is not None:
            damage(kind, base, keep, f"{name}:{int(seed)}:{int(number)}")
        return run_case(kind, base, Path(folder) / "case", int(seed), int(number))


def main() -> int:
    """Run a campaign or repeat a case; 1 where there are findings."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--figures", type=Path)
    parser.add_argument("--case")
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    if given.case:
        print(repeat(given.case, given.keep))  # noqa: T201
        return 0
    kinds = [KINDS[name] for name in given.kinds]
    share = given.share * sum(k.weight for k in kinds) / sum(k.weight for k in KINDS.values())
    with tempfile.TemporaryDirectory(prefix="attack-") as folder:
        campaign = Campaign(kinds, round(CASES * share), given.seed, Path(folder))
        campaign.run(given.workers)
    print(campaign.table(), flush=True)  # noqa: T201
    if given.figures:
        told = {"ends": campaign.ends, "findings": campaign.findings}
        given.figures.write_text(json.dumps(told, indent=1) + "\n")
    return int(bool(campaign.findings))


if __name__ == "__main__":
    sys.exit(main())
