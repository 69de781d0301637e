"""Verdicts kept between runs."""

import hashlib
import json
from dataclasses import replace

import pytest

from ingot.converters.megatron.engines.fast_engines import (
    FAST_ENGINES,
    Verdict,
    keep_verdict,
    make_verdict_case,
    recall_verdict,
)

VERDICT = Verdict(passed=True)


@pytest.fixture
def case(zoo):
    return make_verdict_case(FAST_ENGINES["gigatoken"], zoo["gpt2"], plain=False)


def test_what_is_kept_is_recalled_for_the_same_case_only(case, home):
    assert recall_verdict(case) is None
    keep_verdict(case, VERDICT)
    assert recall_verdict(case) == VERDICT
    for other in (
        replace(case, plain=True),
        replace(case, version="0.0"),
        replace(case, reference="tokenizers 0.0"),
        replace(case, tokenizer="0" * 64),
        replace(case, engine="fastokens"),
    ):
        assert recall_verdict(other) is None
    assert [path.suffix for path in (home / "engines").iterdir()] == [".json"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "[" * 100_000,
        lambda text: "[]",
        lambda text: text.replace('"passed": true', '"passed": "true"'),
        lambda text: text.replace('"plain": false', '"plain": true'),
        lambda text: text.replace('"problem": ""', '"problem": 1'),
    ],
)
def test_a_damaged_file_counts_as_none(case, home, damage):
    keep_verdict(case, VERDICT)
    (path,) = (home / "engines").iterdir()
    path.write_text(damage(path.read_text()))
    assert recall_verdict(case) is None
    keep_verdict(case, VERDICT)
    assert recall_verdict(case) == VERDICT


def test_where_nothing_can_be_written_nothing_is_kept(case, home):
    home.write_text("a file where the folder should be")
    keep_verdict(case, VERDICT)
    assert recall_verdict(case) is None


@pytest.mark.parametrize("passed", [True, False])
def test_a_verdict_of_the_former_gate(case, home, passed):
    """What it found wrong is still wrong; what it passed is checked again."""
    former = {
        "case": case.key(3),
        "passed": passed,
        "denied": [[383, 383]],
        "problem": "" if passed else "other ids than the reference on 'x'",
    }
    digest = hashlib.sha256(json.dumps(former["case"]).encode()).hexdigest()
    (home / "engines").mkdir(parents=True)
    path = home / "engines" / f"gigatoken-{digest[:32]}.json"
    path.write_text(json.dumps(former))
    if passed:
        assert recall_verdict(case) is None
        keep_verdict(case, VERDICT)
        assert recall_verdict(case) == VERDICT
    else:
        keep_verdict(case, VERDICT)
        assert recall_verdict(case) == Verdict(passed=False, problem=former["problem"])
    assert path.read_text() == json.dumps(former)
