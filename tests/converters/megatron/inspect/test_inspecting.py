"""What `inspect` says of data sets: its own, Megatron's, masked and packed ones, broken ones."""

import json
import tracemalloc
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from ingot.converters.errors import ConversionError
from ingot.converters.megatron import indexed_dataset
from ingot.converters.megatron.indexed_dataset import index_paths
from ingot.converters.megatron.inspect import inspection
from ingot.converters.megatron.inspect.inspection import EodUse, Omissions, inspect_data_set
from ingot.converters.megatron.tokenizer import load_tokenizer
from ingot.converters.megatron.tokenizer_files import load_huggingface

Written = Callable[..., Path]
DOCUMENTS = [[[5, 6, 7], [8, 0]], [], [[0, 9]], [[4]]]


@pytest.mark.parametrize("stretch", [1, 1 << 20])
def test_figures(data_set: Written, monkeypatch: pytest.MonkeyPatch, stretch: int) -> None:
    monkeypatch.setattr(indexed_dataset, "STRETCH_NUMBERS", stretch)
    seen = inspect_data_set(
        data_set(DOCUMENTS, meta={"eod_id": 0, "files": [{}, {}], "kind": "raw"})
    )
    assert (seen.version, seen.dtype, seen.code) == (1, "uint16", 8)
    assert (seen.documents, seen.empty_documents, seen.sequences, seen.tokens) == (4, 1, 4, 8)
    assert (seen.document_lengths.median, seen.document_lengths.most) == (1, 5)
    assert seen.sequence_lengths is not None
    assert seen.sequence_lengths.mean == 2.0
    assert seen.eod == EodUse(id=0, ends=1, documents=3, inside=1)
    assert seen.meta == {"eod_id": 0, "files": 2, "kind": "raw"}
    assert (seen.trained, seen.tokenizer, seen.scanned) == (None, None, 8)
    assert seen.notes == ("no tokenizer at hand: documents are shown as ids",)
    assert [sample.document for sample in seen.samples] == [0, 1, 3]
    json.dumps(asdict(seen))


def test_what_did_not_get_in_is_told_as_far_as_the_facts_tell_it(data_set: Written) -> None:
    counts = {"failed_files": 9, "rejected": 2, "short": 3, "long": 4}
    seen = inspect_data_set(data_set(DOCUMENTS, meta={"counts": counts}))
    assert seen.left_out == Omissions(failed_files=9, rejected=2, filtered=7)
    told: dict[str, Any] = asdict(seen)
    assert told["left_out"] == {"failed_files": 9, "rejected": 2, "filtered": 7}
    for strange in (
        None,
        [],
        {},
        {"documents": 4},
        counts | {"long": "4"},
        counts | {"long": True},
    ):
        assert inspect_data_set(data_set(DOCUMENTS, meta={"counts": strange})).left_out is None


def test_only_some_tokens_are_counted_one_by_one(
    data_set: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspection, "SCANNED_TOKENS", 6)
    masks = [[[1, 0, 1], [0, 0]], [], [[0, 1]], [[1]]]
    seen = inspect_data_set(data_set(DOCUMENTS, masks, {"eod_id": 0}))
    assert seen.eod == EodUse(id=0, ends=1, documents=1, inside=1)
    assert (seen.trained, seen.scanned, seen.tokens) == (2, 6, 8)


def test_samples_show_sequences_and_what_is_trained(
    data_set: Written, tokenizer_file: Path
) -> None:
    tokenizer = load_huggingface(tokenizer_file.read_bytes())
    first, second = (tokenizer.encode(text).ids for text in ("敏捷的 fox<|im_end|>", "dog\x1b"))
    masks = [[[0] * (len(first) - 1) + [1], [1] * len(second)]]
    prefix = data_set([[first, second]], masks, {"tokenizer": {"file": str(tokenizer_file)}})
    (sample,) = inspect_data_set(prefix).samples
    assert [(one.sequence, one.text, one.trained) for one in sample.head] == [
        (0, "敏捷的 fox", False),
        (0, "<|im_end|>", True),
        (1, "dog\x1b", True),
    ]
    assert (sample.sequences, sample.left_out, sample.tail) == (2, 0, ())


def test_a_long_document_shows_its_ends(data_set: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspection, "SAMPLE_TOKENS", 8)
    prefix = data_set([[list(range(3)), [], list(range(3, 20))]])
    (sample,) = inspect_data_set(prefix, samples=9).samples
    assert [(one.sequence, one.text) for one in sample.head] == [(0, "0 1 2"), (2, "3 4 5")]
    assert (sample.left_out, [one.text for one in sample.tail]) == (12, ["18 19"])
    (whole,) = inspect_data_set(prefix, document=0).samples
    assert [one.text for one in whole.head][1].endswith("18 19")
    assert whole.left_out == 0


def test_documents_are_chosen(data_set: Written) -> None:
    prefix = data_set([[[n]] for n in range(11)])
    shown = [
        [one.document for one in inspect_data_set(prefix, samples=n).samples] for n in (0, 1, 3, 99)
    ]
    assert shown == [[], [0], [0, 5, 10], [*range(11)]]
    with pytest.raises(ConversionError, match=r"no document 11 .there are 11, from 0"):
        inspect_data_set(prefix, document=11)


@pytest.mark.parametrize("given", ["/gone.json", "hf://some/repo", "a\x00b", "x" * 5_000, "", 3])
def test_a_tokenizer_that_is_not_here_is_not_fetched(data_set: Written, given: Any) -> None:
    seen = inspect_data_set(data_set(DOCUMENTS, meta={"tokenizer": {"file": given}}))
    assert seen.tokenizer is None
    assert seen.samples[0].head[0].text == "5 6 7"


def test_what_is_odd_about_the_tokenizer_is_said(
    data_set: Written, tokenizer_file: Path, tmp_path: Path
) -> None:
    meta = {"tokenizer": {"file": "b.json", "sha256": "00"}}
    prefix = data_set(DOCUMENTS, meta=meta)
    for content in ("{}", tokenizer_file.read_text()):  # broken; another one
        (tmp_path / "b.json").write_text(content)
        seen = inspect_data_set(prefix)
        assert seen.tokenizer is None
        assert seen.notes == ("no tokenizer at hand: documents are shown as ids",)
    (note,) = inspect_data_set(prefix, tokenizer=str(tokenizer_file)).notes
    assert note.endswith("is not the tokenizer that the data set was built with")
    (tmp_path / "b.json").write_text("{}")
    with pytest.raises(ConversionError, match=r"b\.json"):
        inspect_data_set(prefix, tokenizer=str(tmp_path / "b.json"))


def test_the_tokenizer_is_found_beside_the_data_set(
    data_set: Written, tokenizer_file: Path, tmp_path: Path
) -> None:
    (tmp_path / "t.json").write_bytes(tokenizer_file.read_bytes())
    sha256 = load_tokenizer(tokenizer_file).sha256
    meta = {"tokenizer": {"file": "t.json", "sha256": sha256}}
    seen = inspect_data_set(data_set(DOCUMENTS, meta=meta))
    assert seen.tokenizer == str(tmp_path / "t.json")
    assert seen.notes == ()


def test_the_eod_of_what_others_built_is_that_of_the_tokenizer(
    data_set: Written, tokenizer_file: Path, word_tokenizer_file: Path
) -> None:
    seen = inspect_data_set(data_set(DOCUMENTS), tokenizer=str(tokenizer_file))
    assert seen.eod == EodUse(id=0, ends=1, documents=3, inside=1)
    without = inspect_data_set(
        data_set(DOCUMENTS, meta={"eod_id": None}), tokenizer=str(tokenizer_file)
    )
    assert without.eod is None


def test_what_megatron_wrote_is_read(tmp_path: Path, megatron: ModuleType) -> None:
    for dtype, code in ((np.uint8, 1), (np.int64, 5), (np.int16, 3)):
        builder = megatron.IndexedDatasetBuilder(str(tmp_path / "m.bin"), dtype=dtype)
        builder.add_document([1, 2, 3], [3])
        builder.finalize(str(tmp_path / "m.idx"))
        seen = inspect_data_set(tmp_path / "m")
        assert (seen.code, seen.dtype) == (code, np.dtype(dtype).name)
        assert seen.sequence_lengths is None


@pytest.mark.parametrize(
    ("ending", "cut", "problem"),
    [
        (".idx", 20, "not a Megatron index"),
        (".idx", -1, "bytes, .* expected"),
        (".bin", -1, "bytes, .* expected"),
        (".bin", None, r"set\.bin: cannot be read"),
        (".idx", None, r"set\.idx: cannot be read"),
    ],
)
def test_a_broken_data_set_is_told(
    data_set: Written, ending: str, cut: int | None, problem: str
) -> None:
    prefix = data_set(DOCUMENTS)
    path = index_paths(prefix)[0 if ending == ".bin" else 1]
    content = path.read_bytes()
    path.unlink()
    if cut is not None:
        path.write_bytes(content[:cut])
    with pytest.raises(ConversionError, match=problem):
        inspect_data_set(prefix)


@pytest.mark.more
def test_memory_does_not_grow_with_the_data_set(tmp_path: Path) -> None:
    """A million documents, of which no more than a stretch is held."""
    count, prefix = 1_000_000, tmp_path / "large"
    np.ones(count, np.uint16).tofile(index_paths(prefix)[0])
    header = b"MMIDIDX\x00\x00" + (1).to_bytes(8, "little") + b"\x08"
    sizes = count.to_bytes(8, "little") + (count + 1).to_bytes(8, "little")
    numbers = [np.ones(count, "<i4"), np.arange(count) * 2, np.arange(count + 1)]
    data = b"".join([header, sizes, *(some.tobytes() for some in numbers)])
    index_paths(prefix)[1].write_bytes(data)
    del data, numbers
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(indexed_dataset, "STRETCH_NUMBERS", 1 << 12)
        tracemalloc.start()
        seen = inspect_data_set(prefix)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert seen.document_lengths.median == 1
    assert peak < 4_000_000
