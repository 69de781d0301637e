"""Criteo days to arrays with torchrec's own functions, in the order of its scripts.

    python benchmarks/criteo/torchrec_peer.py IN OUT [--frequency-threshold N] [--shuffle-seed N]

IN holds `day_0` to `day_N`, unpacked. `tsv_to_npys` and `sparse_to_contiguous` leave their results
in OUT/raw, `shuffle` in OUT; the seconds of each are in OUT/seconds.json. Integers become
ln(x - least + 2), which is `--dense min2` of ingot.
"""

import argparse
import contextlib
import io
import json
import time
from collections.abc import Iterator
from pathlib import Path

from torchrec.datasets.criteo import BinaryCriteoUtils


@contextlib.contextmanager
def timed(name: str, seconds: dict[str, float]) -> Iterator[None]:
    """Add the seconds of a block to `seconds`; torchrec's own progress is not shown."""
    started = time.monotonic()
    with contextlib.redirect_stdout(io.StringIO()):
        yield
    seconds[name] = time.monotonic() - started


def arrays(raw: Path, day: int) -> list[str]:
    """The paths of a day's integers, values and labels."""
    return [str(raw / f"day_{day}_{kind}.npy") for kind in ("dense", "sparse", "labels")]


def main() -> None:
    """Run all three."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("days", type=Path, metavar="IN")
    parser.add_argument("out", type=Path)
    parser.add_argument("--frequency-threshold", type=int, default=0)
    parser.add_argument("--shuffle-seed", type=int, default=0)
    given = parser.parse_args()
    count = len(list(given.days.glob("day_*")))
    raw, contiguous, seconds = given.out / "raw", given.out / "raw" / "contiguous", {}
    contiguous.mkdir(parents=True)
    utils = BinaryCriteoUtils
    with timed("tsv_to_npys", seconds):
        for day in range(count):
            utils.tsv_to_npys(str(given.days / f"day_{day}"), *arrays(raw, day))
    with timed("sparse_to_contiguous", seconds):
        sparse = [arrays(raw, day)[1] for day in range(count)]
        threshold = given.frequency_threshold
        utils.sparse_to_contiguous(sparse, str(contiguous), threshold, output_file_suffix=".npy")
    rows = {d: utils.get_shape_from_npy(arrays(raw, d)[0])[0] for d in range(count)}
    training = {d: rows[d] for d in range(count - 1)}
    with timed("shuffle", seconds):
        folders = str(raw), str(contiguous), str(given.out)
        utils.shuffle(*folders, training, days=count, random_seed=given.shuffle_seed)
    (given.out / "seconds.json").write_text(json.dumps(seconds))


if __name__ == "__main__":
    main()
