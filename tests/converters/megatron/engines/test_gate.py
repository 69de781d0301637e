"""The gate: what it lets pass, what it denies, what it refuses."""

from itertools import islice

import pyarrow as pa
import pytest

from ingot.converters.megatron.engines import race
from ingot.converters.megatron.engines.engine import count_points, unassigned_ranges
from ingot.converters.megatron.engines.fast_engines import (
    FAST_ENGINES,
    NotOfferedError,
    Verdict,
    probe_engine,
)
from ingot.converters.megatron.engines.race import AnsweredTexts, examine_engine
from ingot.converters.megatron.engines.reference import open_reference
from ingot.converters.megatron.engines.trials import trial_texts


def examined(loaded, fast, runs):
    answered = AnsweredTexts(open_reference(loaded), runs)
    return examine_engine(
        fast, probe_engine(fast, loaded, plain=False), loaded, answered, plain=False
    )


def texts(*values):
    return pa.array(values, pa.large_string())


def test_an_engine_without_a_difference_passes(zoo, plant, documents):
    assert examined(zoo["byte_level"], plant("zyzzyva"), [documents]) == Verdict(passed=True)


def test_a_code_point_is_denied_and_the_rest_passes(zoo, plant):
    runs = [texts("a" * 300 + "ſ" + "b" * 300, "fine", "too ſ"), texts("sſ", "s")]
    verdict = examined(zoo["byte_level"], plant("ſ"), runs)
    assert verdict == Verdict(passed=True, denied=((0x17F, 0x17F),))


def test_the_rarer_of_two_code_points_is_denied(zoo, plant):
    verdict = examined(zoo["byte_level"], plant("é\U00010400"), [texts("x é\U00010400 y")])
    assert verdict.denied == ((0x10400, 0x10400),)


def test_an_unassigned_code_point_takes_all_others_with_it(zoo, plant):
    verdict = examined(zoo["byte_level"], plant("\U000e0fff"), [texts("x \U000e0fff y")])
    assert verdict == Verdict(passed=True, denied=unassigned_ranges())
    assert count_points(unassigned_ranges()) > 700_000
    assert not any(
        first <= point <= last for first, last in unassigned_ranges() for point in (0x41, 0xE9)
    )


def test_neighbours_that_differ_alike_are_found_at_once(zoo, wrong_on):
    fast = wrong_on(range(0x1AB0, 0x1AC0))
    runs = [texts("a\u1ab5b", "c" * 50), texts("\u1ab0\u1abf!")]
    assert examined(zoo["byte_level"], fast, runs).denied == ((0x1AB0, 0x1ABF),)


def test_nothing_hides_behind_what_is_known(zoo, wrong_on):
    fast = wrong_on([0x1AB5, 0x0E31, 0x4E2D])
    run = texts("a\u1ab5b \u0e31 中 and more", "\u1ab5中")
    assert examined(zoo["byte_level"], fast, [run]).denied == (
        (0x0E31, 0x0E31),
        (0x1AB5, 0x1AB5),
        (0x4E2D, 0x4E2D),
    )


def test_a_difference_in_ascii_is_final_and_told_by_its_smallest_text(zoo, plant):
    verdict = examined(zoo["byte_level"], plant("qzq"), [texts("ok", "é" * 99 + "qzq" + "中" * 99)])
    assert not verdict.passed
    assert verdict.problem == "other ids than the reference on 'qzq'"


def test_too_many_code_points_are_final(zoo, wrong_on, monkeypatch):
    points = range(0x3400, 0x4400, 2)
    runs = [texts("".join(map(chr, points)))]
    monkeypatch.setattr(race, "MOST_DENIED", 100)
    verdict = examined(zoo["byte_level"], wrong_on(points), runs)
    assert not verdict.passed


@pytest.mark.parametrize("marker", ["\U0001f6f8", "ſ", "<|im_end|>\u3000"])
def test_the_trials_show_what_is_rare(zoo, marker):
    runs = trial_texts(zoo["byte_level"])
    assert any(marker in text for run in runs for text in run.to_pylist())


def test_trials_are_the_same_every_time_and_come_in_small_runs(zoo):
    first, second = (list(islice(trial_texts(zoo["byte_level"]), 4)) for _ in range(2))
    assert all(one.equals(other) for one, other in zip(first, second, strict=True))
    assert max(run.nbytes for run in first) < 4 << 20


def test_every_code_point_that_may_mean_something_is_tried(zoo):
    seen = set()
    for run in trial_texts(zoo["sp_uni"]):
        for text in run.to_pylist():
            seen.update(text)
    points = {*range(0xD800), *range(0xE000, 0x34000), *range(0xE0000, 0xE0200)}
    assert {chr(point) for point in points} <= seen


@pytest.mark.long
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("name", ["gpt2", "byte_level", "composing", "byte_fallback", "sp_bpe"])
@pytest.mark.parametrize("engine", sorted(FAST_ENGINES))
def test_the_engines_of_today(zoo, engine, name, plain):
    loaded, fast = zoo[name], FAST_ENGINES[engine]
    try:
        opened = probe_engine(fast, loaded, plain=plain)
    except NotOfferedError as error:
        pytest.skip(str(error))
    answered = AnsweredTexts(open_reference(loaded, plain=plain, threads=2), trial_texts(loaded))
    verdict = examine_engine(fast, opened, loaded, answered, plain=plain)
    assert verdict.passed, verdict.problem
