"""Every fast engine on every kind of tokenizer: not offered, or exact on real and odd texts."""

from itertools import islice

import pyarrow as pa
import pytest

from ingot.converters.megatron.engines.choice import Choice
from ingot.converters.megatron.engines.fast import FAST, NotOfferedError, probe
from ingot.converters.megatron.engines.gate import Answered, examine
from ingot.converters.megatron.engines.guard import open_engine
from ingot.converters.megatron.engines.reference import reference
from ingot.converters.megatron.engines.results import same
from ingot.converters.megatron.engines.trials import trials
from ingot.converters.megatron.monitor import unheard

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


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("engine", sorted(FAST))
def test_exact_or_not_offered(zoo, documents, engine, name):
    loaded, fast = zoo[name], FAST[engine]
    if (engine, name) not in LOADED:
        with pytest.raises(NotOfferedError, match="cannot load"):
            probe(fast, loaded, plain=False)
        return
    for plain in (False, True):
        exact = reference(loaded, plain=plain)
        runs = [documents, *islice(trials(loaded), 1)]
        opened = probe(fast, loaded, plain=plain)
        verdict = examine(fast, opened, loaded, Answered(exact, runs), plain=plain)
        assert verdict.passed, verdict.problem
        choice = Choice(engine=engine, version="", denied=verdict.denied, plain=plain)
        guarded = open_engine(loaded, choice, memory_limit=1 << 30, monitor=unheard)
        specials = pa.array([f"a {text}b" for text in loaded.special], pa.large_string())
        for texts in (documents, documents[17:90], documents[:0], specials):
            assert same(guarded.encode(texts), exact.encode(texts))


def test_an_engine_that_is_not_installed(zoo, plant):
    def opened(loaded, *, plain, threads):
        raise ModuleNotFoundError("No module named 'planted'")

    fast = plant("x")
    missing = type(fast)(
        name="missing", distribution="missing", open=opened, knows_plain=True, grows=False
    )
    with pytest.raises(NotOfferedError) as caught:
        probe(missing, zoo["byte_level"], plain=False)
    assert caught.value.missing
