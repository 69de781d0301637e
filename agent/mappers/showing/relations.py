"""What cut texts hide, computed over all sampled rows: how columns belong together.

Equal and contained texts, answers that name options, lists of one length, languages; with what
`turns` finds. Facts with shares, and no judgement.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from ingot.agent.mappers.rules import language
from ingot.agent.mappers.rules.choices import find_options, inside_question, refers, unnamed_choice
from ingot.agent.mappers.rules.table import Column, View, list_of, parent_of, text_of
from ingot.agent.mappers.showing import turns
from ingot.agent.mappers.showing.cleaning import shown_path
from ingot.agent.mappers.showing.sharing import shared_line
from ingot.agent.mappers.showing.turns import MOST_COLUMNS, portion
from ingot.converters.rows import Json

_COMPARED = 100  # rows
_OFTEN = 0.8
_VARIED = 3  # different texts: what is always the same is contained by chance
_SHORT = 6  # characters: a shorter text is contained by chance
_HEAD = 4000
_SENTENCE = 12  # characters
_MUCH = 200  # characters of a column whose language can be told
_NAMES = {
    "key": "names an option by its letter or key",
    "place0": "is the number of an option, from 0",
    "place1": "is the number of an option, from 1",
    "text": "is the text of one option",
}

Test = Callable[[str, str], bool]


def lines(rows: Sequence[Json], view: View, share: str) -> list[str]:
    """What was found, the most useful first: paths, shares, and the names of who speaks."""
    columns = view.columns[:MOST_COLUMNS]
    found = [
        *turns.lines(rows, view, share),
        *_options(view, columns),
        *_equal_and_inside(columns),
        *_elements_inside(columns),
        *_parallel(columns),
        *_filled_where(columns),
        *_even(columns),
        *_languages(columns),
    ]
    return list(dict.fromkeys(shared_line(line, share) for line in found))


def _options(view: View, columns: Sequence[Column]) -> Iterator[str]:
    """Answers that name one of several options; questions that hold their options."""
    for column in columns:
        if not column.many and column.text and inside_question(column.present):
            yield f"{_path(column)} already holds lettered options"
    options = find_options(view, columns)
    unnamed = None if options else unnamed_choice(columns)
    if unnamed:
        question, answer, options = unnamed
        named = ", ".join(map(shown_path, sorted(options.paths)))
        yield f"{_path(answer)} {_NAMES['key']} ({named}); question perhaps {_path(question)}"
        return
    if options is None:
        return
    for column in columns:
        if column.path in options.paths and column.looks("option") >= _OFTEN:
            yield f"{_path(column)} carry their letters already"
        if column.many or column.path in options.paths or column.distinct < 2 or _numbering(column):
            continue
        how = refers(options, column)
        if how and not (how.startswith("place") and column.distinct > max(map(len, options.keys))):
            named = ", ".join(map(shown_path, sorted(options.paths)))
            yield f"{_path(column)} {_NAMES[how]} ({named})"


def _numbering(column: Column) -> bool:
    return len(column.present) > 3 and column.distinct == len(column.present) and column.numeric


def _equal_and_inside(columns: Sequence[Column]) -> Iterator[str]:
    """One text equals, begins with, ends with or contains another one."""
    flat = [c for c in columns if not c.many and (c.text or c.nature in ("number", "label"))]
    heads = {c.path: [t.strip()[:_HEAD] for t in c.texts[:_COMPARED]] for c in flat}
    for one, other in combinations(flat, 2):
        small, large = sorted((one, other), key=lambda c: c.chars)
        if not large.text:
            continue
        said = _relation(heads[large.path], heads[small.path])
        if said:
            yield f"{_path(large)} {said[0]} {_path(small)} {said[1]} rows"


_TESTS: tuple[tuple[str, Test], ...] = (
    ("equals", lambda large, small: large == small),
    ("begins with", lambda large, small: large.startswith(small)),
    ("ends with", lambda large, small: large.endswith(small)),
    ("contains", lambda large, small: small in large),
)


def _relation(large: Sequence[str], small: Sequence[str]) -> tuple[str, str] | None:
    """The closest of the relations that holds for most rows with both texts, and its share."""
    both = [(a, b) for a, b in zip(large, small, strict=True) if a and b]
    if len(both) < max(2, 0.1 * len(large)) or len({b for _, b in both}) < _VARIED:
        return None
    for name, test in _TESTS:
        if name != "ends with" and sum(len(b) < _SHORT for _, b in both) > 0.5 * len(both):
            continue
        good = sum(test(a, b) for a, b in both)
        if good >= _OFTEN * len(both):
            return name, portion(good, len(both))
    return None


def _elements_inside(columns: Sequence[Column]) -> Iterator[str]:
    """Texts that are, or hold, the elements of a list."""
    lists = [c for c in columns if c.many and c.text]
    for column in (c for c in columns if not c.many and c.text):
        for held in lists:
            rows = [
                (text.strip(), [text_of(v).strip() for v in row if text_of(v).strip()])
                for text, row in zip(column.texts, held.values, strict=True)
            ]
            rows = [(text, inside) for text, inside in rows[:_COMPARED] if text and inside]
            if len(rows) < 2:
                continue
            for name, test in _LIST_TESTS:
                good = sum(test(text, inside) for text, inside in rows)
                if good >= _OFTEN * len(rows):
                    yield f"{_path(column)} {name} {_path(held)} {portion(good, len(rows))} rows"
                    break


_LIST_TESTS: tuple[tuple[str, Callable[[str, list[str]], bool]], ...] = (
    ("equals the first of", lambda text, inside: text == inside[0]),
    ("equals the last of", lambda text, inside: text == inside[-1]),
    ("equals one of", lambda text, inside: text in inside),
    ("stands in the first of", lambda text, inside: len(text) >= _SHORT and text in inside[0]),
    ("stands in the last of", lambda text, inside: len(text) >= _SHORT and text in inside[-1]),
    (
        "contains all of",
        lambda text, inside: all(i in text for i in inside) and len(inside[0]) >= _SHORT,
    ),
)


def _parallel(columns: Sequence[Column]) -> Iterator[str]:
    """Lists beside each other that have the same lengths in all rows."""
    lists: dict[str, list[int]] = {}
    for column in (c for c in columns if c.many):
        lists.setdefault(list_of(column.path), [len(row) for row in column.values])
    for (one, a), (other, b) in combinations(lists.items(), 2):
        beside = parent_of(one) == parent_of(other)
        if beside and a == b and len(set(a)) > 1 and max(a) > 1:
            yield f"{shown_path(one)} and {shown_path(other)} have the same length in all rows"


def _filled_where(columns: Sequence[Column]) -> Iterator[str]:
    """Columns that are filled exactly where another one of few values says so."""
    few = [c for c in columns if not c.many and 2 <= c.distinct <= 6 and c.nature != "text"]
    for part in (c for c in columns if not c.many and 0.05 < c.fill < 0.95 and c.text):
        for label in few:
            filled = {a for a, b in zip(label.texts, part.texts, strict=True) if b.strip()}
            blank = {a for a, b in zip(label.texts, part.texts, strict=True) if not b.strip()}
            if not filled & blank and len(label.present) > 6:
                yield f"whether {_path(part)} is filled follows from {_path(label)}"
                break


def _even(columns: Sequence[Column]) -> Iterator[str]:
    """Lists of texts whose lengths are all even, as those of questions and answers are."""
    for column in (c for c in columns if c.many and c.text):
        sizes = [len(row) for row in column.values if row]
        if len(sizes) < 3 or len(set(sizes)) < 2:
            continue
        even = sum(size % 2 == 0 for size in sizes)
        if even in (0, len(sizes)) or even >= 0.9 * len(sizes):
            kind = "odd" if even == 0 else "even"
            share = portion(len(sizes) if even == 0 else even, len(sizes))
            named = shown_path(list_of(column.path))
            yield f"{named} has an {kind} number of elements {share} rows"


def _languages(columns: Sequence[Column]) -> Iterator[str]:
    """The language of the longest texts."""
    texts = [c for c in columns if c.text and c.chars >= _MUCH and _middle(c) >= _SENTENCE]
    texts = sorted(texts, key=lambda c: -c.chars)[:4]
    found: dict[str, list[str]] = {}
    for column in texts:
        code, part = language.detect([text[:_HEAD] for text in column.present[:40]])
        if code and part >= 0.6:
            found.setdefault(f"{code} ({part:.0%})", []).append(_path(column))
    for code, paths in found.items():
        yield f"language detected: {code} in {', '.join(paths)}"


def _middle(column: Column) -> float:
    """Characters of an ordinary text."""
    return column.facts.chars.middle if column.facts.chars else 0


def _path(column: Column) -> str:
    return shown_path(column.path)
