"""Memory does not follow the size of a stream."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.more

GOLDEN = Path(__file__).parents[4] / "golden" / "monolith"
RUN = """
import sys
from ingot.converters.recsys.monolith.convert.job import convert
from ingot.converters.recsys.monolith.convert.settings import Settings
from ingot.converters.convert.shard import peak_rss
source, out, kind, target, warm = sys.argv[1:]
settings = Settings(source=kind, target=target)
convert(warm, out, settings, overwrite=True)  # kernels, libraries
before = peak_rss()
done = convert(source, out, settings, overwrite=True)
print(before, peak_rss(), done.counts.written)
"""
CASES = [
    ("mono_examplebatch_sortid.pb", "examplebatch", "example"),
    ("mono_examplebatch_sortid.pb", "examplebatch", "examplebatch"),
    ("mono_example_sortid.pb", "example", "example"),
    ("mono_example_sortid.pb", "example", "parquet"),
]


def grown(folder, name, kind, target, size, warm):
    """Bytes that a conversion of a stream takes more than one of a smaller stream; rows."""
    golden = (GOLDEN / name).read_bytes()
    source = {}
    for key, wanted in (("big", size), ("warm", warm)):
        source[key] = folder / key
        with source[key].open("wb") as stream:
            for _ in range(-(-wanted // len(golden))):
                stream.write(golden)
    words = [source["big"], folder / "out", kind, target, source["warm"]]
    done = subprocess.run(
        [sys.executable, "-c", RUN, *map(str, words)], check=True, capture_output=True, text=True
    )
    before, after, rows = map(int, done.stdout.split())
    return after - before, rows, -(-size // len(golden)) * 51


def test_a_larger_stream_takes_no_more(tmp_path):
    more, rows, expected = grown(tmp_path, *CASES[-1], 64 << 20, 32 << 20)
    assert rows == expected
    assert more < 32 << 20


@pytest.mark.long
@pytest.mark.parametrize(("name", "kind", "target"), CASES)
def test_a_gigabyte_takes_no_more(name, kind, target, tmp_path):
    more, rows, expected = grown(tmp_path, name, kind, target, 1 << 30, 100 << 20)
    assert rows == expected
    assert more < 100 << 20
