"""What opens a finished data set finds every number of its index that is wrong."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from ingot.converters.errors import ConversionError
from ingot.converters.megatron import indexed_dataset
from ingot.converters.megatron.indexed_dataset import document_token_counts, open_data_set

Written = Callable[..., Path]
DOCUMENTS = [[[1, 2, 3], [4]], [], [[5, 6]], []]
MASKS = [[[0, 1, 1], [0]], [], [[1, 0]], []]


def with_ending(prefix: Path, ending: str) -> Path:
    return prefix.with_name(prefix.name + ending)


def patch(path: Path, at: int, value: int, width: int) -> None:
    data = bytearray(path.read_bytes())
    data[at : at + width] = value.to_bytes(width, "little", signed=True)
    path.write_bytes(data)


@pytest.mark.parametrize("stretch", [1, 2, 1 << 20])
def test_a_whole_data_set_is_opened(
    data_set: Written, monkeypatch: pytest.MonkeyPatch, stretch: int
) -> None:
    monkeypatch.setattr(indexed_dataset, "STRETCH_NUMBERS", stretch)
    data = open_data_set(data_set(DOCUMENTS, MASKS, {"options": {"pack": 8}}))
    lengths = np.concatenate([*document_token_counts(data.tokens)])
    assert lengths.tolist() == [4, 0, 2, 0]
    assert data.packed
    assert data.masks is not None
    assert data.masks.tokens.tolist() == [0, 1, 1, 0, 1, 0]


def test_nothing_but_the_two_files_is_needed(data_set: Written) -> None:
    data = open_data_set(data_set(DOCUMENTS))
    assert (data.masks, data.meta, data.packed) == (None, {}, False)


@pytest.mark.parametrize("stretch", [2, 1 << 20])
@pytest.mark.parametrize(
    ("at", "value", "width", "problem"),
    [
        (34 + 4, -1, 4, "12 bytes, 8 expected"),
        (34 + 12, 2, 8, "sequence 0 does not begin"),
        (34 + 12 + 16, 6, 8, "sequence 2 does not begin"),
        (34 + 36, 1, 8, "the first document does not begin"),
        (34 + 36 + 8, 3, 8, "document 1 ends before it begins"),
        (34 + 36 + 32, 2, 8, "do not end with the last sequence"),
        (17, 6, 1, "12 bytes, 48 expected"),
        (18, 2**62, 8, "expected"),
    ],
)
def test_a_wrong_number_is_found(
    data_set: Written,
    monkeypatch: pytest.MonkeyPatch,
    stretch: int,
    at: int,
    value: int,
    width: int,
    problem: str,
) -> None:
    monkeypatch.setattr(indexed_dataset, "STRETCH_NUMBERS", stretch)
    prefix = data_set(DOCUMENTS)
    patch(with_ending(prefix, ".idx"), at, value, width)
    with pytest.raises(ConversionError, match=problem):
        open_data_set(prefix)


def test_lengths_below_zero_that_add_up_are_found(data_set: Written) -> None:
    prefix = data_set([[[1, 2, 3], [4]]])
    patch(with_ending(prefix, ".idx"), 34, 5, 4)
    patch(with_ending(prefix, ".idx"), 38, -1, 4)
    with pytest.raises(ConversionError, match=r"set\.idx: sequence 1 does not begin"):
        open_data_set(prefix)


def test_numbers_that_are_no_ids_are_refused(data_set: Written) -> None:
    prefix = data_set([[[1, 2, 3, 4]]])
    patch(with_ending(prefix, ".idx"), 17, 7, 1)
    with_ending(prefix, ".bin").write_bytes(bytes(16))
    with pytest.raises(ConversionError, match="float32 numbers are not token ids"):
        open_data_set(prefix)


@pytest.mark.parametrize(
    ("masks", "problem"),
    [
        ([[[0, 1, 1], [0]], [], [[1]], []], "sequence 2 is not that of the tokens"),
        ([[[0, 1, 1], [0], [1, 0]]], "another number of documents"),
        ([[[0, 1, 1, 0]], [], [[1, 0]], []], "another number of sequences"),
        ([[[0, 1, 1], [0]], [[1, 0]], [], []], "document 2 is not that of the tokens"),
    ],
)
def test_masks_of_another_shape_are_refused(data_set: Written, masks: Any, problem: str) -> None:
    with pytest.raises(ConversionError, match=rf"set\.loss_mask\.idx: {problem}"):
        open_data_set(data_set(DOCUMENTS, masks))


def test_masks_of_another_type_or_cut_are_refused(data_set: Written) -> None:
    prefix = data_set(DOCUMENTS)
    data_set(DOCUMENTS, name="set.loss_mask")
    with pytest.raises(ConversionError, match="loss masks of type uint16, uint8 expected"):
        open_data_set(prefix)
    with_ending(prefix, ".loss_mask.idx").unlink()
    with pytest.raises(ConversionError, match=r"set\.loss_mask\.idx: cannot be read"):
        open_data_set(prefix)


@pytest.mark.parametrize("content", ["{", "[1]", "\x00", "[" * 100_000])
def test_facts_that_are_none_are_refused(data_set: Written, content: str) -> None:
    prefix = data_set(DOCUMENTS)
    with_ending(prefix, ".meta.json").write_text(content)
    with pytest.raises(
        ConversionError,
        match=r"set\.meta\.json: (not |nested too deep)",
    ):
        open_data_set(prefix)


def test_facts_may_be_of_another_tool(data_set: Written) -> None:
    for meta in ({"options": 3}, {"options": {"pack": None}}, {}):
        assert not open_data_set(data_set(DOCUMENTS, meta=json.loads(json.dumps(meta)))).packed


def test_what_megatron_writes_is_opened(tmp_path: Path, megatron: ModuleType) -> None:
    builder = megatron.IndexedDatasetBuilder(str(tmp_path / "m.bin"), dtype=np.int32)
    for sequences in DOCUMENTS:
        builder.add_document([i for ids in sequences for i in ids], [len(ids) for ids in sequences])
    builder.finalize(str(tmp_path / "m.idx"))
    data = open_data_set(tmp_path / "m")
    assert [data.tokens.document(n).tolist() for n in range(4)] == [[1, 2, 3, 4], [], [5, 6], []]
