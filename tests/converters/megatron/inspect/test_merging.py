"""Merged data sets are what Megatron's own builder makes; nothing is lost when it cannot go on."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingot.converters.errors import ConversionError, OutputError
from ingot.converters.megatron import indexed_dataset
from ingot.converters.megatron.indexed_dataset import open_data_set
from ingot.converters.megatron.inspect.merge import merge_data_sets

Written = Callable[..., Path]
Documents = list[list[list[int]]]
A: Documents = [[[1, 2, 3], [4]], [], [[5, 6]], []]
B: Documents = [[], [[7]], [[8, 9], [10]]]


def masks_of(documents: Documents) -> Documents:
    return [[[i % 2 for i in ids] for ids in document] for document in documents]


def ending(prefix: Path, end: str) -> Path:
    return prefix.with_name(prefix.name + end)


def theirs(megatron: ModuleType, prefix: Path, parts: list[Path], dtype: Any) -> None:
    builder = megatron.IndexedDatasetBuilder(str(ending(prefix, ".bin")), dtype=dtype)
    for part in parts:
        builder.add_index(str(part))
    builder.finalize(str(ending(prefix, ".idx")))


SETS = st.lists(
    st.lists(st.lists(st.lists(st.integers(0, 9), max_size=3), max_size=3), max_size=5),
    min_size=1,
    max_size=4,
)


@settings(
    deadline=None, max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(sets=SETS, dtype=st.sampled_from(["uint16", "int32"]), stretch=st.sampled_from([1, 3, 999]))
def test_the_bytes_are_those_of_megatrons_builder(
    data_set: Written,
    megatron: ModuleType,
    tmp_path: Path,
    sets: list[Documents],
    dtype: Any,
    stretch: int,
) -> None:
    sets[0].append([[1]])  # an empty data set is an error
    parts = [data_set(d, name=f"part{n}", dtype=dtype) for n, d in enumerate(sets)]
    theirs(megatron, tmp_path / "theirs", parts, np.dtype(dtype).type)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(indexed_dataset, "STRETCH_NUMBERS", stretch)
        counts = merge_data_sets(parts, tmp_path / "ours", overwrite=True)
    for end in (".bin", ".idx"):
        assert ending(tmp_path / "ours", end).read_bytes() == (
            ending(tmp_path / "theirs", end).read_bytes()
        )
    assert counts.documents == sum(map(len, sets))


def test_what_megatron_wrote_is_merged_with_ours(
    data_set: Written, megatron: ModuleType, tmp_path: Path
) -> None:
    builder = megatron.IndexedDatasetBuilder(str(tmp_path / "m.bin"), dtype=np.uint16)
    builder.add_document([7, 8, 9], [2, 1])
    builder.finalize(str(tmp_path / "m.idx"))
    merge_data_sets([tmp_path / "m", data_set(A), tmp_path / "m"], tmp_path / "out")
    loaded = megatron.IndexedDataset(str(tmp_path / "out"))
    assert loaded.document_indices.tolist() == [0, 2, 4, 4, 5, 5, 7]
    found = [loaded[n].tolist() for n in range(len(loaded))]
    assert found == [[7, 8], [9], [1, 2, 3], [4], [5, 6], [7, 8], [9]]


def test_masks_and_facts_go_along(data_set: Written, tmp_path: Path) -> None:
    meta = {
        "kind": "sft",
        "eod_id": 0,
        "tokenizer": {"given": "t.json", "sha256": "00"},
        "options": {"pack": 8, "strip": True, "min_chars": 1},
    }
    other = meta | {"options": {"pack": 16, "strip": True, "min_chars": 2}, "eod_id": 1}
    parts = [
        data_set(A, masks_of(A), meta, name="a"),
        data_set(B, masks_of(B), other, name="b"),
    ]
    merge_data_sets(parts, tmp_path / "out")
    data = open_data_set(tmp_path / "out")
    assert data.masks is not None
    assert data.masks.tokens.tolist() == [n % 2 for n in range(1, 11)]
    assert data.packed
    told = json.loads((tmp_path / "out.meta.json").read_bytes())
    hashes = [one.pop("idx_sha256") for one in told["merged"]]
    assert len({*hashes}) == 2
    assert told == {
        "version": 1,
        "dtype": "uint16",
        "kind": "sft",
        "tokenizer": {"given": "t.json", "sha256": "00"},
        "options": {"pack": 16, "strip": True},
        "counts": {"documents": 7, "sequences": 6, "tokens": 10},
        "merged": [
            {"name": "a", "counts": {"documents": 4, "sequences": 3, "tokens": 6}},
            {"name": "b", "counts": {"documents": 3, "sequences": 3, "tokens": 4}},
        ],
    }
    assert not list(tmp_path.glob("*.tmp"))


def test_what_was_there_is_replaced_only_if_wanted(data_set: Written, tmp_path: Path) -> None:
    out = data_set(A, masks_of(A), {"eod_id": 5}, name="out")
    part = data_set(B, name="b")
    with pytest.raises(OutputError, match=r"out\.idx: exists"):
        merge_data_sets([part], out)
    merge_data_sets([part, part], out, overwrite=True)
    assert sorted(p.name for p in tmp_path.glob("out*")) == ["out.bin", "out.idx", "out.meta.json"]
    data = open_data_set(out)
    assert data.tokens.tokens.tolist() == [7, 8, 9, 10] * 2
    assert "eod_id" not in data.meta


@pytest.mark.parametrize("out", ["a", "sub/../a", "link", "a.loss_mask"])
def test_an_input_is_never_replaced(data_set: Written, tmp_path: Path, out: str) -> None:
    part = data_set(A, masks_of(A), name="a")
    (tmp_path / "sub").mkdir()
    (tmp_path / "link.idx").symlink_to(tmp_path / "a.idx")
    before = {path.name: path.read_bytes() for path in tmp_path.glob("a.*")}
    with pytest.raises(OutputError, match=r"would replace .*/a .name another prefix"):
        merge_data_sets([part], tmp_path / out, overwrite=True)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("a.*")} == before


META = {"tokenizer": {"sha256": "00"}, "options": {}}


@pytest.mark.parametrize(
    ("second", "problem"),
    [
        ({"documents": A, "dtype": "int32"}, "ids of another type than .*a: int32, uint16"),
        ({"documents": A}, "b: no loss masks, and .*a has some"),
        (
            {"documents": A, "masks": masks_of(A), "meta": {"tokenizer": {"sha256": "01"}}},
            "b: built with another tokenizer than .*a",
        ),
        (
            {"documents": A, "masks": masks_of(A), "meta": {"options": {"pack": 4}}},
            "b: packed otherwise than .*a",
        ),
        ({"documents": A, "masks": masks_of(B)}, "another number of sequences|not that of"),
    ],
)
def test_data_sets_of_other_kinds_are_not_mixed(
    data_set: Written, tmp_path: Path, second: dict[str, Any], problem: str
) -> None:
    parts = [data_set(A, masks_of(A), META, name="a"), data_set(**second, name="b")]
    with pytest.raises(ConversionError, match=problem):
        merge_data_sets(parts, tmp_path / "out")
    assert not list(tmp_path.glob("out*"))


def test_nothing_to_merge(data_set: Written, tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="nothing to merge"):
        merge_data_sets([], tmp_path / "out")
    with pytest.raises(ConversionError, match="no tokens"):
        merge_data_sets([data_set([[], []])], tmp_path / "out")
    with pytest.raises(ConversionError, match=r"gone\.idx: cannot be read"):
        merge_data_sets([tmp_path / "gone"], tmp_path / "out")
    with pytest.raises(ConversionError, match="no tokens"):
        merge_data_sets([data_set([[], []])], tmp_path / "new" / "out")
    assert not (tmp_path / "new").exists()


def test_the_folder_of_the_result_is_made(data_set: Written, tmp_path: Path) -> None:
    out = tmp_path / "new" / "deep" / "out"
    assert merge_data_sets([data_set(A)], out).documents == len(A)
    assert {path.name for path in out.parent.iterdir()} == {"out.bin", "out.idx", "out.meta.json"}
    (tmp_path / "file").write_bytes(b"")
    for place in ("file", "file/deep"):
        with pytest.raises(OutputError, match="cannot be written"):
            merge_data_sets([data_set(A)], tmp_path / place / "out")


def test_a_multimodal_data_set_is_refused(tmp_path: Path, megatron: ModuleType) -> None:
    builder = megatron.IndexedDatasetBuilder(
        str(tmp_path / "m.bin"), dtype=np.int32, multimodal=True
    )
    builder.add_document([1, 2], [1, 1], [0, 1])
    builder.finalize(str(tmp_path / "m.idx"))
    with pytest.raises(ConversionError, match="multimodal"):
        merge_data_sets([tmp_path / "m"], tmp_path / "out")


@pytest.mark.parametrize("code", [errno.EXDEV, errno.ENOSYS])
def test_bytes_are_copied_where_the_system_cannot(
    data_set: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refused(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "copy_file_range", refused)
    merge_data_sets([data_set(A, name="a"), data_set(B, name="b")], tmp_path / "out")
    assert open_data_set(tmp_path / "out").tokens.tokens.tolist() == list(range(1, 11))


def test_a_full_disk_leaves_what_was_there(
    data_set: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    out, part = data_set(A, name="out"), data_set(B, name="b")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    monkeypatch.setattr(os, "copy_file_range", full)
    with pytest.raises(OutputError, match="No space left"):
        merge_data_sets([part], out, overwrite=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
