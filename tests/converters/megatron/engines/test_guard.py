"""Engines as a build uses them: a wrong one is found while it runs."""

import pickle
from dataclasses import replace

import pyarrow as pa
import pytest

from ingot.converters.megatron.engines.choice import choose_engine
from ingot.converters.megatron.engines.engine import (
    EngineChoice,
    EngineWrongError,
    are_same_results,
    open_reference,
)
from ingot.converters.megatron.engines.fast_engines import (
    FAST_ENGINES,
    make_verdict_case,
    recall_verdict,
)
from ingot.converters.megatron.engines.guard import open_engine
from ingot.converters.megatron.messages import ignore_message

CHOICE = EngineChoice(engine="planted", version="1")


def texts(*values):
    return pa.array(values, pa.large_string())


def opened(loaded, choice=CHOICE):
    return open_engine(loaded, choice, memory_limit=1 << 30, monitor=ignore_message)


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
    verdict = recall_verdict(make_verdict_case(fast, loaded, plain=False))
    assert verdict is not None
    assert not verdict.passed
    chosen = choose_engine(
        loaded,
        "auto",
        documents,
        plain=False,
        total_bytes=1 << 40,
        threads=1,
        monitor=ignore_message,
    )
    assert chosen.engine == "hf"


def test_new_letters_are_right_although_the_engine_is_not(zoo, plant):
    loaded = zoo["byte_level"]
    FAST_ENGINES["planted"] = replace(plant("\U000113c2"), routes_new_letters=True)
    engine = opened(loaded)
    batch = texts("a", "\U000113c2", "b \U000113c2", "")
    for _ in range(50):
        assert are_same_results(engine.encode(batch), open_reference(loaded).encode(batch))


def test_the_reference_is_not_wrapped(zoo):
    for name, engine in (("byte_level", "hf"), ("sp_uni", "sentencepiece")):
        made = opened(zoo[name], EngineChoice(engine=engine, version=""))
        assert type(made) is type(open_reference(zoo[name]))
        assert made.name == engine
