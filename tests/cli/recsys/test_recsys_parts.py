"""`--shard I/N` of recommendation data on the command line, and `ingot merge`."""

import json
import re
from pathlib import Path

import pytest

from tests.scale.jobs import ingot

ROOT = Path(__file__).parents[3]
SAMPLE = ROOT / "tests/golden/monolith/mono_example_sortid.pb"
CRITEO = ("criteo", "preprocess", "--input-dir", str(ROOT / "examples/criteo"), "--out", "out")
MONOLITH = ("monolith", "convert", "raw", "out", "--from", "example", "--to", "parquet")


@pytest.mark.more
@pytest.mark.parametrize(
    ("words", "phases"), [(CRITEO, 4), (MONOLITH, 2)], ids=["criteo", "monolith"]
)
def test_parts_and_their_merge(words: tuple[str, ...], phases: int, tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    for name in "abc":
        (tmp_path / "raw" / f"{name}.pb").write_bytes(SAMPLE.read_bytes())
    done = ingot(tmp_path, "merge", "out")
    assert (done.returncode, "has no parts" in done.stderr) == (1, True)
    first = ingot(tmp_path, *words, "--shard", "0/2")
    assert first.returncode == 5, first.stderr
    told = rf"part 0/2 has done its \d of 3 pieces of phase ./{phases}; others have not\n"
    assert re.match(told, first.stderr)
    assert "run all of them again for the next phase" in first.stderr
    for _ in range(phases):
        for number in (1, 0):
            done = ingot(tmp_path, *words, "--shard", f"{number}/2", "--json")
            assert done.returncode == 5, done.stderr
    assert json.loads(done.stdout).keys() == {"out", "shard", "pieces", "of"}
    assert not (tmp_path / "out").exists()
    done = ingot(tmp_path, "merge", "out")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out/manifest.json").exists()
    assert ingot(tmp_path, *words).returncode == 0  # there already
    assert not [path.name for path in tmp_path.iterdir() if "stage" in path.name]
