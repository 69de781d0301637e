"""Items of a data set against a plain reading of it; workers, padding, broken data."""

import pickle
import subprocess
import sys
from collections.abc import Callable
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("torch", reason="torch is not installed: make test-more brings it")
import torch
from torch.utils.data import DataLoader

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.dataset import TokenDataset, collate, flatten

pytestmark = pytest.mark.more

Written = Callable[..., Path]
PACKS = [[[11, 12, 13], [14, 15]], [], [[16]], [[17, 18, 19, 20]]]
MASKS = [[[0, 1, 1], [0, 1]], [], [[1]], [[0, 0, 1, 1]]]
PACKED = {"options": {"pack": 6}}


def plain(item: dict[str, torch.Tensor]) -> dict[str, list[float]]:
    return {name: values.tolist() for name, values in item.items()}


def test_an_item_of_a_packed_document(data_set: Written) -> None:
    data = TokenDataset(data_set(PACKS, MASKS, PACKED))
    assert len(data) == 3
    assert plain(data[0]) == {
        "tokens": [11, 12, 13, 14, 15],
        "labels": [12, 13, -100, 15, -100],
        "loss_mask": [1.0, 1.0, 0.0, 1.0, 0.0],
        "position_ids": [0, 1, 2, 0, 1],
        "segment_ids": [0, 0, 0, 1, 1],
    }
    kinds = {name: values.dtype for name, values in data[0].items()}
    assert kinds.pop("loss_mask") == torch.float32
    assert set(kinds.values()) == {torch.int64}
    assert plain(data[1])["labels"] == [-100]


def test_a_document_that_was_split_is_one_text(data_set: Written) -> None:
    item = plain(TokenDataset(data_set(PACKS))[0])
    assert item["labels"] == [12, 13, 14, 15, -100]
    assert item["position_ids"] == [0, 1, 2, 3, 4]
    assert item["segment_ids"] == [0] * 5


def test_labels_that_are_not_shifted(data_set: Written) -> None:
    item = plain(TokenDataset(data_set(PACKS, MASKS, PACKED), shift=False)[0])
    assert item["labels"] == [-100, 12, 13, -100, 15]
    assert item["loss_mask"] == [0.0, 1.0, 1.0, 0.0, 1.0]
    unmasked = plain(TokenDataset(data_set(PACKS, meta=PACKED, name="b"), shift=False)[0])
    assert unmasked["labels"] == [-100, 12, 13, -100, 15]


def test_sequences_and_negative_numbers(data_set: Written) -> None:
    data = TokenDataset(data_set(PACKS, MASKS), unit="sequence", seq_length=4, pad_id=7)
    assert [plain(item)["tokens"] for item in data] == [
        [11, 12, 13, 7],
        [14, 15, 7, 7],
        [16, 7, 7, 7],
        [17, 18, 19, 20],
    ]
    assert plain(data[-4]) == {
        "tokens": [11, 12, 13, 7],
        "labels": [12, 13, -100, -100],
        "loss_mask": [1.0, 1.0, 0.0, 0.0],
        "position_ids": [0, 1, 2, 0],
        "segment_ids": [0, 0, 0, -1],
    }
    for index in (4, -5):
        with pytest.raises(IndexError, match=f"item {index} of 4"):
            data[index]


def test_a_stream_is_cut_as_gpt_is_trained(data_set: Written) -> None:
    data = TokenDataset(data_set(PACKS, MASKS), unit="stream", seq_length=4)
    assert [plain(item)["tokens"] for item in data] == [[11, 12, 13, 14], [15, 16, 17, 18]]
    assert [plain(item)["labels"] for item in data] == [[12, 13, -100, 15], [16, -100, -100, 19]]
    assert plain(data[1])["position_ids"] == [0, 1, 2, 3]
    texts = TokenDataset(data_set(PACKS, name="b"), unit="stream", seq_length=4, texts="document")
    assert plain(texts[1])["labels"] == [-100, -100, 18, 19]
    assert plain(texts[1])["position_ids"] == [0, 0, 0, 1]
    assert plain(texts[1])["segment_ids"] == [0, 1, 2, 2]


def test_cut_items_know_what_comes_next(data_set: Written) -> None:
    data = TokenDataset(data_set(PACKS, MASKS), seq_length=3, truncate=True)
    assert [plain(item)["tokens"] for item in data] == [[11, 12, 13], [16, 0, 0], [17, 18, 19]]
    assert [plain(item)["labels"] for item in data] == [
        [12, 13, -100],
        [-100, -100, -100],
        [-100, 19, 20],
    ]


IDS = st.lists(st.lists(st.lists(st.integers(1, 99), max_size=4), max_size=4), max_size=6)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(documents=IDS, size=st.integers(1, 7), texts=st.sampled_from(["document", "sequence"]))
def test_a_stream_holds_every_token_once(
    data_set: Written, documents: list[list[list[int]]], size: int, texts: Any
) -> None:
    """Segments, positions and labels as a plain walk over the texts gives them."""
    prefix = data_set(documents)
    data = TokenDataset(prefix, unit="stream", seq_length=size, texts=texts)
    split = [[i for ids in d for i in ids] for d in documents]
    if texts == "sequence":
        split = [ids for d in documents for ids in d]
    numbered = [(i, n) for n, ids in enumerate(split) for i in ids]
    assert len(data) == max(0, len(numbered) - 1) // size
    for number, item in enumerate(data):
        window = numbered[number * size : (number + 1) * size + 1]
        found = plain(item)
        assert found["tokens"] == [i for i, _ in window[:-1]]
        following = [i if n == before else -100 for (_, before), (i, n) in walk(window)]
        assert found["labels"] == following
        starts = [p for p, (_, n) in enumerate(window[:-1]) if p == 0 or window[p - 1][1] != n]
        expected = [p - max(s for s in starts if s <= p) for p in range(size)]
        assert found["position_ids"] == expected
        assert found["segment_ids"] == [sum(s <= p for s in starts) - 1 for p in range(size)]


def walk(window: list[tuple[int, int]]) -> Any:
    return pairwise(window)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(documents=IDS)
def test_documents_and_sequences_are_whole(
    data_set: Written, documents: list[list[list[int]]]
) -> None:
    prefix = data_set(documents)
    wholes = [list(chain.from_iterable(d)) for d in documents]
    found = [plain(item)["tokens"] for item in TokenDataset(prefix)]
    assert found == [ids for ids in wholes if ids]
    found = [plain(item)["tokens"] for item in TokenDataset(prefix, unit="sequence")]
    assert found == [ids for d in documents for ids in d if ids]


def test_a_batch_is_padded(data_set: Written) -> None:
    data = TokenDataset(data_set(PACKS, MASKS, PACKED))
    batch = collate([data[0], data[1], data[2]], pad_id=9)
    assert {tuple(values.shape) for values in batch.values()} == {(3, 5)}
    assert batch["tokens"][1].tolist() == [16, 9, 9, 9, 9]
    assert batch["segment_ids"][2].tolist() == [0, 0, 0, 0, -1]
    assert batch["labels"][2].tolist() == [-100, 19, 20, -100, -100]
    assert batch["loss_mask"].sum().item() == 5.0


def test_a_batch_in_one_row(data_set: Written) -> None:
    data = TokenDataset(data_set(PACKS, MASKS, PACKED), seq_length=6)
    row = flatten([data[0], data[1], data[2]])
    assert row["cu_seqlens"].tolist() == [0, 3, 5, 6, 10]
    assert row["cu_seqlens"].dtype == torch.int32
    assert row["max_seqlen"] == 4
    assert row["tokens"].tolist() == [[*range(11, 21)]]
    assert row["position_ids"].tolist() == [[0, 1, 2, 0, 1, 0, 0, 1, 2, 3]]
    assert row["segment_ids"].tolist() == [[0, 0, 0, 1, 1, 2, 3, 3, 3, 3]]


def test_a_pickle_holds_no_data_and_opens_the_files_anew(data_set: Written) -> None:
    prefix = data_set([[list(range(50_000))]], [[[1] * 50_000]])
    data = TokenDataset(prefix, seq_length=10, unit="stream")
    pickled = pickle.dumps(data)
    assert len(pickled) < 1_000
    again = pickle.loads(pickled)
    assert plain(again[-1]) == plain(data[-1])


@pytest.mark.long
def test_workers_that_are_spawned_read_it(data_set: Written) -> None:
    data = TokenDataset(data_set(PACKS, MASKS, PACKED), seq_length=6)
    loader = DataLoader(
        data, batch_size=2, num_workers=1, multiprocessing_context="spawn", collate_fn=collate
    )
    found = [batch["tokens"].tolist() for batch in loader]
    assert found == [
        [[11, 12, 13, 14, 15, 0], [16, 0, 0, 0, 0, 0]],
        [[17, 18, 19, 20, 0, 0]],
    ]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"seq_length": 3}, r"2 document\(s\) of more than 3 tokens .build with `max_tokens`"),
        ({"seq_length": 3, "unit": "sequence"}, r"1 sequence\(s\) of more than 3"),
        ({"unit": "stream"}, "give seq_length"),
        ({"seq_length": 0}, "give a positive number"),
    ],
)
def test_wrong_use_is_refused(data_set: Written, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConversionError, match=problem):
        TokenDataset(data_set(PACKS), **options)


def test_masks_that_do_not_match_are_refused(data_set: Written) -> None:
    with pytest.raises(ConversionError, match="not that of the tokens"):
        TokenDataset(data_set(PACKS, [[[0, 1], [0, 1, 1]], *MASKS[1:]]))


def test_the_extra_is_named_where_torch_is_missing(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from ingot.converters.errors import ConversionError\n"
        "from ingot.converters.megatron.dataset import TokenDataset\n"
        "try: TokenDataset('x')\n"
        "except ConversionError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "torch is not installed (pip install 'ingot[torch]')\n"
