"""Texts that go past an engine."""

import numpy as np
import pyarrow as pa
import pytest

from ingot.converters.megatron.engines import guard
from ingot.converters.megatron.engines.engine import are_same_results, open_reference
from ingot.converters.megatron.engines.fast_engines import FAST_ENGINES
from ingot.converters.megatron.engines.guard import RoutedEngine, RoutingRules, make_routing_rules


class Upper:
    """An engine that is right only on texts without lower-case letters, and refuses digits."""

    name = "upper"

    def __init__(self, exact):
        self.exact = exact
        self.seen = []

    def encode(self, texts):
        self.seen += texts.to_pylist()
        return self.exact.encode(texts)


def marked(*ranges):
    table = np.zeros(0x110000, np.bool_)
    for first, last in ranges:
        table[first : last + 1] = True
    return table


def texts(*values):
    return pa.array(values, pa.large_string())


@pytest.mark.parametrize("count", [1, 3, 40])
def test_texts_that_hold_a_needle(count):
    found = RoutingRules(["ſ", "\U000113c2", "<|x|>", *(chr(0x4E00 + at) for at in range(count))])
    values = ["", "plain", "aſb", "一", "<|x|>", "<|x", "x\U000113c2", "é🙂"]
    expected = [False, False, True, True, True, False, True, False]
    assert found.holding(texts("skipped", *values)[1:]).tolist() == expected


def test_texts_that_hold_a_denied_code_point():
    ranges = ((0x80, 0x80), (0x7FF, 0x801), (0xD7FF, 0xE000), (0xFFFF, 0x10002))
    found = RoutingRules(["<|x|>"], marked(*ranges))
    inside = [0x80, 0x7FF, 0x800, 0x801, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10002]
    outside = [0x7F, 0x81, 0x7FE, 0x802, 0xD7FE, 0xE001, 0xFFFE, 0x10003, 0x10FFFF]
    values = ["", *(f"é中🙂{chr(point)}" for point in inside), *map(chr, outside), "<|x|>"]
    expected = [False, *[True] * len(inside), *[False] * len(outside), True]
    assert found.holding(texts("skipped\u0080", *values)[1:]).tolist() == expected
    assert not found.holding(texts()).size


@pytest.mark.more
def test_every_code_point_is_found_where_it_is_denied():
    points = [*range(0x80, 0xD800), *range(0xE000, 0x30000)]
    batch = texts(*map(chr, points))
    held = RoutingRules((), marked(*((point, point) for point in range(0x80, 0x110000, 3))))
    held = held.holding(batch)
    assert held.tolist() == [point % 3 == 0x80 % 3 for point in points]


def test_denied_texts_never_reach_the_engine(zoo):
    exact = open_reference(zoo["byte_level"])
    engine = Upper(exact)
    batch = texts("a", "bad ſ", "", "c", "ſ", "d")
    encoded, own = RoutedEngine(
        engine, exact, RoutingRules((), marked((0x17F, 0x17F)))
    ).encode_with_positions(batch)
    assert are_same_results(encoded, exact.encode(batch))
    assert engine.seen == ["a", "", "c", "d"]
    assert own.tolist() == [0, 2, 3, 5]


def test_what_the_engine_fails_on_the_reference_does(zoo):
    engine, exact = open_reference(zoo["closed"]), open_reference(zoo["gpt2"])
    batch = texts("hello", "a b", "b", "world ſ", "")
    encoded, own = RoutedEngine(
        engine, exact, RoutingRules((), marked((0x17F, 0x17F)))
    ).encode_with_positions(batch)
    assert own.tolist() == [1, 2, 4]
    assert encoded.failed == ()
    bounds = np.cumsum(encoded.lengths).tolist()
    assert encoded.ids[: bounds[0]].tolist() == exact.encode(texts("hello")).ids.tolist()
    assert encoded.ids[bounds[0] : bounds[2]].tolist() == [0, 1, 1]


def test_special_tokens_go_past_an_engine_that_cannot_do_plain(zoo):
    loaded = zoo["byte_level"]
    batch = texts("a<|im_end|>", "a<added>")
    routes = {
        (name, plain): make_routing_rules(FAST_ENGINES[name], loaded, plain=plain)
        .holding(batch)
        .tolist()
        for name in ("gigatoken", "fastokens")
        for plain in (False, True)
    }
    assert routes.pop(("gigatoken", True)) == [True, False]
    assert routes.pop(("fastokens", True)) == [True, False]
    assert set(map(tuple, routes.values())) == {(False, False)}
    held = make_routing_rules(FAST_ENGINES["gigatoken"], zoo["sp_bpe"], plain=False)
    assert held.holding(texts("a</s>", "a")).tolist() == [True, False]


def test_large_texts_are_encoded_by_the_reference(zoo, monkeypatch):
    monkeypatch.setattr(guard, "LARGE_TEXT", 6)
    exact = open_reference(zoo["byte_level"])
    engine = Upper(exact)
    batch = texts("skipped", "SEVEN 7", "SIX 66", "", "床床床")[1:]
    encoded, own = RoutedEngine(engine, exact, RoutingRules(())).encode_with_positions(batch)
    assert engine.seen == ["SIX 66", ""]
    assert own.tolist() == [1, 2]
    assert are_same_results(encoded, exact.encode(batch))
