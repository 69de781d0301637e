"""Memory does not grow with rows: the maps, four bytes a shuffled row, a few blocks."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.converters.recsys.criteo.lines import content
from tests.converters.recsys.criteo.preprocessed import write
from tests.converters.recsys.criteo.reference import Raw

PEAK = """
import json, sys
from pathlib import Path
from ingot.converters.recsys.criteo.preprocess.job import preprocess
from ingot.converters.recsys.criteo.preprocess.inputs import find_inputs
from ingot.converters.recsys.criteo.preprocess.settings import Settings
raw, out, settings = sys.argv[1:]
preprocess(find_inputs(raw), Settings(**json.loads(settings)), Path(out))
status = Path("/proc/self/status").read_text()
print(status.split("VmHWM:")[1].split()[0])
"""
# Not resource.getrusage: what it tells begins with the memory of the process that started this one.
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
    more = b"no row at all\n" * 100 if ending == "rejects" else b""
    peaks = {}
    for times in (10, 40):
        parts = [Raw("", f"day_{day}", (block + more) * times) for day in range(2)]
        parts.append(Raw("", "day_2", block))
        raw = write(quick / f"raw{times}", parts)
        peaks[times] = peak(raw, quick / f"out{times}", encode=encode)
    assert peaks[40] < 1.05 * peaks[10], peaks


@pytest.mark.long
def test_rejects_take_little(quick: Path) -> None:
    """A million lines that are no rows, in one block, behind one that is."""
    few = write(quick / "few", [Raw("", "day_0", b"\t" * 39 + b"\n")])
    many = write(quick / "many", [Raw("", "day_0", b"\t" * 39 + b"\n" * 1_000_000)])
    least = peak(few, quick / "out0", block_bytes=16 << 20)
    most = peak(many, quick / "out1", block_bytes=16 << 20)
    assert most - least < 100_000, (least, most)
