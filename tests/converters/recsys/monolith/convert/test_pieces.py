"""Conversions in pieces: the bytes of a conversion as a whole, whoever does the pieces."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ingot.converters.errors import OutputError, PartDone, SourceError
from ingot.converters.output.sharding import JobShard, Spread
from ingot.converters.progress import Progress
from ingot.converters.recsys.monolith.convert.job import convert
from ingot.converters.recsys.monolith.convert.settings import Filters, LabelTest, Settings, Target
from ingot.schemas.monolith.example_pb2 import Example


def example(number: int, name: str, *, ident: int = 0) -> bytes:
    """One Example, with features of names and kinds that depend on the stream."""
    one = Example(label=[number % 2])
    one.line_id.uid, one.line_id.req_time, one.line_id.sample_rate = number, 5, 1.0
    for feature in (name, "shared", name):
        one.named_feature.add(name=feature, id=ident).feature.fid_v2_list.value.append(number)
    if number % 3 == 0:
        one.named_feature.add(name="early").feature.float_list.value.append(number / 2)
    if number % 4 == 0:  # stands before features that other rows have first
        del one.named_feature[:2]
        one.named_feature.add(name=name).feature.int64_value = number
    return one.SerializeToString()


def frames(messages: list[bytes]) -> bytes:
    return b"".join(bytes(8) + len(m).to_bytes(8, "little") + m for m in messages)


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """Five streams: their features differ, one has bad records, one is empty."""
    folder = tmp_path / "raw"
    (folder / "day=1").mkdir(parents=True)
    streams = {"day=1/a": ["x", "y"], "b": ["y", "z"], "c": ["z", "x"], "d": ["late"], "e": []}
    for at, (name, features) in enumerate(streams.items()):
        messages = [example(n, f, ident=at // 2) for f in features for n in range(9 + at)]
        if name == "c":
            messages[3:3] = [b"\xff\xff\xff", b"\x0a\x50"]
        (folder / f"{name}.pb").write_bytes(frames(messages))
    return folder


def tree(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "run.json")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def do_part(raw: Path, out: Path, settings: Settings, number: int, count: int) -> PartDone:
    with pytest.raises(PartDone) as ended:
        convert(str(raw), f"{out}/", settings, spread=Spread(shard=JobShard(number, count)))
    return ended.value


WAYS: list[dict[str, Any]] = [
    {"target": "example"},
    {"target": "examplebatch", "batch_size": 4, "out_compression": "zstd"},
    {"target": "parquet"},
    {
        "target": "parquet",
        "filters": Filters(
            labels=(LabelTest.parse("0>=1"),), features=("x", "shared", "late", "none")
        ),
    },
    {"target": "example", "require_line_id": True, "filters": Filters(drop_features=("y", "no"))},
]


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("count", [1, 3, 7])
def test_parts_make_what_one_run_makes(raw: Path, way: dict[str, Any], count: int) -> None:
    def settings() -> Settings:
        filters = replace(way.get("filters", Filters()), matched=set())
        return Settings(source="example", skip_bad=True, **{**way, "filters": filters})

    whole, out = raw.parent / "whole", raw.parent / "out"
    expected = convert(str(raw), f"{whole}/", settings())
    merge = Spread(shard=JobShard())
    phase = do_part(raw, out, settings(), 0, count).phase
    assert phase == ("1/2" if way["target"] == "parquet" and count > 1 else None)
    if count > 1:
        with pytest.raises(OutputError, match="pieces are not done"):
            convert(str(raw), f"{out}/", settings(), spread=merge)
    for _ in range(2):
        for number in range(count):
            ended = do_part(raw, out, settings(), number, count)
    assert (ended.phase, ended.whole) == (None, 5)
    assert not out.exists()
    done = convert(str(raw), f"{out}/", settings(), spread=merge)
    assert tree(out) == tree(whole)
    assert done.figures() == expected.figures()
    assert expected.unmatched == tuple({"none", "no"} & {*expected.unmatched})


@pytest.mark.more
def test_processes_make_what_one_run_makes(raw: Path) -> None:
    settings, whole, out = (
        Settings(source="example", skip_bad=True, target="parquet"),
        raw.parent / "whole",
        raw.parent / "out",
    )
    expected = convert(str(raw), f"{whole}/", settings)
    seen: list[Progress] = []
    again = convert(str(raw), f"{out}/", settings, progress=seen.append, spread=Spread(workers=2))
    assert tree(out) == tree(whole)
    assert again.figures() == expected.figures()
    last = {one.stage: (one.rows, one.shards_done) for one in seen}
    assert last == dict.fromkeys(("convert", "rewrite"), (expected.counts.rows, 5))


@pytest.mark.parametrize("target", ["example", "parquet"])
def test_a_conversion_that_was_interrupted_goes_on(raw: Path, target: Target) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.shards_done == 2:
            raise KeyboardInterrupt

    settings = Settings(source="example", skip_bad=True, target=target)
    whole, out, seen = raw.parent / "whole", raw.parent / "out", list[Progress]()
    expected = convert(str(raw), f"{whole}/", settings)
    with pytest.raises(KeyboardInterrupt):
        convert(str(raw), f"{out}/", settings, progress=interrupt)
    assert not out.exists()
    again = convert(str(raw), f"{out}/", settings, progress=seen.append)
    assert tree(out) == tree(whole)
    assert again.figures() == expected.figures()
    converted = [one.rows for one in seen if one.stage == "convert"]
    assert 0 < max(converted) < expected.counts.rows


def test_tables_are_written_again_where_the_first_rows_lack_columns(raw: Path) -> None:
    settings = Settings(source="example", skip_bad=True, target="parquet")
    for place, stages in (("raw", {"convert", "rewrite"}), ("raw/b.pb", {"convert"})):
        seen: list[Progress] = []
        where, out = raw.parent / place, raw.parent / f"out-{len(stages)}"
        done = convert(str(where), f"{out}/", settings, progress=seen.append)
        assert {one.stage for one in seen} == stages
        assert max(one.rows for one in seen) == done.counts.rows


def test_what_cannot_be_divided(raw: Path, tmp_path: Path) -> None:
    settings = Settings(source="example", target="example")
    for where, out in (("-", "x.pb"), (str(raw), "-"), (str(raw / "b.pb"), str(tmp_path / "x"))):
        with pytest.raises(OutputError, match="one stream"):
            convert(where, out, settings, spread=Spread(shard=JobShard(0, 2)))


def test_a_bad_record_ends_the_part_that_has_it(raw: Path, tmp_path: Path) -> None:
    settings, out = Settings(source="example", target="example"), tmp_path / "out"
    with pytest.raises(SourceError, match=r"c\.pb"):
        convert(str(raw), f"{out}/", settings, spread=Spread(shard=JobShard(0, 1)))
    with pytest.raises(OutputError, match="4 of 5 pieces are not done, the first is 1"):
        convert(str(raw), f"{out}/", settings, spread=Spread(shard=JobShard()))
