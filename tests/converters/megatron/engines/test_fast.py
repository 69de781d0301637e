"""Every fast engine on every kind of tokenizer: not offered, or exact on real and odd texts."""

from dataclasses import replace
from itertools import islice

import pyarrow as pa
import pytest

from ingot.converters.megatron.engines.choice import check_texts
from ingot.converters.megatron.engines.engine import EngineChoice, are_same_results, open_reference
from ingot.converters.megatron.engines.fast_engines import (
    FAST_ENGINES,
    NotOfferedError,
    probe_engine,
)
from ingot.converters.megatron.engines.guard import open_engine
from ingot.converters.megatron.messages import ignore_message

LOADED = {
    ("gigatoken", "gpt2"),
    ("gigatoken", "byte_level"),
    ("gigatoken", "byte_fallback"),
    ("gigatoken", "sp_bpe"),
    ("gigatoken", "composing"),
    ("fastokens", "gpt2"),
    ("fastokens", "byte_level"),
    ("fastokens", "byte_fallback"),
    ("fastokens", "composing"),
}
TOKENIZERS = ("gpt2", "byte_level", "composing", "byte_fallback", "word_piece", "sp_bpe", "sp_uni")


@pytest.mark.more
@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("engine", sorted(FAST_ENGINES))
def test_exact_or_not_offered(zoo, documents, engine, name):
    loaded, fast = zoo[name], FAST_ENGINES[engine]
    if (engine, name) not in LOADED:
        with pytest.raises(NotOfferedError, match="cannot load"):
            probe_engine(fast, loaded, plain=False)
        return
    for plain in (False, True):
        exact = open_reference(loaded, plain=plain)
        choice = EngineChoice(engine=engine, version="", plain=plain)
        guarded = open_engine(loaded, choice, memory_limit=1 << 30, monitor=ignore_message)
        specials = pa.array([f"a {text}b" for text in loaded.special], pa.large_string())
        for texts in (documents, documents[17:90], documents[:0], specials, *odd_texts(loaded)):
            assert are_same_results(guarded.encode(texts), exact.encode(texts))


def odd_texts(loaded):
    return islice(check_texts(loaded), 1)


def test_an_engine_that_is_not_installed(zoo, plant):
    def opened(loaded, *, plain, threads):
        raise ModuleNotFoundError("No module named 'planted'")

    fast = plant("x")
    missing = replace(fast, name="missing", distribution="missing", open=opened)
    with pytest.raises(NotOfferedError) as caught:
        probe_engine(missing, zoo["byte_level"], plain=False)
    assert caught.value.missing
