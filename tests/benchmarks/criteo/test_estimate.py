"""The arithmetic of the estimate for the full Criteo set, on figures to be reckoned by hand."""

import json
import math

import numpy as np
import pytest

from ingot.converters.recsys.criteo.preprocess.vocabulary import Ids
from ingot.converters.sources.recognizers.criteo import DENSE, SPARSE


def point(rows: int, **more: object) -> dict[str, object]:
    made = {"mode": "stream", "threads": 2, "rows": rows, "days": 3, "training": rows * 2 // 3}
    made |= {"distinct": [rows // 10] * 26, "raw_bytes": 240.0 * rows, "own_memory": 900.0}
    made |= {"disk": rows * 170e-6, "phases": {"read": 1 + rows * 2e-6, "vocabularies": 0.5}}
    return made | more


@pytest.mark.parametrize("values", [0, 1, 716, 717, 1433, 20_000, 187_188_510, 292_775_614])
def test_slots_are_those_of_the_maps(estimate, values):
    found = estimate.slots(values)
    assert found & (found - 1) == 0
    assert int(found * 0.7) >= values
    assert found == 1024 or int(found // 2 * 0.7) < values


@pytest.mark.more
def test_slots_are_those_that_a_map_really_has(estimate):
    ids = Ids("cat_0")
    for count in (0, 716, 717, 5_000, 50_000):
        ids.ids(np.arange(ids.count, count, dtype=np.uint32))
        assert len(ids._slots) == estimate.slots(count)


def test_a_row_has_the_bytes_that_the_formats_have(estimate):
    assert estimate.READ_ROW == 4 * (1 + DENSE + SPARSE)
    assert estimate.RECORD == estimate.READ_ROW + 4  # and its place


def test_the_full_set_needs_what_was_reckoned_by_hand(estimate):
    stream = estimate.memory("stream", 2, estimate.FULL)
    # 2^29 slots for the two largest columns, with their counts, and 2^28 while they are doubled.
    counts = 4 * (292_775_614 + 227_605_432)
    assert stream.read == pytest.approx(2 * 8 * 2**29 + counts + 2 * 10.8 * 2**28)
    shuffle = pytest.approx(4.125 * 4_195_197_692 + 2 * 324 * 2**20)
    columns = estimate.memory("columns", 2, estimate.FULL)
    assert columns.read == pytest.approx(8 * 2**29 + 4 * 292_775_614 + 10.8 * 2**28)
    assert columns.shuffle == stream.shuffle == shuffle
    assert columns.peak == columns.shuffle
    assert stream.peak == stream.shuffle


def test_the_disk_of_the_full_set(estimate):
    peak = estimate.peak_disk(estimate.FULL, 2)
    assert peak["columns getting their ids"] == pytest.approx(168 * 4.373e9, rel=0.001)
    assert max(peak.values()) == peak["the last part going to the buckets"]
    assert peak["the result"] == pytest.approx(707e9, rel=0.001)
    assert estimate.moved(estimate.FULL, 1e12) == pytest.approx(6.13e12, rel=0.01)


def test_the_slope_leaves_out_what_every_run_takes(estimate):
    points = [point(rows) for rows in (1_000_000, 2_000_000, 4_000_000)]
    made = estimate.phases(points, estimate.FULL)
    assert made["read"] == pytest.approx(2e-6 * 4_373_472_329)
    assert made["vocabularies"] == 0  # the same for any number of values
    assert estimate.phases(points[:1], estimate.FULL)["read"] == pytest.approx(
        3.0 / 1e6 * 4_373_472_329
    )


def test_a_cost_is_straight_in_the_logarithm(estimate):
    figures = [{"values": 2**k, "cell_ns": 10 * k} for k in (10, 12, 14)]
    at = estimate.curve(figures, "values", "cell_ns")
    assert [at(one) for one in (1, 2**10, 2**11, 2**14, 2**20)] == pytest.approx(
        [100, 100, 110, 140, 200]
    )
    assert estimate.curve(figures[:1], "values", "cell_ns")(2**20) == 100


def costs() -> dict[str, object]:
    maps = [{"values": 2**k, "new_ns": 99.0, "cell_ns": float(k)} for k in range(17, 26)]
    return {
        "maps": maps,
        "permutation": [{"rows": 2**k, "row_ns": 10.0 * k} for k in range(20, 26, 2)],
        "scatter": [
            {"files": 2, "row_ns": 1000.0, "sync_ms_per_file": 50.0},
            {"files": 4001, "row_ns": 1500.0, "sync_ms_per_file": 2.0},
        ],
        "threads": 2,
    }


def test_what_the_full_size_costs_more(estimate):
    more = estimate.larger(costs(), point(2**23, distinct=[2**20] * 26))
    wanted = sum(max(0.0, math.log2(one) - 20) for one in estimate.FULL.distinct)
    assert more["larger maps"] == pytest.approx(wanted * 4.373472329 / 2)
    ratio = math.log2(4_195_197_692 / (2**23 * 2 // 3))
    assert more["a larger permutation"] == pytest.approx(10 * ratio * 4.195197692)
    assert more["more files"] == pytest.approx(500 * 4.195197692)
    assert more["waiting for them"] == pytest.approx(0.002 * 4001 * 23)


def test_it_tells_every_mode_and_checks_the_formulae(estimate, tmp_path, capsys):
    points = [point(1_000_000), point(2_000_000), point(1_000_000, mode="columns")]
    for name, content in (("points", points), ("costs", costs())):
        (tmp_path / name).write_text(json.dumps(content))
    given = [str(tmp_path / "points"), "--costs", str(tmp_path / "costs"), "--disk", "700"]
    estimate.main(given)
    told = capsys.readouterr().out
    assert "stream, 2 threads: what was measured" in told
    assert "columns, 2 threads: what was measured" in told
    assert told.count("the full set, 4,373,472,329 rows: memory") == 2
    assert "at   700 MB/s" in told
    first = next(line.split() for line in told.splitlines() if line.startswith("     1,000,000"))
    assert first[1:3] == ["900", "900"]  # the smallest run is what the others are compared with
