"""Engines as a build uses them: a wrong one is found while it runs."""

import pickle

import pyarrow as pa
import pytest

from ingot.converters.megatron.engines.choice import Choice
from ingot.converters.megatron.engines.engine import EngineWrongError
from ingot.converters.megatron.engines.guard import open_engine
from ingot.converters.megatron.engines.race import choose
from ingot.converters.megatron.engines.reference import reference
from ingot.converters.megatron.engines.results import same
from ingot.converters.megatron.engines.verdicts import case_of, recall
from ingot.converters.megatron.monitor import unheard

CHOICE = Choice(engine="planted", version="1")


def texts(*values):
    return pa.array(values, pa.large_string())


def opened(loaded, choice=CHOICE):
    return open_engine(loaded, choice, memory_limit=1 << 30, monitor=unheard)


@pytest.mark.parametrize("long", [False, True])
def test_a_wrong_engine_is_found_and_no_longer_trusted(zoo, plant, documents, long):
    loaded = zoo["byte_level"]
    fast = plant("zyzzyva")
    engine = opened(loaded)
    bad = texts("zyzzyva " * 20_000) if long else texts(*["the zyzzyva is a weevil"] * 50)
    with pytest.raises(EngineWrongError) as caught:
        engine.encode(bad)
    assert caught.value.engine == "planted"
    assert "zyzzyva" in caught.value.text
    assert len(caught.value.text) <= 200
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    verdict = recall(case_of(fast, loaded, plain=False))
    assert verdict is not None
    assert not verdict.passed
    chosen = choose(
        loaded, "auto", documents, plain=False, total_bytes=1 << 40, threads=1, monitor=unheard
    )
    assert chosen.engine == "hf"


def test_denied_texts_are_right_although_the_engine_is_not(zoo, plant):
    loaded = zoo["byte_level"]
    plant("ſ")
    engine = opened(loaded, Choice(engine="planted", version="1", denied=((0x17F, 0x17F),)))
    batch = texts("a", "ſ", "b ſ", "")
    for _ in range(50):
        assert same(engine.encode(batch), reference(loaded).encode(batch))


def test_the_reference_is_not_wrapped(zoo):
    for name, engine in (("byte_level", "hf"), ("sp_uni", "sentencepiece")):
        made = opened(zoo[name], Choice(engine=engine, version=""))
        assert type(made) is type(reference(zoo[name]))
        assert made.name == engine
