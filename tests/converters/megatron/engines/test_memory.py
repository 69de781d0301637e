"""Bounded caches."""

import numpy as np
import psutil
import pyarrow as pa
import pytest

from ingot.converters.megatron.engines.engine import EngineChoice, are_same_results, open_reference
from ingot.converters.megatron.engines.guard import RebuiltEngine, open_engine


def test_an_engine_is_made_anew_past_the_limit_only(zoo, documents):
    made, told = [], []

    def make():
        made.append(open_reference(zoo["byte_level"]))
        return made[-1]

    for limit in (1 << 40, -(1 << 40)):
        engine = RebuiltEngine(make, limit, told.append)
        results = [engine.encode(documents) for _ in range(3)]
        assert all(are_same_results(result, results[0]) for result in results)
    assert len(made) == 2 + 2
    assert [message["event"] for message in told] == ["engine_rebuilt"] * 2
    assert told[0]["rss_before"] > 0


@pytest.mark.long
def test_words_never_seen_before_stay_under_the_limit(zoo):
    source = np.random.default_rng(3)
    limit = 96 << 20
    told = []
    engine = open_engine(
        zoo["gpt2"],
        EngineChoice(engine="gigatoken", version=""),
        memory_limit=limit,
        monitor=told.append,
    )
    process, most = psutil.Process(), 0
    before = process.memory_info().rss
    for _ in range(60):
        letters = source.integers(97, 123, 1 << 20, dtype=np.uint8)
        letters[source.integers(0, 1 << 20, 1 << 17)] = 32
        engine.encode(pa.array([letters.tobytes().decode()], pa.large_string()))
        most = max(most, process.memory_info().rss)
    assert told
    assert most - before < limit + (64 << 20)
