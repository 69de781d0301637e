"""What is asked beforehand of rows that may be threads or pages never changes what is found."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from ingot.agent.proposing.columns import View
from ingot.agent.proposing.readings import Reading, plain_reading
from ingot.agent.proposing.rules import candidates
from ingot.agent.proposing.rules.conversations import row_groups
from ingot.converters.sources.profile import MAX_PATHS
from ingot.converters.sources.sample import Sample, SampledRow

WORDS = ("the", "boat", "leaves", "at", "noon", "when", "nobody", "looks", "and", "comes", "back")


def said(chance: random.Random, count: int) -> str:
    return " ".join(chance.choices(WORDS, k=count)).capitalize() + "."


def tree(chance: random.Random, depth: int) -> dict[str, Any]:
    """An object of scalars, lists and further objects, with 7 ** depth paths and more."""
    below = {f"part_{n}": tree(chance, depth - 1) for n in range(6)} if depth else {}
    return {**below, "mark": chance.choice("abc"), "tags": chance.sample(WORDS, 2)}


def posts(chance: random.Random) -> Iterator[dict[str, Any]]:
    """Rows of groups, of whose first a column may say that it asks, and of one that it is best."""
    often = chance.choice([2, 3, 4])
    noise = chance.choice([0.0, 0.0, 0.02, 0.3])
    wide = chance.random() < 0.3
    length = chance.choice([6, 12, 30])
    number = 0
    for group in range(chance.choice([4, 12, 25])):
        best = chance.randrange(1, often)
        for place in range(often):
            number += 1
            kind = 1 if place == 0 else 2
            if chance.random() < noise:
                kind = chance.randrange(1, 4)
            row: dict[str, Any] = {
                "topic": f"t-{group}",
                "post_type": kind,
                "accepted": place == best,
                "place": chance.choice([place, place, number]) if noise else place,
                "area": f"area {group % 3}",
                "words": said(chance, length) + ("?" if place == 0 else ""),
            }
            if chance.random() < 0.2:
                row["title"] = said(chance, 3)
            yield row | (tree(chance, 3) if wide else {})


def reading(seed: int) -> Reading:
    chance = random.Random(seed)
    rows = list(posts(chance))
    if chance.random() < 0.4:
        chance.shuffle(rows)
    taken = tuple(SampledRow(file="a", row=n, key=None, value=row) for n, row in enumerate(rows))
    sample = Sample(rows=taken, bad=(), complete=True, total_rows=len(rows))
    return plain_reading(sample, {}, 1.0, "the rows as they are")


def threads_of_all(one: Reading) -> Iterator[str]:
    """Every order of every key tried on the rows themselves: the question in full."""
    columns = [c for c in one.view.columns if not c.many and c.fill == 1]
    able = sorted(filter(row_groups.is_sortable_time, columns), key=lambda c: c.numeric)
    able += [c for c in columns if c.numeric and c not in able]
    for by in columns:
        often = len(by.present) / max(1, by.distinct)
        if by.words > 3 or by.distinct < row_groups.SEVERAL or often < row_groups.LEAST_OFTEN:
            continue
        groups = row_groups.group_rows(by).values()
        orders = [None, *(c for c in able if c is not by)]
        for column in orders:
            order = row_groups.RowOrder(column, "")
            rows = [[one.rows[n] for n in order.sorted(group)] for group in groups]
            if candidates.thread_drafts(View.of(rows)):
                yield repr({"by": [by.path]} | ({"sort": column.path} if column else {}))
                return


@pytest.mark.parametrize("seed", range(40))
def test_threads_are_those_of_the_full_question(seed: int) -> None:
    one = reading(seed)
    found = [repr(thread.outer["group"]) for thread in candidates.thread_readings(one)]
    assert found == list(threads_of_all(one))


@pytest.mark.more
def test_some_of_them_are_threads_and_some_are_cut_profiles() -> None:
    made = [reading(seed) for seed in range(40)]
    assert sum(any(True for _ in candidates.thread_readings(one)) for one in made) >= 5
    assert sum(len(one.view.facts.paths) == MAX_PATHS for one in made) >= 5


@pytest.mark.parametrize("seed", range(40))
def test_pages_are_those_of_the_question_asked_last(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = reading(seed)
    found = [page.outer for page in row_groups.paged_reading(one)]
    may, are = row_groups._may_be_paragraphs, row_groups._are_paragraphs
    monkeypatch.setattr(row_groups, "_may_be_paragraphs", lambda *_: True)
    monkeypatch.setattr(
        row_groups,
        "_are_paragraphs",
        lambda view, body, by, groups: may(view, body, by) and are(view, body, by, groups),
    )
    assert [page.outer for page in row_groups.paged_reading(one)] == found
