"""A first run, when nothing is compiled yet."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.converters.recsys.criteo.preprocessed import GOLDEN

RUN = """
import sys
from pathlib import Path
from ingot.converters.recsys.criteo.preprocess.job import preprocess
from ingot.converters.recsys.criteo.preprocess.inputs import find_inputs
from ingot.converters.recsys.criteo.preprocess.settings import Settings
raw, out, encode = sys.argv[1:]
settings = Settings(encode=encode, block_bytes=20_000, bucket_rows=300, threads=4)
preprocess(find_inputs(raw), settings, Path(out))
"""


@pytest.mark.long
@pytest.mark.parametrize("encode", ["stream", "columns"])
@pytest.mark.parametrize("attempt", [1, 2])
def test_in_several_threads(tmp_path: Path, encode: str, attempt: int) -> None:
    """Which numba survives only at times, where it has to compile in them: more than once."""
    words = [sys.executable, "-c", RUN, str(GOLDEN), str(tmp_path / f"out{attempt}"), encode]
    fresh = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "compiled")}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=fresh)
    assert done.returncode == 0, done.stderr
