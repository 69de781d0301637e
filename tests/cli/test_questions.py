"""What a person is asked at the terminal."""

from typing import Any, cast

import pytest

from ingot.cli import questions


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        (["y"], "approve"),
        (["?", "what", "YES"], "approve"),
        (["r", "n"], "reject"),  # there is no mapping of the rules to take
        ([""], "reject"),  # the end of the input
    ],
)
def test_an_unknown_answer_is_asked_again(
    answers: list[str], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = iter(answers)
    monkeypatch.setattr(questions, "show_proposal", lambda *_: None)
    monkeypatch.setattr(questions, "read_answer", lambda _: next(left))
    made, changed = questions.ask_person({"proposal": None}, cast("Any", None), pytest.fail)
    assert changed == {}
    assert cast("Any", made)["decisions"][0]["type"] == kind
    assert list(left) == []
