"""Seconds and memory of the search for repeats over made-up hashes; the peer is numpy in memory.

    python benchmarks/lake/duplicates.py --records 20000000 --sets 300 --repeated 0.2

Sets have sizes of all magnitudes. A share of the records repeats one of a pool that all sets draw
from, so that pairs of sets share much. The search runs in a process of its own, whose peak of
memory is told with and without mapped files. The peer is what a script would do: all hashes in one
array, `numpy.unique`, the repeats counted; both must count alike.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from measuring import timed

CHUNK = 1 << 20
SEARCH = """
import json, sys
from pathlib import Path
from ingot.converters.lake.duplicates import find
files = {path.stem: path for path in Path(sys.argv[1]).glob("*.npy")}
found = find(files, Path(sys.argv[2]))
told = [found.sets[name] for name in sorted(found.sets)]
Path(sys.argv[2], "told.json").write_text(json.dumps(sum(one.repeated for one in told)))
"""
PEER = """
import json, sys
from pathlib import Path
import numpy as np
whole = np.concatenate([np.load(path) for path in sorted(Path(sys.argv[1]).glob("*.npy"))])
kept = np.unique(whole.view("V16")[:, 0], return_index=True)[1]
Path(sys.argv[2], "told.json").write_text(json.dumps(len(whole) - len(kept)))
"""


def generate(folder: Path, records: int, sets: int, repeated: float, seed: int) -> None:
    """Files of hashes: `records` in all."""
    rng = np.random.default_rng(seed)
    weights = rng.lognormal(0, 2, sets)
    sizes = np.floor(weights / weights.sum() * records).astype(int)
    sizes[0] += records - sizes.sum()
    pool = rng.integers(0, 256, (max(records // 20, 1), 16), np.uint8)
    for number, size in enumerate(sizes.tolist()):
        hashed = np.lib.format.open_memmap(
            folder / f"set-{number:05}.npy", "w+", np.uint8, (size, 16)
        )
        for start in range(0, size, CHUNK):
            end = min(size, start + CHUNK)
            hashed[start:end] = rng.integers(0, 256, (end - start, 16), np.uint8)
            again = start + np.flatnonzero(rng.random(end - start) < repeated)
            hashed[again] = pool[rng.integers(0, len(pool), len(again))]


def told(code: str, hashes: Path, out: Path) -> dict[str, float]:
    out.mkdir()
    seen = timed([sys.executable, "-c", code, str(hashes), str(out)], out)
    return {
        "seconds": round(seen.seconds, 1),
        "cpu_seconds": round(seen.cpu_seconds, 1),
        "memory_mb": round(seen.memory),
        "own_memory_mb": round(seen.own_memory),
        "disk_mb": round(seen.disk),
        "repeated": json.loads((out / "told.json").read_text()),
    }


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--records", type=int, default=10_000_000)
    asked.add_argument("--sets", type=int, default=300)
    asked.add_argument("--repeated", type=float, default=0.2)
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--folder", type=Path, help="for the files, some GB; else a temporary one")
    asked.add_argument("--no-peer", action="store_true")
    given = asked.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as made:
        hashes = Path(made, "hashes")
        hashes.mkdir()
        generate(hashes, given.records, given.sets, given.repeated, given.seed)
        search = told(SEARCH, hashes, Path(made, "search"))
        print(json.dumps({"records": given.records, "sets": given.sets, "search": search}))
        if not given.no_peer:
            peer = told(PEER, hashes, Path(made, "peer"))
            ratio = round(peer["seconds"] / search["seconds"], 2)
            same = peer["repeated"] == search["repeated"]
            print(json.dumps({"peer": peer, "times_faster": ratio, "counted_alike": same}))


if __name__ == "__main__":
    main()
