"""The proof: the listed versions of the engines give the reference's ids, special cases routed.

`INGOT_PROVE_TOKENIZERS` names further `tokenizer.json` and `.model` files.
"""

import os
from itertools import islice
from pathlib import Path

import pytest

from ingot.converters.megatron.engines import fast_engines
from ingot.converters.megatron.engines.choice import check_texts
from ingot.converters.megatron.engines.engine import differing_texts, open_reference
from ingot.converters.megatron.engines.fast_engines import (
    FAST_ENGINES,
    NotOfferedError,
    find_unproved,
    installed_version,
    new_letters,
    probe_engine,
)
from ingot.converters.megatron.engines.guard import RoutedEngine, make_routing_rules
from ingot.converters.megatron.tokenizer import load_tokenizer
from tests.converters.megatron.engines.trials import trial_texts

NAMES = ("gpt2", "byte_level", "composing", "byte_fallback", "sp_bpe")


def prove(loaded, runs):
    """Compare every engine that loads the tokenizer with the reference; tell what differs."""
    exact = open_reference(loaded, threads=2)
    engines = []
    for fast in FAST_ENGINES.values():
        try:
            opened = probe_engine(fast, loaded, plain=False)
        except NotOfferedError:
            continue
        rules = make_routing_rules(fast, loaded, plain=False)
        engines.append(RoutedEngine(opened, exact, rules))
    assert engines
    for texts in runs:
        expected = exact.encode(texts)
        for engine in engines:
            wrong = differing_texts(expected, engine.encode(texts))
            assert not wrong, (engine.name, texts[wrong[0]].as_py())


@pytest.mark.more
@pytest.mark.parametrize("name", NAMES)
def test_the_listed_versions_are_exact_on_every_twentieth_run(zoo, name):
    prove(zoo[name], islice(trial_texts(zoo[name]), 3, None, 20))


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_the_listed_versions_are_exact(zoo, name):
    prove(zoo[name], trial_texts(zoo[name]))


@pytest.mark.long
def test_the_listed_versions_are_exact_with_further_tokenizers():
    for path in os.environ.get("INGOT_PROVE_TOKENIZERS", "").split(os.pathsep):
        if path:
            loaded = load_tokenizer(Path(path))
            prove(loaded, trial_texts(loaded))


@pytest.mark.parametrize("name", sorted(FAST_ENGINES))
def test_what_is_installed_here_is_listed(zoo, name):
    assert find_unproved(FAST_ENGINES[name], zoo["gpt2"]) is None
    assert find_unproved(FAST_ENGINES[name], zoo["sp_bpe"]) is None


def test_other_versions_of_the_reference_and_of_unicode_are_not(zoo, monkeypatch):
    fast = FAST_ENGINES["gigatoken"]
    versions = {"tokenizers": "9.1.0", "gigatoken": installed_version("gigatoken")}
    monkeypatch.setattr(fast_engines, "installed_version", versions.get)
    assert "tokenizers 9.1.0" in find_unproved(fast, zoo["gpt2"])
    monkeypatch.undo()
    monkeypatch.setattr(fast_engines.unicodedata, "unidata_version", "17.0.0")
    assert "Unicode 17.0.0" in find_unproved(fast, zoo["gpt2"])


def test_letters_that_libraries_of_different_age_read_differently():
    table = new_letters()
    assert table[[0x378, 0x897, 0x7FD, 0x1ABF, 0x113C2, 0x1E136, 0x40000, 0xE0FFF]].all()
    assert not table[[0x41, 0xE9, 0x17F, 0x4E2D, 0x1F642, 0xE0001]].any()
    assert not table[:0x300].any()


@pytest.mark.parametrize("marker", ["🏽", "ſ", "<|im_end|>\u3000"])
def test_the_checks_hold_what_breaks_tokenizers(zoo, marker):
    runs = check_texts(zoo["byte_level"])
    assert any(marker in text for run in runs for text in run.to_pylist())


def test_the_checks_are_the_same_every_time_and_come_in_small_runs(zoo):
    first, second = (list(islice(check_texts(zoo["byte_level"]), 4)) for _ in range(2))
    assert all(one.equals(other) for one, other in zip(first, second, strict=True))
    assert max(run.nbytes for run in first) < 1 << 20


@pytest.mark.more
def test_every_code_point_that_may_mean_something_is_tried(zoo):
    seen = set()
    for run in trial_texts(zoo["sp_uni"]):
        for text in run.to_pylist():
            seen.update(text)
    points = {*range(0xD800), *range(0xE000, 0x34000), *range(0xE0000, 0xE0200)}
    assert {chr(point) for point in points} <= seen
