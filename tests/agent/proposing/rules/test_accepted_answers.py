"""Which of several answers is taken: by an id, a mark, a key; and what only looks like one."""

from typing import Any

import pytest


def pair(pool: Any, n: int) -> list[tuple[str, str]]:
    return [("user", pool.question(n)), ("assistant", pool.answer(n))]


def replies(pool: Any, n: int, key: str, of: Any) -> list[dict[str, Any]]:
    """Three replies of which another one in each row is the right one."""
    right = n % 3
    texts = [
        pool.answer(n) if k == right else f"No idea about {pool.thing(n + k)}." for k in range(3)
    ]
    return [{"nr": 70 * n + k, "text": t, key: of(k == right)} for k, t in enumerate(texts)]


def test_the_answer_whose_id_the_row_names(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "heading": pool.question(n),
            "replies": replies(pool, n, "long", lambda _: "no"),
            "best_reply": 70 * n + n % 3 if n != 5 else None,
        }
        for n in range(12)
    ]
    outcome = mapped(rows, "sft")
    assert outcome.turns(4) == pair(pool, 4)
    assert len(outcome.records) == 11


@pytest.mark.parametrize(
    ("key", "of"),
    [
        ("is_accepted", bool),
        ("state", lambda right: "approved" if right else "rejected"),
        ("fraction", lambda right: 100 if right else 0),
    ],
)
def test_the_answer_with_a_mark_in_the_list(mapped: Any, pool: Any, key: str, of: Any) -> None:
    rows = [{"question": pool.question(n), "answers": replies(pool, n, key, of)} for n in range(12)]
    outcome = mapped(rows, "sft")
    assert outcome.turns(4) == pair(pool, 4)
    assert outcome.turns(5) == pair(pool, 5)


def test_the_submitted_value_of_an_annotation_among_drafts_and_notes(
    mapped: Any, pool: Any
) -> None:
    rows = []
    for n in range(12):
        answer = pool.answer(n)
        said = [
            {"field": "rewrite", "by": f"w{n % 3}", "status": "draft", "value": answer[:40]},
            {"field": "rewrite", "by": f"w{n % 3}", "status": "submitted", "value": answer},
            {"field": "remark", "by": f"w{n % 3}", "status": "submitted", "value": "fine by me"},
        ]
        guess = [{"field": "rewrite", "value": f"It is {pool.thing(n)}."}]
        rows.append({"prompt": pool.question(n), "suggestions": guess, "responses": said[n % 2 :]})
    assert mapped(rows, "sft").turns(3) == pair(pool, 3)


def test_a_reply_counts_where_it_was_published(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "review": pool.document(n),
            "reply_preview": pool.answer(n)[:30] + "..." if n % 4 != 1 else "",
            "reply": pool.answer(n) if n % 4 != 1 else "",
            "reply_html": f"<p>{pool.answer(n)}</p>" if n % 4 != 1 else "",
            "reply_state": ("published", "waiting", "published", "rejected")[n % 4],
        }
        for n in range(24)
    ]
    outcome = mapped(rows, "sft")
    assert outcome.turns(1) == [("user", pool.document(2)), ("assistant", pool.answer(2))]
    assert len(outcome.records) == 12


def test_the_final_key_counts_and_the_provisional_one_where_it_is_blank(
    mapped: Any, pool: Any
) -> None:
    rows = [
        {
            "enunciado": pool.question(n),
            **{f"alt_{k}": pool.thing(n + m) for m, k in enumerate("abcd")},
            "gabarito_preliminar": "ABCD"[(n + (n % 5 == 0)) % 4],
            "gabarito_definitivo": "*" if n == 7 else "ABCD"[n % 4] if n % 5 != 2 else "",
        }
        for n in range(20)
    ]
    outcome = mapped(rows, "sft")
    keys = [turns[1][1] for turns in map(outcome.turns, range(len(outcome.records)))]
    assert keys == ["ABCD"[n % 4] for n in range(20) if n != 7]


def test_options_are_known_by_their_letters_and_the_case_stands_in_front(
    mapped: Any, pool: Any
) -> None:
    def task(n: int) -> dict[str, Any]:
        listed = [{"k": k, "v": pool.thing(n + m)} for m, k in enumerate("ABCD")]
        return {"q": f"What do they say of case {n}?", "pool": listed, "key": "ABCD"[n % 4]}

    rows = [
        {"vignette": pool.document(n), "items": [task(2 * n), task(2 * n + 1)]} for n in range(9)
    ]
    user, answer = mapped(rows, "sft").turns(5)
    listed = [f"{k}. {pool.thing(5 + m)}" for m, k in enumerate("ABCD")]
    assert user[1] == "\n".join([pool.document(2), "What do they say of case 5?", *listed])
    assert answer[1] == "B"


def test_one_record_per_entry_of_nested_lists_without_hidden_ones(mapped: Any, pool: Any) -> None:
    def entry(n: int) -> dict[str, Any]:
        said = {"frage": pool.question(n), "antwort": pool.answer(n)}
        copies = {"antwort_html": f"<p>{pool.answer(n)}</p>", "kurz": pool.answer(n)[:25] + "…"}
        return {**said, **copies, "hidden": n % 5 == 4}

    parts = [
        {"name": f"Teil {n}", "entries": [entry(3 * n + k) for k in range(3)]} for n in range(8)
    ]
    rows = [{"pfad": f"/hilfe/{n}", "module": parts[2 * n : 2 * n + 2]} for n in range(4)]
    outcome = mapped(rows, "sft")
    assert outcome.turns(1)[-1] == ("assistant", pool.answer(1))
    assert len(outcome.records) == sum(n % 5 != 4 for n in range(24))


def test_cards_by_place(mapped: Any, pool: Any) -> None:
    rows = [
        {"guid": f"zz{n}", "fields": [pool.question(n), pool.answer(n), f"p. {n}"], "tags": []}
        for n in range(12)
    ]
    assert mapped(rows, "sft").turns(3) == pair(pool, 3)


def test_cards_below_lines_that_say_how_the_file_is_made(mapped: Any, pool: Any) -> None:
    cards = [f"id{n};{pool.question(n)};{pool.answer(n)}" for n in range(12)]
    text = "\n".join(["#separator:semicolon", "#html:false", "#guid column:1", *cards, ""])
    outcome = mapped(text, "sft")
    assert outcome.turns(3) == pair(pool, 3)
    assert outcome.meta["original_id"] == "guid"


def test_a_title_and_a_summary_are_not_sure(mapped: Any, pool: Any) -> None:
    rows = [{"title": pool.thing(n), "summary": pool.document(n)} for n in range(12)]
    assert mapped(rows, "sft").proposal.confidence < 0.5


def test_speakers_of_one_sign(mapped: Any, pool: Any) -> None:
    rows = [
        {"記録": [["聞", pool.question_zh(n)], ["註", "（咳）"], ["話", pool.answer_zh(n)]]}
        for n in range(12)
    ]
    expected = [("user", pool.question_zh(3)), ("assistant", pool.answer_zh(3))]
    assert mapped(rows, "sft").turns(3) == expected


def test_two_answers_of_which_no_name_says_which_counts(mapped: Any, pool: Any) -> None:
    rows = [
        {"question": pool.question(n), "answer_p": pool.answer(n), "answer_k": pool.document(n)}
        for n in range(12)
    ]
    assert mapped(rows, "sft").proposal.confidence < 0.5


def test_one_post_of_a_thread_asks_and_another_one_was_accepted(mapped: Any, pool: Any) -> None:
    """Posts of all threads in one table, in no order: who asks comes first in time."""
    posts = []
    for n in range(12):
        texts = [pool.question(n), *(one["text"] for one in replies(pool, n, "x", bool))]
        posts += [
            {
                "post": 7 * (12 * place + n) % 97,
                "t": f"T{n}",
                "art": "F" if place == 0 else "W",
                "gut": "" if place == 0 else "ja" if place - 1 == n % 3 else "nein",
                "txt": text,
                "am": f"2024-05-{n + 1:02} 1{place}:00",
            }
            for place, text in enumerate(texts)
        ]
    outcome = mapped(sorted(posts, key=lambda post: post["post"]), "sft")
    assert pair(pool, 4) in [outcome.turns(n) for n in range(len(outcome.records))]
    assert len(outcome.records) == 12


@pytest.mark.parametrize(
    "mark", [{True: True}, {True: True, False: False}, {True: "S", False: "N"}, {True: 1, False: 0}]
)
def test_a_mark_without_words_that_one_longer_answer_of_each_row_has(
    mapped: Any, pool: Any, mark: dict[bool, Any]
) -> None:
    rows = [{"ask": pool.question(n), "given": replies(pool, n, "qx", mark.get)} for n in range(12)]
    assert mapped(rows, "sft").turns(4) == pair(pool, 4)
