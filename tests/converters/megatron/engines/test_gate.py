"""The gate: what it lets pass, what it denies, what it refuses."""

from itertools import islice

import pyarrow as pa
import pytest

from ingot.converters.megatron.engines.fast import FAST, NotOfferedError, probe
from ingot.converters.megatron.engines.gate import Answered, examine
from ingot.converters.megatron.engines.reference import reference
from ingot.converters.megatron.engines.trials import trials
from ingot.converters.megatron.engines.verdicts import Verdict


def examined(loaded, fast, runs):
    answered = Answered(reference(loaded), runs)
    return examine(fast, probe(fast, loaded, plain=False), loaded, answered, plain=False)


def texts(*values):
    return pa.array(values, pa.large_string())


def test_an_engine_without_a_difference_passes(zoo, plant, documents):
    assert examined(zoo["byte_level"], plant("zyzzyva"), [documents]) == Verdict(passed=True)


def test_a_code_point_is_denied_and_the_rest_passes(zoo, plant):
    runs = [texts("a" * 300 + "ſ" + "b" * 300, "fine", "too ſ"), texts("sſ", "s")]
    verdict = examined(zoo["byte_level"], plant("ſ"), runs)
    assert verdict == Verdict(passed=True, denied=(0x17F,))


def test_the_rarer_of_two_code_points_is_denied(zoo, plant):
    verdict = examined(zoo["byte_level"], plant("é\U000105d2"), [texts("x é\U000105d2 y")])
    assert verdict.denied == (0x105D2,)


def test_a_difference_in_ascii_is_final_and_told_by_its_smallest_text(zoo, plant):
    verdict = examined(zoo["byte_level"], plant("qzq"), [texts("ok", "é" * 99 + "qzq" + "中" * 99)])
    assert not verdict.passed
    assert verdict.problem == "other ids than the reference on 'qzq'"


def test_too_many_code_points_are_final(zoo, plant):
    runs = [texts(*(f"a{chr(0x1000 + at)}" for at in range(70)))]
    verdict = examined(zoo["byte_level"], plant(""), runs)
    assert not verdict.passed


@pytest.mark.parametrize("marker", ["\U0001f6f8", "ſ", "<|im_end|>\u3000"])
def test_the_trials_show_what_is_rare(zoo, marker):
    runs = trials(zoo["byte_level"])
    assert any(marker in text for run in runs for text in run.to_pylist())


def test_trials_are_the_same_every_time_and_come_in_small_runs(zoo):
    first, second = (list(islice(trials(zoo["byte_level"]), 4)) for _ in range(2))
    assert all(one.equals(other) for one, other in zip(first, second, strict=True))
    assert max(run.nbytes for run in first) < 4 << 20


def test_every_code_point_is_tried(zoo):
    seen = set()
    for run in trials(zoo["sp_uni"]):
        for text in run.to_pylist():
            seen.update(text)
    assert len(seen) == 0x110000 - 0x800


@pytest.mark.long
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("name", ["gpt2", "byte_level", "composing", "byte_fallback", "sp_bpe"])
@pytest.mark.parametrize("engine", sorted(FAST))
def test_the_engines_of_today(zoo, engine, name, plain):
    loaded, fast = zoo[name], FAST[engine]
    try:
        opened = probe(fast, loaded, plain=plain)
    except NotOfferedError as error:
        pytest.skip(str(error))
    answered = Answered(reference(loaded, plain=plain, threads=2), trials(loaded))
    verdict = examine(fast, opened, loaded, answered, plain=plain)
    assert verdict.passed, verdict.problem
