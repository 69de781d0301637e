"""`kill -9` of preprocessing, in a process of its own: whatever is left, the next run makes the
bytes of a run that nobody disturbed, and leaves nothing else behind.
"""

import json
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.converters.recsys.criteo.lines import content
from tests.converters.recsys.criteo.preprocessed import hidden, run, tree, write
from tests.converters.recsys.criteo.reference import Raw

STOPPING = Path(__file__).with_name("stopping.py")
WAYS: list[dict[str, Any]] = [
    {"encode": "stream"},
    {"encode": "columns", "frequency_threshold": 3},
    {"encode": "stream", "frequency_threshold": 2, "dense": "min2", "compat": "torchrec_f32"},
    {"encode": "columns", "shuffle_seed": None},
]


class Scene:
    """Raw files of some days, and runs over them in processes of their own."""

    def __init__(self, folder: Path, rows: int, **settings: Any) -> None:
        self.folder, self.settings, self.out = folder, settings, folder / "out"
        parts = [Raw("", f"day_{d}", content(rows, d, values=rows)) for d in range(3)]
        parts[1] = Raw("", "day_1", parts[1].content + b"no row\n" * 5)
        self.raw = write(folder / "raw", parts)
        run(self.raw, folder / "fresh", **settings)
        self.expected = tree(folder / "fresh")

    def start(self, step: int = 0) -> "subprocess.Popen[str]":
        words = [str(self.raw), str(self.out), json.dumps(self.settings), str(step)]
        command = [sys.executable, str(STOPPING), *words]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def steps(self) -> int:
        """Changes of files in a whole run."""
        told, errors = self.start().communicate()
        assert not errors
        self.check()
        return int(told)

    def check(self) -> None:
        """What the next run makes of it; the destination is empty afterwards."""
        before = tree(self.out) if self.out.exists() else self.expected
        assert before == self.expected
        run(self.raw, self.out, **self.settings)
        assert tree(self.out) == self.expected
        assert hidden(self.folder) == []
        shutil.rmtree(self.out)

    def reached(self) -> str:
        """How far the run was that has just been cut."""
        stages = [path for path in self.folder.iterdir() if ".ingot-stage-" in path.name]
        if self.out.exists() or not stages:
            return "in place" if self.out.exists() else "nothing"
        for step in ("write", "shuffle", "columns", "read"):
            if any((stages[0] / "work").glob(f"{step}-*")):
                return step
        return "begun"


@pytest.mark.attack
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_killed_at_any_change(quick: Path, way: dict[str, Any]) -> None:
    """At a change of every kind, thirty spread over the run, some of them twice."""
    scene = Scene(quick, 120, block_bytes=8000, bucket_rows=50, threads=2, **way)
    steps = scene.steps()
    assert steps > 300
    cuts: Counter[str] = Counter()
    for number in range(30):
        step = 1 + number * steps // 30
        for at in (step, step // 2)[: 1 + number % 2]:
            process = scene.start(at or 1)
            _, errors = process.communicate()
            assert process.returncode in (-signal.SIGKILL, 0), errors
            cuts[scene.reached()] += 1
        scene.check()
    print(dict(cuts))  # noqa: T201 - where the cuts fell, shown with `-rP`
    assert {"begun", "read", "columns"} <= cuts.keys()
