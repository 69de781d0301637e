"""`kill -9` of a run at random moments: the destination is what it was, or the whole new result.

Whatever is left, the next run finishes with the bytes of a run that nobody disturbed, and leaves
nothing else behind.
"""

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

# Small shards make many places where a run can be cut; the command line has no option for them.
DRIVER = """
import sys
from ingot.converters import job
from ingot.__main__ import main
if __name__ == "__main__":
    job.SHARD_BYTES = int(sys.argv.pop(1))
    main()
"""
TOKENIZER = Path(__file__).parents[2] / "examples/tokenizer/tokenizer.json"


def tree(folder: Path) -> dict[str, bytes] | None:
    if not folder.exists():
        return None
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "run.json")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


class Scene:
    """A raw data set, two mappings for it, and how to convert it with either."""

    def __init__(self, folder: Path, *, files: int, rows: int, shard_bytes: int) -> None:
        self.folder = folder
        self.out = folder / "out"
        self.driver = folder / "driver.py"
        self.driver.write_text(DRIVER)
        self.shard_bytes = shard_bytes
        for file in range(files):
            lines = [
                json.dumps({"q": f"question {file} {row} " * 5, "a": f"answer {row}"})
                for row in range(rows)
            ]
            (folder / "raw").mkdir(exist_ok=True)
            (folder / "raw" / f"{file:02d}.jsonl").write_text("\n".join(lines))
        for name, text in (("old", "q"), ("new", ["q", "a"])):
            document = json.dumps({"version": 2, "text": text})
            (folder / f"{name}.json").write_text(document)

    def command(self, mapping: str, out: Path) -> list[str]:
        arguments = ["convert", f"{self.folder / mapping}.json", str(self.folder / "raw")]
        options = ["--out", str(out), "--overwrite", "--tokenizer", str(TOKENIZER)]
        return [sys.executable, str(self.driver), str(self.shard_bytes), *arguments, *options]

    def convert(self, mapping: str, out: Path) -> dict[str, bytes]:
        done = subprocess.run(self.command(mapping, out), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        result = tree(out)
        assert result is not None
        return result

    def kill(self, mapping: str, seconds: float) -> bool:
        """Start a run and kill it after a time; False if it was done before."""
        with subprocess.Popen(
            self.command(mapping, self.out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            time.sleep(seconds)
            process.kill()
            return process.wait() != 0


def check_kills(scene: Scene, count: int, seed: int) -> int:
    """Kill `count` runs, over no result and over an old one in turn; gives how many were cut."""
    old = scene.convert("old", scene.folder / "fresh-old")
    started = time.monotonic()
    new = scene.convert("new", scene.folder / "fresh-new")
    whole = time.monotonic() - started
    moments = random.Random(seed)
    cut = 0
    for number in range(count):
        before = None
        if number % 2:
            scene.convert("old", scene.out)
            before = old
        cut += scene.kill("new", moments.uniform(0.2, 1.0) * whole)
        left = tree(scene.out)
        assert left in (before, new)
        assert scene.convert("new", scene.out) == new
        hidden = [p.name for p in scene.folder.iterdir() if p.name.startswith(".")]
        assert hidden == []
        subprocess.run(["rm", "-r", str(scene.out)], check=True)
    return cut


def test_two_kills(tmp_path: Path) -> None:
    scene = Scene(tmp_path, files=6, rows=2000, shard_bytes=500_000)
    assert check_kills(scene, count=2, seed=1) >= 1


@pytest.mark.long
def test_twenty_kills(tmp_path: Path) -> None:
    scene = Scene(tmp_path, files=12, rows=40_000, shard_bytes=12_000_000)
    assert check_kills(scene, count=20, seed=7) >= 15
