"""New days after old ones: vocabularies of an earlier run."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingot.converters.errors import ConversionError, OutputError, SourceError
from ingot.converters.recsys.criteo.contract import KEYS
from tests.converters.recsys.criteo import reference
from tests.converters.recsys.criteo.lines import content
from tests.converters.recsys.criteo.preprocessed import (
    arrays,
    check,
    next_ids,
    run,
    same_bits,
    tree,
    vocabularies,
    write,
)
from tests.converters.recsys.criteo.reference import Choices, Raw

DAYS = [Raw(f"day_{d}", f"day_{d}", content(80, 20 + d, values=40 + 30 * d)) for d in range(4)]
IN_ORDER: dict[str, Any] = {"shuffle_seed": None}


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over two days, rare values at id 1."""
    folder = tmp_path_factory.mktemp("old")
    run(write(folder / "raw", DAYS[:2]), folder / "out", frequency_threshold=3)
    return folder / "out"


def known(folder: Path) -> dict[str, Any]:
    """The reference's choices that stand for a folder's vocabularies."""
    return {"known": vocabularies(folder), "next_ids": next_ids(folder)}


@pytest.mark.more
@pytest.mark.parametrize("encode", ["stream", "columns"])
def test_day_after_day_as_in_one_run(quick: Path, encode: str) -> None:
    """Without a threshold."""
    way = {**IN_ORDER, "encode": encode}
    run(write(quick / "raw", DAYS), quick / "whole", **way)
    before = None
    for number, day in enumerate(DAYS):
        out = quick / f"out{number}"
        run(write(quick / f"raw{number}", [day]), out, vocab=before, **way)
        for name, array in arrays(out).items():
            assert same_bits(array, np.load(quick / "whole" / name)), name
        before = out
    assert vocabularies(quick / "out3") == vocabularies(quick / "whole")
    assert next_ids(quick / "out3") == next_ids(quick / "whole")


@pytest.mark.parametrize("encode", ["stream", "columns"])
@pytest.mark.parametrize("threshold", [0, 3, 5])
@pytest.mark.parametrize("unseen", ["new", "1"])
def test_like_the_reference(
    quick: Path, old: Path, encode: str, threshold: int, unseen: str
) -> None:
    """Values keep their ids; rare ones get one when they reach the threshold in all."""
    raw = write(quick / "raw", DAYS[2:])
    run(raw, quick / "out", encode=encode, frequency_threshold=threshold, vocab=old, unseen=unseen)
    chosen = Choices(threshold=threshold, unseen=unseen, **known(old))
    check(quick / "out", reference.run(DAYS[2:], chosen))


def test_ids_stay_where_unseen_values_get_1(quick: Path, old: Path) -> None:
    """So that a model's tables stay as they are."""
    run(write(quick / "raw", DAYS[2:]), quick / "out", vocab=old, unseen="1")
    ids = [{value: id_ for value, (id_, _) in one.items()} for one in vocabularies(old)]
    after = [{value: id_ for value, (id_, _) in one.items()} for one in vocabularies(quick / "out")]
    assert after == ids
    assert next_ids(quick / "out") == next_ids(old)
    assert (np.load(quick / "out/day_3_sparse.npy") == 1).any()


def test_ids_stay_where_unseen_values_get_new_ones(quick: Path, old: Path) -> None:
    run(write(quick / "raw", DAYS[2:]), quick / "out", vocab=old, frequency_threshold=2)
    for before, after in zip(vocabularies(old), vocabularies(quick / "out"), strict=True):
        assert list(after)[: len(before)] == list(before)
        for value, (id_, count) in before.items():
            assert after[value][1] >= count
            assert id_ == 1 or after[value][0] == id_
        given = sorted(id_ for id_, _ in after.values() if id_ != 1)
        assert given == list(range(2, 2 + len(given)))


@pytest.mark.more
@pytest.mark.parametrize("encode", ["stream", "columns"])
@pytest.mark.parametrize("unseen", ["new", "1"])
def test_broken_off_and_gone_on_with(quick: Path, old: Path, encode: str, unseen: str) -> None:
    """The log holds only what the vocabularies do not."""
    raw = write(quick / "raw", DAYS[2:])
    way = {"encode": encode, "vocab": old, "unseen": unseen, "block_bytes": 5000}
    run(raw, quick / "whole", **way)
    whole = (raw / "day_3").read_bytes()
    (raw / "day_3").write_bytes(whole + b"x" * (2 << 20))
    with pytest.raises(SourceError, match="longer than 1 MiB"):
        run(raw, quick / "out", **way)
    (raw / "day_3").write_bytes(whole)
    done = run(raw, quick / "out", **way)
    assert done.notes == ("resumed a run that had read 1 of 2 files",)
    assert tree(quick / "out") == tree(quick / "whole")


def test_not_over_itself(quick: Path) -> None:
    """Replaced, a second run of the same command would count its own rows again."""
    from ingot.converters.recsys.criteo.preprocess.inputs import find_inputs
    from ingot.converters.recsys.criteo.preprocess.job import preprocess
    from ingot.converters.recsys.criteo.preprocess.settings import Settings

    run(write(quick / "raw0", DAYS[:1]), quick / "out")
    before = (quick / "out/manifest.json").read_bytes()
    inputs = find_inputs(str(write(quick / "raw1", DAYS[1:2])))
    with pytest.raises(OutputError, match="choose another folder"):
        preprocess(inputs, Settings(vocab=quick / "out"), quick / "out", overwrite=True)
    assert (quick / "out/manifest.json").read_bytes() == before


def test_another_vocabulary_is_another_run(quick: Path, old: Path) -> None:
    raw = write(quick / "raw", DAYS[2:3])
    run(raw, quick / "out", vocab=old)
    copied = shutil.copytree(old, quick / "old")
    assert run(raw, quick / "out", vocab=copied).already_done
    run(write(quick / "more", DAYS[:1]), quick / "other")
    with pytest.raises(Exception, match="other vocabularies to begin with"):
        run(raw, quick / "out", vocab=quick / "other")


def replaced(column: str, values: list[int]) -> Any:
    """Puts other values into a column of a vocabulary."""

    def damage(path: Path) -> None:
        table = pq.read_table(path)
        at = table.schema.names.index(column)
        array = pa.array(values + table[column].to_pylist()[len(values) :], table.schema[at].type)
        changed = table.set_column(at, table.schema.field(at), array)
        metadata = pq.read_metadata(path).metadata
        pq.write_table(changed.replace_schema_metadata(metadata), path)

    return damage


def without_metadata(path: Path) -> None:
    pq.write_table(pq.read_table(path).replace_schema_metadata(None), path)


def first_rows(path: Path) -> None:
    metadata = pq.read_metadata(path).metadata
    pq.write_table(pq.read_table(path).slice(0, 2).replace_schema_metadata(metadata), path)


DAMAGES = {
    "gone": (lambda path: path.unlink(), "this vocabulary does not exist|cannot be read"),
    "a folder": (lambda path: path.unlink() or path.mkdir(), "cannot be read|is not a vocabulary"),
    "cut": (lambda path: path.write_bytes(path.read_bytes()[:-30]), "is not a vocabulary"),
    "empty": (lambda path: path.write_bytes(b""), "is not a vocabulary"),
    "text": (lambda path: path.write_text("value,id\n1,2\n"), "is not a vocabulary"),
    "another table": (
        lambda path: pq.write_table(pa.table({"a": [1]}), path),
        "is not a vocabulary",
    ),
    "no metadata": (without_metadata, "is not a vocabulary"),
    "a value twice": (replaced("value", [7, 7]), "is damaged"),
    "an id twice": (replaced("id", [5, 5]), "is damaged"),
    "an id that is none": (replaced("id", [0]), "is damaged"),
    "an id below none": (replaced("id", [-1]), "is damaged"),
    "another column's": (
        lambda path: shutil.copy(path.with_name("cat_3.parquet"), path),
        "metadata are not those of cat_4",
    ),
    "its end gone": (first_rows, "is damaged"),
    "an id to come": (replaced("id", [2**31 - 1]), "is damaged"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged(quick: Path, old: Path, damage: str) -> None:
    folder = shutil.copytree(old, quick / "old")
    harm, said = DAMAGES[damage]
    harm(folder / "vocab/cat_4.parquet")
    (folder / "manifest.json").unlink()  # which would tell that it was changed
    raw = write(quick / "raw", DAYS[2:3])
    with pytest.raises(SourceError, match=said) as failed:
        run(raw, quick / "out", vocab=folder)
    assert failed.value.where.endswith("cat_4.parquet")
    assert not (quick / "out").exists()


def test_changed_since_it_was_written(quick: Path, old: Path) -> None:
    folder = shutil.copytree(old, quick / "old")
    path = folder / "vocab/cat_4.parquet"
    content = bytearray(path.read_bytes())
    content[10] ^= 1
    path.write_bytes(content)
    with pytest.raises(SourceError, match="was changed since the run"):
        run(write(quick / "raw", DAYS[2:3]), quick / "out", vocab=folder)


def test_no_vocabulary_and_no_new_ids() -> None:
    from ingot.converters.recsys.criteo.preprocess.settings import Settings

    with pytest.raises(ConversionError, match="needs `vocab`"):
        Settings(unseen="1")


def test_what_is_saved(old: Path) -> None:
    for at, key in enumerate(KEYS):
        path = old / f"vocab/{key}.parquet"
        table = pq.read_table(path)
        assert table.schema.names == ["value", "id", "count"]
        assert [str(one) for one in table.schema.types] == ["uint32", "int32", "int64"]
        told = json.loads(pq.read_metadata(path).metadata[b"ingot.criteo"])
        assert told["column"] == key
        assert told["frequency_threshold"] == 3
        assert told["next_id"] == next_ids(old)[at]
        rare = [row for row in table.to_pylist() if row["id"] == 1]
        assert all(row["count"] < 3 for row in rare)
