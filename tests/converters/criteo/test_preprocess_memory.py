"""Memory does not grow with rows: the maps, four bytes a shuffled row, a few blocks."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.converters.criteo.lines import content
from tests.converters.criteo.preprocessed import write
from tests.converters.criteo.reference import Raw

PEAK = """
import json, resource, sys
from pathlib import Path
from ingot.converters.criteo.preprocess import preprocess
from ingot.converters.criteo.preprocessing.inputs import find_inputs
from ingot.converters.criteo.preprocessing.settings import Settings
raw, out, settings = sys.argv[1:]
preprocess(find_inputs(raw), Settings(**json.loads(settings)), Path(out))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
SMALL = {"block_bytes": 1 << 20, "bucket_rows": 5000, "threads": 2}


def peak(raw: Path, out: Path, **settings: Any) -> int:
    """KiB that a run in a process of its own held at most."""
    words = [str(raw), str(out), json.dumps({**SMALL, **settings})]
    done = subprocess.run(
        [sys.executable, "-c", PEAK, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.long
@pytest.mark.parametrize("encode", ["stream", "columns"])
@pytest.mark.parametrize("ending", ["rows", "rejects"])
def test_four_times_the_rows(quick: Path, encode: str, ending: str) -> None:
    block = content(4000, 1, values=2000)
    more = b"no row at all\n" * 10_000 if ending == "rejects" else b""
    peaks = {}
    for times in (6, 24):
        parts = [Raw("", f"day_{day}", (block + more) * times) for day in range(2)]
        raw = write(quick / f"raw{times}", parts)
        peaks[times] = peak(raw, quick / f"out{times}", encode=encode)
    assert peaks[24] < 1.05 * peaks[6], peaks


@pytest.mark.long
@pytest.mark.parametrize("filling", [b"\n", b"\t", b"\t\n", b"0123456\n"])
def test_rejects_of_every_kind_take_little(quick: Path, filling: bytes) -> None:
    """Millions of lines that are no rows behind one that is."""
    content = b"\t" * 39 + b"\n" + filling * (24_000_000 // len(filling)) + b"\n"
    if b"\n" not in filling:
        content = b"\t" * 39 + b"\n" + (filling * 900_000 + b"\n") * 26
    raw = write(quick / "raw", [Raw("", "day_0", content), Raw("", "day_1", content)])
    few = write(quick / "few", [Raw("", "day_0", b"\t" * 39 + b"\n")])
    least = peak(few, quick / "out0", block_bytes=16 << 20)
    most = peak(raw, quick / "out1", block_bytes=16 << 20)
    assert most - least < 1_500_000, (least, most)
