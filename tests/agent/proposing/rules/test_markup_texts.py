"""Fields of HTML whose shown text is taken, and those that may hold programs."""

from typing import Any

import pytest

from ingot.agent.proposing.rules import markup_texts
from tests.agent.proposing.rules.conftest import Mapped, Pool

TAKEN = {"path": "answer", "text_of": "html"}


def rows_of(pool: Pool, answer: str, count: int = 12, **more: Any) -> list[dict[str, Any]]:
    return [
        {
            "question": pool.question(n),
            "answer": answer.format(pool.answer(n)) if n < count else pool.answer(n),
            **more,
        }
        for n in range(12)
    ]


def told(outcome: Any, target: str) -> list[str]:
    return [one.why for one in outcome.proposal.evidence if one.target == target]


def test_the_text_that_most_answers_show_is_taken(mapped: Mapped, pool: Pool) -> None:
    made = mapped(rows_of(pool, "<p>{}</p><ul><li>One&nbsp;more</li></ul>", count=9), "sft")
    assert made.mapping["messages"][1]["content"] == TAKEN
    assert made.turns()[1] == ("assistant", f"{pool.answer(0)}\n\nOne more")
    assert made.turns(11)[1] == ("assistant", pool.answer(11))
    said = "75% of the values are HTML (li, p, ul): the text that it shows is taken"
    assert said in told(made, "messages.assistant")
    assert not any("markup" in why for why in told(made, "doubt"))


def test_html_in_fewer_values_stays(mapped: Mapped, pool: Pool) -> None:
    made = mapped(rows_of(pool, "<p>{}</p>", count=6), "sft")
    assert made.mapping["messages"][1]["content"] == "answer"
    assert not any("HTML" in why for why in told(made, "doubt"))


def test_line_breaks_alone_are_no_html(mapped: Mapped, pool: Pool) -> None:
    made = mapped(rows_of(pool, "{}<br /><br />And more."), "sft")
    assert made.mapping["messages"][1]["content"] == "answer"


@pytest.mark.parametrize(
    ("answer", "asked", "why"),
    [
        ('<form><input name="a"><p>{}</p></form>', "", "they have tags of pages and forms"),
        ("<html><body><p>{}</p></body></html>", "", "they have tags of pages and forms"),
        ("<ul><li>{}</li></ul>", "Write it as an HTML list.", "texts beside them are about HTML"),
    ],
)
def test_what_may_be_a_program_stays_and_is_a_doubt(
    mapped: Mapped, pool: Pool, answer: str, asked: str, why: str
) -> None:
    rows = rows_of(pool, answer)
    rows = [{**row, "question": f"{row['question']} {asked}"} for row in rows]
    made = mapped(rows, "sft")
    assert made.mapping["messages"][1]["content"] == "answer"
    (doubt,) = [one for one in told(made, "doubt") if "HTML (" in one]
    assert doubt.startswith("100% of the values are HTML")
    assert why in doubt


def test_a_field_that_is_named_for_programs_stays(mapped: Mapped, pool: Pool) -> None:
    rows = [{"code_html": f"<div><p>{pool.document(n)}</p></div>"} for n in range(12)]
    made = mapped(rows, "pt")
    assert made.mapping["text"] == "code_html"
    assert any("its name is that of programs" in why for why in told(made, "doubt"))


def test_texts_and_messages_of_lists_are_taken_too(mapped: Mapped, pool: Pool) -> None:
    made = mapped([{"body": f"<p>{pool.document(n)}</p>"} for n in range(12)], "pt")
    assert made.mapping["text"] == {"path": "body", "text_of": "html"}
    assert made.text() == pool.document(0)
    turns = [
        [
            {"role": "user", "content": f"<p>{pool.question(n)}</p>"},
            {"role": "assistant", "content": f"<p>{pool.answer(n)}</p>"},
        ]
        for n in range(12)
    ]
    made = mapped([{"messages": one} for one in turns], "sft")
    assert made.mapping["messages"][0]["content"] == {
        "path": "content",
        "text_of": "html",
    }
    assert made.turns(3) == [("user", pool.question(3)), ("assistant", pool.answer(3))]


def test_without_the_package_that_reads_html_nothing_is_taken(
    mapped: Mapped, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(markup_texts, "find_spec", lambda name: None)
    made = mapped(rows_of(pool, "<p>{}</p>"), "sft")
    assert made.mapping["messages"][1]["content"] == "answer"
    assert any("ingot[html]" in why for why in told(made, "doubt"))
