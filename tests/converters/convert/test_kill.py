"""`kill -9` of a run at random moments: the destination is what it was, or the whole new result.

Whatever is left, the next run finishes with the bytes of a run that nobody disturbed, and leaves
nothing else behind.
"""

import json
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

# Small shards make many places where a run can be cut.
DRIVER = """
import json, sys
from pathlib import Path
from ingot.converters.convert import job
from ingot.converters.mapping.bind import bind
from ingot.converters.sources import open_source
if __name__ == "__main__":
    mapping, source, out, tokenizer = map(Path, sys.argv[1:5])
    job.SHARD_BYTES = 150_000
    workers = int(sys.argv[5])
    options = job.ConvertOptions(overwrite=True, tokenizer=tokenizer, workers=workers)
    document = json.loads(mapping.read_text())
    job.convert(open_source(str(source)), bind(document, ()), out, options)
"""
TOKENIZER = Path(__file__).parents[3] / "examples/tokenizer/tokenizer.json"


def tree(folder: Path) -> dict[str, bytes] | None:
    if not folder.exists():
        return None
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "run.json")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


class Scene:
    """A raw data set, two mappings for it, and how to convert it with either.

    With `workers` None by `ingot run`, else by a small driver that cuts the work into many shards.
    """

    def __init__(self, folder: Path, *, files: int, rows: int, workers: int | None) -> None:
        self.folder = folder
        self.out = folder / "out"
        self.workers = workers
        (folder / "driver.py").write_text(DRIVER)
        self.tokenizer = str(shutil.copy(TOKENIZER, folder))
        (folder / "raw").mkdir()
        for file in range(files):
            lines = [
                json.dumps({"q": f"question {file} {row} " * 5, "a": f"answer {row}"})
                for row in range(rows)
            ]
            (folder / "raw" / f"{file:02d}.jsonl").write_text("\n".join(lines))
        for name, text in (("old", "q"), ("new", ["q", "a"])):
            document = json.dumps({"version": 2, "text": text})
            (folder / f"{name}.json").write_text(document)

    def command(self, mapping: str, out: Path) -> list[str]:
        file, source = str(self.folder / f"{mapping}.json"), str(self.folder / "raw")
        if self.workers:
            driver = str(self.folder / "driver.py")
            arguments = [file, source, str(out), self.tokenizer, str(self.workers)]
            return [sys.executable, driver, *arguments]
        run = [sys.executable, "-m", "ingot", "run", source, "--out", str(out), "--mapping", file]
        return [*run, "--tokenizer", self.tokenizer, "--yes", "--overwrite"]

    def convert(self, mapping: str, out: Path) -> dict[str, bytes]:
        done = subprocess.run(self.command(mapping, out), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        result = tree(out)
        assert result is not None
        return result

    def left_behind(self, committed: bool) -> str:
        """How far the run was that has just been cut."""
        if committed:
            return "result in place"
        stages = [path for path in self.folder.iterdir() if ".ingot-stage-" in path.name]
        if not stages:
            return "nothing staged"
        if list(stages[0].glob("result/tokens/*")):
            return "tokens"
        shards = [path for path in stages[0].glob("work/*") if path.name[0] != "."]
        return "some shards" if shards else "no shard yet"

    def kill(self, mapping: str, seconds: float) -> bool:
        """Start a run and kill it after a time; False if it was done before."""
        with subprocess.Popen(
            self.command(mapping, self.out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            time.sleep(seconds)
            process.kill()
            return process.wait() != 0


def check_kills(scene: Scene, count: int, seed: int) -> list[str]:
    """Cut `count` runs, over an old result and over none in turn; gives what each cut left.

    A run that ended before it was killed is checked too, but is no cut: how long a run takes
    depends on what else the machine does, so more are tried until `count` were really cut.
    """
    started = time.monotonic()
    new = scene.convert("new", scene.folder / "fresh")
    whole = time.monotonic() - started
    moments = random.Random(seed)
    cuts: list[str] = []
    for number in range(4 * count):
        before = None if number % 2 else scene.convert("old", scene.out)
        cut = scene.kill("new", moments.uniform(0.05, 1.0) * whole)
        left = tree(scene.out)
        assert left in (before, new)
        if cut:
            cuts.append(scene.left_behind(left == new))
        assert scene.convert("new", scene.out) == new
        hidden = [path.name for path in scene.folder.iterdir() if path.name.startswith(".")]
        assert hidden == []
        shutil.rmtree(scene.out)
        if len(cuts) == count:
            return cuts
    raise AssertionError(f"only {len(cuts)} of {4 * count} runs were cut")


def test_a_kill(tmp_path: Path) -> None:
    scene = Scene(tmp_path, files=6, rows=600, workers=1)
    assert len(check_kills(scene, count=1, seed=3)) == 1


@pytest.mark.long
@pytest.mark.parametrize("workers", [2, None])
def test_twenty_kills(tmp_path: Path, workers: int | None) -> None:
    # Large enough that starting up and sampling are a small part of `ingot run`.
    files, rows = (12, 5_000) if workers else (4, 40_000)
    scene = Scene(tmp_path, files=files, rows=rows, workers=workers)
    cuts = check_kills(scene, count=20, seed=7)
    print(Counter(cuts))  # noqa: T201 - where the cuts fell, shown with `-rP`
    # Kills that fell before the work began show little.
    assert cuts.count("nothing staged") <= 10
