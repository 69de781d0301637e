"""Verdicts kept between runs."""

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
