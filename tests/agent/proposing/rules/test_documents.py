"""Documents: what is text, what stands before it, and what is none."""

from typing import Any

import pytest


def test_title_before_body_and_the_rest_in_meta(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "url": f"http://news.example/{n}",
            "body": pool.document(n),
            "title": pool.title(n),
            "published": f"2021-03-{n + 1:02d}",
            "lang": "en",
            "doc_id": f"d-{n}",
            "dataset": "harbour",
        }
        for n in range(10)
    ]
    outcome = mapped(rows, "pt")
    assert outcome.text(1) == f"{pool.title(1)}\n{pool.document(1)}"
    assert outcome.meta == {
        "original_id": "doc_id",
        "language": "lang",
        "timestamp": "published",
        "source": "dataset",
    }


def test_a_title_that_the_body_begins_with_is_not_said_twice(mapped: Any, pool: Any) -> None:
    rows = [
        {"title": pool.title(n), "text": f"{pool.title(n)}\n{pool.document(n)}"} for n in range(8)
    ]
    assert mapped(rows, "pt").mapping["text"] == "text"


def test_a_text_is_known_by_its_values(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "text": ("sports", "travel")[n % 2],
            "content": "text/plain",
            "data": pool.document(n),
            "uid": f"row_{n}",
        }
        for n in range(12)
    ]
    outcome = mapped(rows, "pt")
    assert outcome.mapping["text"] == "data"
    assert outcome.meta["original_id"] == "uid"


def test_documents_without_a_text_are_filtered(mapped: Any, pool: Any) -> None:
    rows = [
        {"id": n, "title": pool.title(n), "text": "" if n % 4 == 0 else pool.document(n)}
        for n in range(12)
    ]
    assert len(mapped(rows, "pt").records) == 9


def test_paragraphs_are_joined_with_their_headings(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "title": pool.title(n),
            "sections": [
                {"heading": pool.title(n + k + 1), "paragraphs": [pool.document(n + k), "End."]}
                for k in range(2)
            ],
        }
        for n in range(8)
    ]
    first = [pool.title(1), pool.document(0), "End."]
    second = [pool.title(2), pool.document(1), "End."]
    assert mapped(rows, "pt").text(0).splitlines() == [pool.title(0), *first, *second]


def test_articles_in_one_file_are_records(mapped: Any, pool: Any) -> None:
    articles = [{"title": pool.title(n), "text": pool.document(n)} for n in range(10)]
    outcome = mapped({"name": "dump", "articles": articles}, "pt")
    assert outcome.mapping["source"]["root"] == "articles[*]"
    assert len(outcome.records) == 10


def test_rows_that_are_texts_and_texts_keyed_by_id(mapped: Any, pool: Any) -> None:
    assert mapped([pool.document(n) for n in range(8)], "pt").text(1) == pool.document(1)
    keyed = mapped({f"doc-{n}": pool.document(n) for n in range(8)}, "pt", name="keyed")
    assert keyed.proposal.decision == "pt"


def test_a_wrapped_text_file_is_one_document(mapped: Any, pool: Any) -> None:
    import textwrap

    text = "\n\n".join(textwrap.fill(pool.document(n) + " " + pool.answer(n), 60) for n in range(9))
    outcome = mapped(text, "pt", name="tales.txt")
    assert outcome.mapping["source"] == {"format": "text", "root": "$"}
    assert [r["text"] for r in outcome.records] == [text]


def test_a_line_per_document(mapped: Any, pool: Any) -> None:
    outcome = mapped("\n".join(pool.document(n) for n in range(9)) + "\n", "pt", name="lines.txt")
    assert len(outcome.records) == 9


def test_code_is_text_of_no_natural_language(mapped: Any) -> None:
    rows = [
        {
            "repo": "a/b",
            "lang": "Python",
            "content": f"import os\n\ndef f{n}(x):\n    return x + {n}\n\nprint(f{n}(3))\n",
            "content_tokens": ["import", "os", "def", f"f{n}"],
        }
        for n in range(8)
    ]
    outcome = mapped(rows, "pt")
    assert outcome.mapping["text"] == "content"
    assert "language" not in outcome.meta


def test_a_json_string_is_looked_into(mapped: Any, pool: Any) -> None:
    import json

    rows = [
        {
            "url": f"http://x.example/{n}",
            "payload": json.dumps(
                {"article": {"title": pool.title(n), "content": pool.document(n)}}
            ),
        }
        for n in range(8)
    ]
    outcome = mapped(rows, "pt")
    assert outcome.text(2) == f"{pool.title(2)}\n{pool.document(2)}"


def test_meta_follows_the_house_rules(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "review_id": f"r{n}x",
            "user_id": f"u{n}",
            "stars": n % 5 + 1,
            "text": pool.document(n),
            "language_score": 0.9 + n / 1000,
            "perplexity": 300.5 + n,
            "quality": 0.2 + n / 50,
            "n_tokens": 40 + n,
            "created_utc": 1_506_816_000 + n,
        }
        for n in range(10)
    ]
    assert mapped(rows, "pt").meta == {
        "original_id": "review_id",
        "language": {"literal": "en"},
        "timestamp": "created_utc",
        "quality_score": "quality",
        "token_count": "n_tokens",
    }


def test_the_language_asked_for_wins_over_detection(mapped: Any, pool: Any) -> None:
    outcome = mapped([{"text": pool.document(n)} for n in range(8)], "pt", language="mix")
    assert outcome.meta["language"] == {"literal": "mix"}
    assert outcome.proposal.detected == {}


def test_chinese_columns(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "标题": pool.question_zh(n),
            "正文": pool.answer_zh(n),
            "发布时间": f"2021-03-{n + 1:02d}",
            "来源": "晚报",
        }
        for n in range(9)
    ]
    outcome = mapped(rows, "pt")
    assert outcome.text(1) == f"{pool.question_zh(1)}\n{pool.answer_zh(1)}"
    assert outcome.meta["language"] == {"literal": "zh"}
    assert outcome.meta["timestamp"] == "发布时间"


@pytest.mark.parametrize(
    "row",
    [
        lambda n: {"id": n, "text": None if n % 2 else "  ", "lang": "en"},
        lambda n: {"id": str(n), "content": f"{n * 2654435761:064x}", "label": n % 2},
        lambda n: {"image": f"a{n}.png", "text": f"labels/{n}.txt", "width": 933 + n},
        lambda n: {"sepal": 5.1 + n, "species": ("setosa", "virginica")[n % 2]},
        lambda n: {"input_ids": list(range(n, n + 20)), "attention_mask": [1] * 20},
        lambda n: {"vector": [n / 7] * 8, "id": n},
        lambda n: {"date": f"2012-01-{n + 1:02d}", "rain": n / 3, "weather": ("sun", "fog")[n % 2]},
        lambda n: n * 17,
        lambda n: ("apple", "river", "stone")[n % 3] + str(n),
    ],
)
def test_what_is_no_text(mapped: Any, row: Any) -> None:
    assert mapped([row(n) for n in range(14)], "pt").proposal.decision == "irrelevant"


@pytest.mark.parametrize(
    ("decision", "row"),
    [
        ("pt", lambda pool, n: {"text": pool.document(n)}),
        ("pt", lambda pool, n: {"title": pool.title(n), "content": pool.document(n)}),
        ("sft", lambda pool, n: {"question": pool.question(n), "answer": pool.answer(n)}),
        ("sft", lambda pool, n: {"document": pool.document(n), "summary": pool.title(n) + "."}),
        ("irrelevant", lambda pool, n: {"id": n, "prompt": pool.question(n), "kind": "x"}),
        ("irrelevant", lambda pool, n: {"n": n, "price": n / 7}),
    ],
)
def test_the_mode_is_found_where_it_is_open(
    mapped: Any, pool: Any, decision: str, row: Any
) -> None:
    assert mapped([row(pool, n) for n in range(12)], "auto").proposal.decision == decision


def test_metadata_spelt_as_json_is_read(mapped: Any, pool: Any) -> None:
    import json

    rows = [
        {
            "text": pool.document(n),
            "meta": json.dumps({"doc_id": f"m-{n}", "language": "en", "source": "harbour"}),
        }
        for n in range(8)
    ]
    outcome = mapped(rows, "pt")
    assert outcome.mapping["source"]["json_fields"] == ["meta"]
    assert outcome.records[1]["meta"]["original_id"] == "m-1"


def test_texts_that_all_ask_are_prompts_and_no_documents(mapped: Any, pool: Any) -> None:
    rows = [{"id": n, "text": pool.question(n)} for n in range(12)]
    assert mapped(rows, "auto").proposal.decision == "irrelevant"
    assert mapped(rows, "pt").proposal.decision == "pt"  # the mode asked for wins


def test_in_an_open_mode_the_side_that_asks_decides(mapped: Any, pool: Any) -> None:
    asked = [{"headline": pool.question(n), "content": pool.answer(n)} for n in range(12)]
    told = [{"headline": pool.title(n), "content": pool.document(n)} for n in range(12)]
    assert mapped(asked, "auto").proposal.decision == "sft"
    assert mapped(told, "auto").proposal.decision == "pt"
