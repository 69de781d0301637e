"""Whole runs against the reference: whatever the lines, the files, the choices, the blocks."""

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as effort
from hypothesis import strategies as st

from ingot.converters.errors import ConversionError
from tests.converters.recsys.criteo import reference
from tests.converters.recsys.criteo.lines import COMPRESSED, content, days, files, stored
from tests.converters.recsys.criteo.preprocessed import check, hidden, run, tree, write
from tests.converters.recsys.criteo.reference import Choices, Raw

ONE_FOLDER = effort(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    max_examples=12,
    phases=[Phase.explicit, Phase.generate],  # to shrink whole runs takes minutes
)


@st.composite
def choices(draw: st.DrawFn) -> Choices:
    return Choices(
        dense=draw(st.sampled_from(("ln3", "min2"))),
        threshold=draw(st.sampled_from((0, 1, 2, 3, 7))),
        seed=draw(st.sampled_from((0, 1, 2**32 - 1, None))),
        compat=draw(st.sampled_from(("exact", "torchrec_f32"))),
    )


@st.composite
def ways(draw: st.DrawFn) -> dict[str, Any]:
    """What must not change the result."""
    return {
        "encode": draw(st.sampled_from(("stream", "columns"))),
        "threads": draw(st.integers(1, 4)),
        "block_bytes": draw(st.sampled_from((1, 7, 100, 1000, 1 << 20))),
        "bucket_rows": draw(st.sampled_from((1, 2, 5, 64, 1 << 20))),
    }


def settings(chosen: Choices) -> dict[str, Any]:
    """The product's names for the reference's choices."""
    return {
        "dense": chosen.dense,
        "frequency_threshold": chosen.threshold,
        "shuffle_seed": chosen.seed,
        "compat": chosen.compat,
    }


def check_run(folder: Path, parts: list[Raw], chosen: Choices, **way: Any) -> None:
    """Run and hold every file to the reference; the folder is used again and again."""
    for path in folder.iterdir():
        shutil.rmtree(path)
    raw = write(folder / "raw", parts)
    expected = reference.run([Raw(p.name, p.file, p.content, p.labelled) for p in parts], chosen)
    if not expected.stats["rows"]:
        with pytest.raises(ConversionError, match="no row can be written"):
            run(raw, folder / "out", **settings(chosen), **way)
        return
    run(raw, folder / "out", **settings(chosen), **way)
    check(folder / "out", expected)
    assert expected.stats["rows"] + len(expected.rejects) == expected.stats["lines"]
    assert hidden(folder) == []


@pytest.mark.more
@given(days(), choices(), ways())
@ONE_FOLDER
def test_days(quick: Path, parts: list[Raw], chosen: Choices, way: dict[str, Any]) -> None:
    check_run(quick, parts, chosen, **way)


@pytest.mark.more
@given(files(), files(labelled=False), choices(), ways())
@ONE_FOLDER
def test_kaggle(
    quick: Path, train: bytes, test: bytes, chosen: Choices, way: dict[str, Any]
) -> None:
    parts = [Raw("train", "train.txt", train), Raw("test", "test.txt", test, labelled=False)]
    check_run(quick, parts, chosen, **way)


@pytest.mark.parametrize("name", ["train", "test"])
def test_one_file_of_kaggle(quick: Path, name: str) -> None:
    line = b"1" + b"\t2" * 39 if name == "train" else b"2" + b"\t3" * 38
    parts = [Raw(name, f"{name}.txt", line + b"\n", labelled=name == "train")]
    check_run(quick, parts, Choices())


MIXED = [
    Raw("day_0", "day_0", content(300, 1) + b"short\n\n" + content(50, 2)),
    Raw("day_3", "day_3", b""),
    Raw("day_4", "day_4", content(200, 3).replace(b"\n", b"\r\n") + b"bad\t\xff"),
    Raw("day_11", "day_11", content(150, 4, values=5)),
]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a run over `MIXED`, which are those of the reference."""
    folder = tmp_path_factory.mktemp("mixed")
    run(write(folder / "raw", MIXED), folder / "out", frequency_threshold=2)
    check(folder / "out", reference.run(MIXED, Choices(threshold=2)))
    return tree(folder / "out")


@pytest.mark.more
@pytest.mark.parametrize("encode", ["stream", "columns"])
@pytest.mark.parametrize(
    ("threads", "block_bytes", "bucket_rows"), [(1, 1 << 30, 17), (3, 211, 1 << 20), (2, 5000, 90)]
)
def test_the_same_bytes(
    quick: Path,
    mixed: dict[str, bytes],
    encode: str,
    threads: int,
    block_bytes: int,
    bucket_rows: int,
) -> None:
    """However it is done, also the manifest: only run.json tells how it went."""
    sizes = {"block_bytes": block_bytes, "bucket_rows": bucket_rows}
    way = {"encode": encode, "threads": threads, **sizes}
    run(write(quick / "raw", MIXED), quick / "out", frequency_threshold=2, **way)
    assert tree(quick / "out") == mixed
    told = json.loads((quick / "out/run.json").read_bytes())
    assert (told["encode"], told["threads"]) == (way["encode"], way["threads"])


@pytest.mark.more
@pytest.mark.parametrize("ending", [*COMPRESSED, ".tsv", ".txt.zst"])
def test_compressed_and_named_otherwise(quick: Path, mixed: dict[str, bytes], ending: str) -> None:
    codec = "".join(one for one in COMPRESSED if one and ending.endswith(one))
    parts = [Raw(part.name, part.name + ending, stored(part, codec).content) for part in MIXED]
    run(write(quick / "raw", parts), quick / "out", frequency_threshold=2, block_bytes=999)
    told = tree(quick / "out")
    for name, there in mixed.items():
        if name in ("manifest.json", "stats.json", "rejects.jsonl"):
            continue
        assert told[name] == there, name
    assert told["rejects.jsonl"].decode().replace(f'{ending}"', '"') == (
        mixed["rejects.jsonl"].decode()
    )


def test_lines_in_one_file_or_in_more(quick: Path) -> None:
    """Ids do not depend on where a day ends."""
    rng = random.Random(5)
    rows = content(400, 6).splitlines(keepends=True)
    whole = write(quick / "whole", [Raw("day_0", "day_0", b"".join(rows))])
    run(whole, quick / "one", shuffle_seed=None)
    for number in range(3):
        cuts = sorted(rng.sample(range(400), 3))
        pieces = [rows[a:b] for a, b in zip([0, *cuts], [*cuts, 400], strict=True)]
        parts = [Raw("", f"day_{n}", b"".join(piece)) for n, piece in enumerate(pieces)]
        run(write(quick / f"raw{number}", parts), quick / f"out{number}", shuffle_seed=None)
        there, expected = tree(quick / f"out{number}"), tree(quick / "one")
        for name in expected:
            if name.startswith("vocab/"):
                assert there[name] == expected[name]
        for kind in ("dense", "labels", "sparse"):
            joined = b"".join(there[f"day_{n}_{kind}.npy"][128:] for n in range(4))
            assert joined == expected[f"day_0_{kind}.npy"][128:]
