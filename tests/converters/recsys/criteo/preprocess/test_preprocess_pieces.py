"""Runs in pieces: the bytes of a run as a whole, whoever does the pieces."""

from pathlib import Path
from typing import Any

import pytest

from ingot.converters.errors import ConversionError, OutputError, PartDone
from ingot.converters.output.identity import CommittedResult
from ingot.converters.output.sharding import JobShard, Spread
from ingot.converters.progress import Progress
from ingot.converters.recsys.criteo.contract import KEYS
from ingot.converters.recsys.criteo.preprocess.inputs import find_inputs
from ingot.converters.recsys.criteo.preprocess.job import preprocess
from ingot.converters.recsys.criteo.preprocess.settings import Settings
from tests.conftest import first_more
from tests.converters.recsys.criteo.lines import COMPRESSED, content
from tests.converters.recsys.criteo.preprocessed import hidden, run, tree, write
from tests.converters.recsys.criteo.reference import Raw

BAD = b"short\n" + content(1, 8).replace(b"\t", b"\tx", 1)
DAYS = [
    Raw("day_0", "day_0", content(60, 1) + BAD),
    Raw("day_1", "day_1.gz", COMPRESSED[".gz"](content(40, 2, values=90))),
    Raw("day_2", "day_2", b""),
    Raw("day_3", "day_3", BAD + content(70, 4, values=200)),
    Raw("day_7", "day_7", content(50, 3) + BAD),
]
KAGGLE = [
    Raw("train", "train.txt", content(50, 5) + BAD),
    Raw("test", "test.txt", b"".join(line[2:] for line in content(30, 6).splitlines(True)), False),
]
SMALL: dict[str, Any] = {"block_bytes": 4000, "bucket_rows": 40, "threads": 2}
WAYS: list[dict[str, Any]] = [
    {},
    {"encode": "columns", "frequency_threshold": 3, "shuffle_seed": 5},
    {"frequency_threshold": 3, "dense": "min2", "compat": "torchrec_f32"},
    {"shuffle_seed": None, "dense": "min2"},
]


def spread_run(raw: Path, out: Path, spread: Spread, **settings: Any) -> CommittedResult:
    return preprocess(find_inputs(str(raw)), Settings(**settings), out, spread=spread)


def do_part(raw: Path, out: Path, number: int, count: int, **settings: Any) -> str | None:
    """Do a part of a job; gives the phase that other parts have not done."""
    with pytest.raises(PartDone) as ended:
        spread_run(raw, out, Spread(shard=JobShard(number, count)), **settings)
    return ended.value.phase


def merge(raw: Path, out: Path, **settings: Any) -> CommittedResult:
    return spread_run(raw, out, Spread(shard=JobShard()), **settings)


def by_parts(raw: Path, out: Path, count: int, **settings: Any) -> CommittedResult:
    """Run all parts until none waits for others, and merge."""
    while any(waits := [do_part(raw, out, one, count, **settings) for one in range(count)]):
        if waits[-1] is None:  # the first ones only had nothing to do yet
            continue
        with pytest.raises(OutputError, match="pieces are not done"):
            merge(raw, out, **settings)
    assert not out.exists()
    return merge(raw, out, **settings)


@pytest.mark.more
@pytest.mark.parametrize("parts", [DAYS, DAYS[:1], KAGGLE], ids=["days", "day", "kaggle"])
@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("count", first_more([3, 8, 1], 2))
def test_parts_make_what_one_run_makes(
    quick: Path, parts: list[Raw], way: dict[str, Any], count: int
) -> None:
    raw, settings = write(quick / "raw", parts), {**SMALL, **way}
    expected = run(raw, quick / "whole", **settings)
    done = by_parts(raw, quick / "out", count, **settings)
    assert tree(quick / "out") == tree(quick / "whole")
    assert (done.manifest, done.stats) == (expected.manifest, expected.stats)
    assert hidden(quick) in ([], [".out.ingot-lock"])


@pytest.mark.more
@pytest.mark.parametrize("unseen", ["new", "1"])
@pytest.mark.parametrize("threshold", [0, 4])
def test_vocabularies_are_continued(quick: Path, unseen: str, threshold: int) -> None:
    first, raw = write(quick / "first", DAYS[:2]), write(quick / "raw", DAYS[2:])
    run(first, quick / "known", frequency_threshold=3, **SMALL)
    settings = {"vocab": quick / "known", "unseen": unseen, "frequency_threshold": threshold}
    run(raw, quick / "whole", **SMALL, **settings)
    by_parts(raw, quick / "out", 2, **SMALL, **settings)
    assert tree(quick / "out") == tree(quick / "whole")


@pytest.mark.more
def test_processes_make_what_one_run_makes(quick: Path) -> None:
    raw = write(quick / "raw", DAYS)
    run(raw, quick / "whole", **SMALL)
    seen, spread = list[Progress](), Spread(runner="processes", workers=2)
    done = preprocess(
        find_inputs(str(raw)), Settings(**SMALL), quick / "out", progress=seen.append, spread=spread
    )
    assert tree(quick / "out") == tree(quick / "whole")
    assert hidden(quick) == []
    rows, last = done.stats["rows"], {one.stage: one.rows for one in seen}
    shuffled = last.pop("write")  # the last part keeps its order
    assert last == {"read": rows, "columns": rows * len(KEYS), "shuffle": rows}
    assert 0 < shuffled < rows


@pytest.mark.more
def test_phases_of_a_shuffled_run(quick: Path) -> None:
    raw, out = write(quick / "raw", DAYS), quick / "out"
    assert do_part(raw, out, 0, 2) == "1/4"
    assert do_part(raw, out, 1, 2) == "2/4"
    assert do_part(raw, out, 0, 2) == "3/4"
    assert do_part(raw, out, 1, 2) is None
    with pytest.raises(OutputError, match="pieces are not done"):
        merge(raw, out)
    assert do_part(raw, out, 0, 2) is None
    merge(raw, out)


def test_parts_of_a_file_that_changed_are_those_of_another_job(quick: Path) -> None:
    raw, out = write(quick / "raw", DAYS), quick / "out"
    do_part(raw, out, 0, 1)
    (raw / "day_0").write_bytes(content(45, 9, values=70))
    for way in (merge, do_part):
        with pytest.raises(
            OutputError, match=r"another job lie there: inputs\.files\.day_0\.bytes"
        ):
            way(raw, out) if way is merge else way(raw, out, 0, 1)
    assert not out.exists()


def test_no_row_at_all(quick: Path) -> None:
    raw = write(quick / "raw", [Raw("day_0", "day_0", b"short\n"), Raw("day_1", "day_1", b"")])
    with pytest.raises(ConversionError, match="no row can be written: all 1 lines are rejects"):
        do_part(raw, quick / "out", 0, 1)
