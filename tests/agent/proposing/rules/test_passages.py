"""Context in lists: a passage keeps its title; what a search found is no context."""

from typing import Any

import pytest


def _title(pool: Any, n: int) -> str:
    return str(pool.thing(n).title())


@pytest.mark.parametrize("shape", ["lists", "pairs", "objects", "apart", "sentences"])
def test_passages_are_written_one_by_one(mapped: Any, pool: Any, shape: str) -> None:
    def context(n: int) -> Any:
        said = [(_title(pool, n + k), pool.document(n + k).split(". ")) for k in range(3)]
        if shape == "lists":
            return [[title, told] for title, told in said]
        if shape == "pairs":
            return [[title, "\n".join(told)] for title, told in said]
        if shape == "objects":
            return [
                {"title": title, "text": "\n".join(told), "id": title[:3]} for title, told in said
            ]
        if shape == "apart":
            return {"title": [t for t, _ in said], "sentences": [told for _, told in said]}
        return [[title, *told] for title, told in said]

    rows = [
        {"question": pool.question(n), "context": context(n), "answer": pool.thing(n)}
        for n in range(9)
    ]
    first = "\n".join(
        "\n".join([_title(pool, 2 + k), *pool.document(2 + k).split(". ")]) for k in range(3)
    )
    assert mapped(rows, "sft").turns(2) == [
        ("user", f"{first}\n{pool.question(2)}"),
        ("assistant", pool.thing(2)),
    ]


def test_results_of_a_search_are_left_out(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "question": pool.question(n),
            "documents": [
                {
                    "title": pool.title(n + k),
                    "text": pool.document(n + k),
                    "is_selected": int(k == n % 3),
                }
                for k in range(3)
            ],
            "answers": [pool.answer(n)],
        }
        for n in range(9)
    ]
    told = mapped(rows, "sft").turns(2)[0][1]
    assert pool.title(2) not in told
    assert told.endswith(pool.question(2))
