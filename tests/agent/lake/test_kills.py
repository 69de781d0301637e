"""`kill -9` of a run over a lake at random moments, while a model is asked too.

Whatever is left, in the end there are the bytes of a run that nobody disturbed, no question that
was answered is asked again, and no process is left.
"""

import json
import math
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.lake.truth import (
    Lake,
    command,
    generated,
    run,
    script,
    snapshot,
    surroundings,
)

MORE = ("--dedup", "exact", "--split", "train=0.9,valid=0.1", "--jobs", "3")
HAIR = 1.0  # seconds in which an answer that was sent may not be kept yet


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return generated(tmp_path_factory.mktemp("lake"), os.environ.get("INGOT_KILL_SIZE", "test"))


@pytest.fixture
def model(lake: Lake) -> Iterator[Any]:
    served = script("served")
    with served.serving(served.Model(lake.replies(), latency=0.4, faults=0.3)) as model:
        yield model


def processes(home: Path) -> list[int]:
    """Processes that work in these surroundings."""
    mark, found = f"INGOT_HOME={home}".encode(), []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                held = (folder / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if mark in held:
                found.append(int(folder.name))
    return found


def killed(words: list[str], home: Path, after: float, *, group: bool) -> float | None:
    """Begin a run and kill it; the time of the kill, None where it came to its end before."""
    process = subprocess.Popen(
        words,
        env=surroundings(home),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        (os.killpg if group else os.kill)(process.pid, signal.SIGKILL)
        moment = time.time()
        process.wait()
        return moment
    return None


def left(home: Path, within: float = 20.0) -> list[str]:
    """The processes of a run that do not end soon: one that has just begun loads its modules."""
    end = time.monotonic() + within
    while (found := processes(home)) and time.monotonic() < end:
        time.sleep(0.05)
    return [f"{pid} {Path(f'/proc/{pid}/cmdline').read_bytes()[:300]!r}" for pid in found]


def asked_in_vain(model: Any, kills: list[float]) -> list[tuple[str, float]]:
    """Questions that were asked again although they were answered, and how long before a kill.

    An answer that is on its way at a kill is sent to nobody: the system takes it nevertheless.
    """
    again, answered = [], dict[str, tuple[float, float]]()
    for call in model.calls:
        if call.question in answered:
            came, sent = answered[call.question]
            near = (max(kill - sent, 0.0) for kill in kills if kill >= came - HAIR)
            passed = min(near, default=math.inf)
            again.append((f"{call.question} {call.marks} {call.first}", passed))
        if call.answered:
            answered[call.question] = (call.came, call.sent)
    return again


@pytest.mark.attack
def test_kills_at_random_moments_change_nothing(lake, model, tmp_path):
    chance = random.Random(int(os.environ.get("ATTACK_SEED", "11")))
    most = int(os.environ.get("INGOT_KILLS", "12"))
    whole = tmp_path / "whole"
    whole.mkdir()
    begun = time.monotonic()
    run(lake, whole / "out", *MORE, url=model.url)
    seconds, expected = time.monotonic() - begun, snapshot(whole / "out", spent=False)
    kills, late = list[float](), list[tuple[str, float]]()
    rounds = 0
    while len(kills) < most:
        rounds += 1
        out = tmp_path / f"round-{rounds}" / "out"
        out.parent.mkdir()
        home = out.parent / "out.home"
        model.calls.clear()
        of_round: list[float] = []
        for _ in range(chance.randint(1, 6)):
            words = command(lake.root, out, *MORE, url=model.url)
            mappings = ["--mappings", str(out / "mappings")]
            _with_mappings(lake, out)
            wait = chance.uniform(0.3, seconds * chance.choice((0.4, 1.0)))
            moment = killed([*words, *mappings], home, wait, group=chance.random() < 0.5)
            assert not left(home)
            if moment is None:
                break
            of_round.append(moment)
        run(lake, out, *MORE, url=model.url)
        assert not left(home)
        found = snapshot(out, spent=False)
        changed = [name for name in found | expected if found.get(name) != expected.get(name)]
        assert not changed, (rounds, changed[:5])
        assert not [one.name for one in out.rglob("*") if ".ingot-stage" in one.name]
        late += asked_in_vain(model, of_round)
        assert all(passed < HAIR for _, passed in late), (rounds, late)
        kills += of_round
        _told(tmp_path, kills=len(kills), rounds=rounds, seconds=seconds, late=late)


def _told(folder: Path, **told: Any) -> None:
    """What was done so far, for people who run this for long."""
    (folder / "told.json").write_text(json.dumps(told))


def _with_mappings(lake: Lake, out: Path) -> None:
    folder = out / "mappings"
    if not folder.exists():
        folder.mkdir(parents=True)
        for one in (lake.folder / "mappings").iterdir():
            (folder / one.name).write_bytes(one.read_bytes())
