"""The references: Hugging Face and sentencepiece, as they are."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from tokenizers import Tokenizer

from ingot.converters.megatron.engines.engine import open_reference
from ingot.converters.megatron.tokenizer import load_tokenizer

LITERAL = "a<|endoftext|>b <added>c <|im_end|>"


def texts(*values):
    return pa.array(values, pa.large_string())


@pytest.mark.more
def test_golden_ids(zoo, documents, golden_documents):
    encoded = open_reference(zoo["gpt2"]).encode(documents)
    assert np.array_equal(encoded.ids, np.concatenate(golden_documents))
    assert encoded.lengths.tolist() == [len(ids) for ids in golden_documents]
    assert encoded.failed == ()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["sp_bpe", "sp_uni"])
def test_ids_of_sentencepiece_itself(zoo, pieces, name, threads):
    rows = pieces[name]
    encoded = open_reference(zoo[name], threads=threads).encode(texts(*(text for text, _ in rows)))
    assert encoded.ids.tolist() == [number for _, ids in rows for number in ids]
    assert encoded.lengths.tolist() == [len(ids) for _, ids in rows]


def test_special_tokens_in_the_text(zoo):
    tokenizer = Tokenizer.from_buffer(zoo["byte_level"].data)
    read = open_reference(zoo["byte_level"]).encode(texts(LITERAL))
    assert read.ids.tolist() == tokenizer.encode(LITERAL, add_special_tokens=False).ids
    tokenizer.encode_special_tokens = True
    plain = open_reference(zoo["byte_level"], plain=True).encode(texts(LITERAL))
    assert plain.ids.tolist() == tokenizer.encode(LITERAL, add_special_tokens=False).ids
    assert len(plain.ids) > len(read.ids)
    assert tokenizer.token_to_id("<added>") in plain.ids  # added, not special


def test_a_text_without_a_token_fails_alone(zoo):
    encoded = open_reference(zoo["closed"]).encode(texts("a b", "a c", "", "b"))
    assert encoded.ids.tolist() == [0, 1, 1]
    assert encoded.lengths.tolist() == [2, 0, 0, 1]
    assert [position for position, _ in encoded.failed] == [1]


def test_truncation_and_padding_of_the_file_are_not_applied(zoo, tmp_path, documents):
    tokenizer = Tokenizer.from_buffer(zoo["byte_level"].data)
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=9)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    cut = open_reference(load_tokenizer(tmp_path / "tokenizer.json")).encode(documents)
    assert np.array_equal(cut.ids, open_reference(zoo["byte_level"]).encode(documents).ids)


def test_slices_and_nothing(zoo, documents):
    engine = open_reference(zoo["byte_level"])
    whole, part = engine.encode(documents), engine.encode(documents[50:60])
    start, end = whole.lengths[:50].sum(), whole.lengths[:60].sum()
    assert np.array_equal(part.ids, whole.ids[start:end])
    assert engine.encode(documents[:0]).lengths.tolist() == []


@pytest.mark.long
def test_one_thread_starts_no_others(zoo):
    program = (
        "import sys, psutil, pyarrow as pa\n"
        "from ingot.converters.megatron.engines.engine import open_reference\n"
        "from ingot.converters.megatron.tokenizer import load_tokenizer\n"
        "engine = open_reference(load_tokenizer(sys.argv[1]), threads=int(sys.argv[2]))\n"
        "before = psutil.Process().num_threads()\n"
        "engine.encode(pa.array(['a b c'] * 100, pa.large_string()))\n"
        "print(psutil.Process().num_threads() - before)\n"
    )
    started = [
        int(subprocess.check_output([sys.executable, "-c", program, zoo["gpt2"].path, threads]))
        for threads in ("1", "2")
    ]
    assert started[0] == 0
    assert started[1] > 0
