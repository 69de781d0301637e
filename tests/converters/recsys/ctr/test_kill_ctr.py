"""`kill -9` of `ingot ctr build` at random moments: the destination is what it was, or the new one.

Whatever is left, the next run makes the bytes of a run that nobody disturbed, and leaves nothing
else behind.
"""

import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[3] / "golden/ctr"


def tree(folder: Path) -> dict[str, bytes] | None:
    if not folder.exists():
        return None
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "run.json")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


class Scene:
    """Raw files, the golden ones `times` over, and builds of them into one destination."""

    def __init__(self, folder: Path, times: int) -> None:
        self.folder, self.out = folder, folder / "out"
        self.featuremap = str(GOLDEN / "featuremap_small.yaml")
        self.raw = {}
        for role, name in (("skeleton", "sample_skeleton"), ("common", "common_features")):
            content = (GOLDEN / f"{name}_train.csv").read_bytes()
            path = folder / f"{role}.csv"
            path.write_bytes(content * (times if role == "skeleton" else 1))
            self.raw[role] = str(path)

    def command(self, funnel: str, out: Path) -> list[str]:
        raw = [word for role, path in self.raw.items() for word in (f"--{role}", path)]
        words = ["ctr", "build", *raw, "--featuremap", self.featuremap, "--funnel", funnel]
        return [sys.executable, "-m", "ingot", *words, "--out", str(out), "--overwrite"]

    def build(self, funnel: str, out: Path) -> dict[str, bytes]:
        done = subprocess.run(self.command(funnel, out), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        result = tree(out)
        assert result is not None
        return result

    def hidden(self) -> list[str]:
        return [path.name for path in self.folder.iterdir() if path.name.startswith(".")]

    def left_behind(self, committed: bool) -> str:
        """How far the build was that has just been cut."""
        if committed:
            return "result in place"
        stages = [path for path in self.folder.iterdir() if ".ingot-stage-" in path.name]
        if not stages:
            return "nothing staged"
        for name in ("valid", "train", "vocab"):
            if (stages[0] / "result" / name).exists():
                return name
        return "first pass"

    def kill(self, funnel: str, seconds: float) -> bool:
        """Start a build and kill it after a time; False if it was done before."""
        with subprocess.Popen(
            self.command(funnel, self.out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            time.sleep(seconds)
            process.kill()
            return process.wait() != 0


def check_kills(scene: Scene, count: int, seed: int) -> list[str]:
    """Cut `count` builds, over an old result and over none in turn; gives what each cut left.

    A build that ended before it was killed is checked too, but is no cut.
    """
    started = time.monotonic()
    new = scene.build("keep", scene.folder / "fresh")
    whole = time.monotonic() - started
    moments = random.Random(seed)
    cuts: list[str] = []
    for number in range(4 * count):
        before = None if number % 2 else scene.build("drop", scene.out)
        cut = scene.kill("keep", moments.uniform(0.35, 1.0) * whole)
        left = tree(scene.out)
        assert left in (before, new)
        if cut:
            cuts.append(scene.left_behind(left == new))
        assert scene.build("keep", scene.out) == new
        assert scene.hidden() == []
        shutil.rmtree(scene.out)
        if len(cuts) == count:
            return cuts
    raise AssertionError(f"only {len(cuts)} of {4 * count} builds were cut")


@pytest.mark.long
def test_a_kill(tmp_path: Path) -> None:
    assert len(check_kills(Scene(tmp_path, times=5), count=1, seed=1)) == 1


@pytest.mark.long
def test_twenty_kills(tmp_path: Path) -> None:
    cuts = check_kills(Scene(tmp_path, times=60), count=20, seed=7)
    print(Counter(cuts))  # noqa: T201 - where the cuts fell, shown with `-rP`
    # Kills that fell before the work began show little.
    assert cuts.count("nothing staged") <= 10
