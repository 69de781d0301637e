"""Compute how columns belong together: speakers, groups, options, containment, keys."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, islice, pairwise
from typing import TypeVar

from ingot.agent.privacy.redaction import display_path
from ingot.agent.proposing.columns import Column, View, list_path, parent_path, text_of
from ingot.agent.proposing.llm.inventory import role_shares, role_values, short_text
from ingot.agent.proposing.names import CLEAR
from ingot.agent.proposing.readings import rows_by_shape
from ingot.agent.proposing.rules.answers import answer_keys, multiple_choice, sides
from ingot.converters.paths import join_path
from ingot.converters.rows import Json

_MOST_COLUMNS = 40  # that are compared with each other
_DEEPEST = 60  # objects inside each other that are looked into


def _row_kind_lines(rows: Sequence[Json]) -> Iterator[str]:
    parts = rows_by_shape(rows)
    told = []
    for part in parts:
        keys = dict.fromkeys(key for row in part for key in row)
        named = ", ".join(display_path(join_path(str(key))) for key in list(keys)[:8])
        told.append(f"{len(part)} rows with {named}")
    if told:
        yield f"rows are of {len(parts)} kinds: " + " | ".join(told)


def _nesting_lines(rows: Sequence[Json], view: View) -> Iterator[str]:
    """How deep a shape that holds itself goes, as a reply tree does."""
    if any(facts.cut for facts in view.facts.paths):
        deepest = max(map(_nested_depth, rows))
        yield f"objects of one shape stand inside each other, up to {deepest} deep"


def _nested_depth(value: Json, around: tuple[frozenset[str], ...] = ()) -> int:
    """The most objects with the same keys that stand inside each other."""
    if len(around) >= _DEEPEST or not isinstance(value, dict | list):
        return 0
    if isinstance(value, list):
        return max((_nested_depth(one, around) for one in value), default=0)
    here = (*around, frozenset(value))
    own = here.count(here[-1]) if len(value) > 1 else 0
    return max([own, *(_nested_depth(one, here) for one in value.values())])


def _speaker_lines(rows: Sequence[Json], view: View, share: str) -> Iterator[str]:
    """Who speaks in lists of messages: by turns or not, who begins and ends."""
    for column in (c for c in view.columns if c.nested):
        talks = [[str(v) for v in row if v is not None] for row in column.values]
        talks = [talk for talk in talks if talk]
        if not talks or len(role_values(rows, column.facts) or ()) < 2:
            continue
        strict = sum(_alternates(talk) for talk in talks)
        ends = (Counter(t[0] for t in talks), Counter(t[-1] for t in talks))
        begin, end = (role_shares(count, share, 4) for count in ends)
        yield (
            f"{display_path(column.path)}: neighbours differ "
            f"{_share_phrase(strict, len(talks))} lists; first {begin}; last {end}"
        )


def _group_lines(columns: Sequence[Column]) -> Iterator[str]:
    """Columns whose values come in runs of neighbouring rows, as those of a conversation do."""
    flat = [c for c in columns if not c.many and c.fill == 1 and len(c.texts) >= 6]
    for column in flat:
        starts = (n for n, pair in enumerate(pairwise(column.texts), 1) if pair[0] != pair[1])
        runs = list(pairwise([0, *starts, len(column.texts)]))
        repeated = 2 <= column.distinct < len(column.texts)
        if not repeated or len(runs) != column.distinct or len(runs) * 1.5 > len(column.texts):
            continue
        counting = [one for one in flat if one is not column and _numbers_restart(one, runs)]
        order = ", ".join(map(_shown_path, counting[:2]))
        turns = ", ".join(_shown_path(one) for one in flat if _values_alternate(one, runs))
        named = column.named("id") > _MOST_ROWS or column.named("foreign_id") > 0
        if not (order or turns or named):
            continue
        sizes = [stop - start for start, stop in runs]
        told = f"rows with the same {_shown_path(column)} are neighbours"
        counted = f"; {order} counts up inside them" if order else ""
        counted += f"; {turns} takes turns between two values inside them" if turns else ""
        yield f"{told}, {min(sizes)}-{max(sizes)} rows each{counted}"


def _numbers_restart(column: Column, runs: Sequence[tuple[int, int]]) -> bool:
    """Whether numbers grow by one inside every run, and restart."""
    if not column.numeric or column.distinct == len(column.texts):
        return False
    numbers = [int(text) if text.strip("-").isdecimal() else None for text in column.texts]
    inside = [pair for start, stop in runs for pair in pairwise(numbers[start:stop])]
    return bool(inside) and all(a is not None and b == a + 1 for a, b in inside)


def _values_alternate(column: Column, runs: Sequence[tuple[int, int]]) -> bool:
    """Whether two values take turns inside every run."""
    talks = [column.texts[start:stop] for start, stop in runs if stop - start > 1]
    return any(len(talk) > 2 for talk in talks) and all(
        len(set(talk)) == 2 and _alternates(talk) for talk in talks
    )


def _alternates(talk: Sequence[str]) -> bool:
    return all(a != b for a, b in pairwise(talk))


def _share_phrase(good: int, whole: int) -> str:
    """A share in words, with what it is a share of."""
    return f"in {good / whole:.0%} of {whole}" if good < whole else f"in all {whole}"


_COMPARED = 100  # rows
_MOST_ROWS = 0.8
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

T = TypeVar("T", str, list[str])


def relation_lines(rows: Sequence[Json], view: View, share: str) -> list[str]:
    """Return what was found, the most useful first: paths, shares, and names of speakers."""
    columns = view.columns[:_MOST_COLUMNS]
    found = [
        *_row_kind_lines(rows),
        *_nesting_lines(rows, view),
        *_speaker_lines(rows, view, share),
        *_group_lines(columns),
        *_option_lines(view, columns),
        *_key_lines(columns),
        *_containment_lines(columns),
        *_element_lines(columns),
        *_parallel_lines(columns),
        *_condition_lines(columns, share),
        *_even_length_lines(columns),
        *_language_lines(columns),
    ]
    return list(dict.fromkeys(found))


def _option_lines(view: View, columns: Sequence[Column]) -> Iterator[str]:
    """Answers that name one of several options; questions that hold their options."""
    for column in columns:
        if not column.many and column.text and multiple_choice.has_inline_options(column.present):
            yield f"{_shown_path(column)} already holds lettered options"
    options = multiple_choice.find_options(view, columns)
    unnamed = None if options else multiple_choice.find_unnamed_choice(columns)
    if unnamed:
        question, answer, options = unnamed
        named = ", ".join(map(display_path, sorted(options.paths)))
        relation = f"{_shown_path(answer)} {_NAMES['key']} ({named})"
        yield f"{relation}; question perhaps {_shown_path(question)}"
        return
    if options is None:
        return
    for column in columns:
        if column.path in options.paths and column.looks("option") >= _MOST_ROWS:
            yield f"{_shown_path(column)} carry their letters already"
        fixed = column.distinct < 2 or column.path in options.paths
        present = len(column.present)
        numbering = present > 3 and column.distinct == present and column.numeric
        if column.many or fixed or numbering:
            continue
        how = answer_keys.answer_reference(options, column)
        if how and not (how.startswith("place") and column.distinct > max(map(len, options.keys))):
            named = ", ".join(map(display_path, sorted(options.paths)))
            yield f"{_shown_path(column)} {_NAMES[how]} ({named})"


def _containment_lines(columns: Sequence[Column]) -> Iterator[str]:
    """One text equals, begins with, ends with or contains another one."""
    flat = [c for c in columns if not c.many and (c.text or c.nature in ("number", "label"))]
    heads = {c.path: [t.strip()[:_HEAD] for t in c.texts[:_COMPARED]] for c in flat}
    for one, other in combinations(flat, 2):
        small, large = sorted((one, other), key=lambda c: c.chars)
        if not large.text:
            continue
        if said := _closest_relation(heads[large.path], heads[small.path]):
            yield f"{_shown_path(large)} {said[0]} {_shown_path(small)} {said[1]} rows"


_TESTS: tuple[tuple[str, Callable[[str, str], bool]], ...] = (
    ("equals", lambda large, small: large == small),
    ("begins with", lambda large, small: large.startswith(small)),
    ("ends with", lambda large, small: large.endswith(small)),
    ("contains", lambda large, small: small in large),
)


def _closest_relation(large: Sequence[str], small: Sequence[str]) -> tuple[str, str] | None:
    """The closest of the relations that holds for most rows with both texts, and its share."""
    both = [(a, b) for a, b in zip(large, small, strict=True) if a and b]
    if len(both) < max(2, 0.1 * len(large)) or len({b for _, b in both}) < _VARIED:
        return None
    short = sum(len(b) < _SHORT for _, b in both) > 0.5 * len(both)
    return _first_that_holds(_TESTS[2:3] if short else _TESTS, both)


def _first_that_holds(
    tests: Sequence[tuple[str, Callable[[str, T], bool]]], pairs: Sequence[tuple[str, T]]
) -> tuple[str, str] | None:
    for name, test in tests:
        good = sum(test(one, other) for one, other in pairs)
        if good >= _MOST_ROWS * len(pairs):
            return name, _share_phrase(good, len(pairs))
    return None


def _element_lines(columns: Sequence[Column]) -> Iterator[str]:
    """Texts that are, or hold, the elements of a list."""
    lists = [c for c in columns if c.many and c.text]
    for column in (c for c in columns if not c.many and c.text):
        for held in lists:
            rows = [
                (text.strip(), [told for v in row if (told := text_of(v).strip())])
                for text, row in islice(zip(column.texts, held.values, strict=True), _COMPARED)
            ]
            rows = [(text, inside) for text, inside in rows if text and inside]
            if len(rows) > 1 and (said := _first_that_holds(_LIST_TESTS, rows)):
                yield f"{_shown_path(column)} {said[0]} {_shown_path(held)} {said[1]} rows"


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


def _parallel_lines(columns: Sequence[Column]) -> Iterator[str]:
    """Lists beside each other that have the same lengths in all rows."""
    lists: dict[str, list[int]] = {}
    for column in (c for c in columns if c.many):
        lists.setdefault(list_path(column.path), [len(row) for row in column.values])
    for (one, a), (other, b) in combinations(lists.items(), 2):
        beside = parent_path(one) == parent_path(other)
        if beside and a == b and len(set(a)) > 1 and max(a) > 1:
            yield f"{display_path(one)} and {display_path(other)} have the same length in all rows"


def _condition_lines(columns: Sequence[Column], share: str) -> Iterator[str]:
    """Columns that are filled exactly where another one of few values says so."""
    few = [c for c in columns if not c.many and 2 <= c.distinct <= 6 and c.nature != "text"]
    found: dict[str, list[str]] = {}
    for part in (c for c in columns if not c.many and 0.05 < c.fill < 0.95 and c.text):
        for label in few:
            pairs = {(a, bool(b.strip())) for a, b in zip(label.texts, part.texts, strict=True)}
            if len(dict(pairs)) == len(pairs) and len(label.present) > 6:
                values = [short_text(a) for a, filled in sorted(pairs) if filled]
                told = '" or "'.join(values)
                told = f'filled where {_shown_path(label)} is "{told}"'
                if share == "none":
                    told = f"whether filled follows from {_shown_path(label)}"
                found.setdefault(told, []).append(_shown_path(part))
                break
    for told, parts in found.items():
        yield f"{', '.join(parts)}: {told}"


def _key_lines(columns: Sequence[Column]) -> Iterator[str]:
    """Values that name an element of a list of the same row by its key."""
    for key in (c for c in columns if c.nested and c.named_own("speaker") < CLEAR):
        doubled = any(len(set(row)) < len(row) for row in key.values)
        if doubled or (key.text and key.named("id") < _MOST_ROWS):
            continue
        for column in (c for c in columns if c.distinct >= _VARIED):
            rows = [
                ({text_of(value) for value in said} - {""}, {text_of(value) for value in keys})
                for said, keys in zip(column.values, key.values, strict=True)
            ]
            rows = [(said, keys) for said, keys in rows if said and len(keys) > 1]
            good = sum(said <= keys for said, keys in rows)
            apart = not column.many or list_path(column.path) != list_path(key.path)
            if apart and len(rows) >= _VARIED and good >= _MOST_ROWS * len(rows):
                told = f"{_shown_path(column)} names an element by its {_shown_path(key)}"
                yield f"{told} {_share_phrase(good, len(rows))} rows"


def _even_length_lines(columns: Sequence[Column]) -> Iterator[str]:
    """Lists of texts whose lengths are all even, as those of questions and answers are."""
    for column in (c for c in columns if c.many and c.text):
        sizes = [len(row) for row in column.values if row]
        if len(sizes) < 3 or len(set(sizes)) < 2:
            continue
        even = sum(size % 2 == 0 for size in sizes)
        if not even or even >= 0.9 * len(sizes):
            kind, share = "even" if even else "odd", _share_phrase(even or len(sizes), len(sizes))
            named = display_path(list_path(column.path))
            yield f"{named} has an {kind} number of elements {share} rows"


def _language_lines(columns: Sequence[Column]) -> Iterator[str]:
    long = [c for c in columns if c.text and c.chars >= _MUCH and c.facts.chars]
    texts = [c for c in long if c.facts.chars and c.facts.chars.middle >= _SENTENCE]
    found: dict[str, list[str]] = {}
    for column in sorted(texts, key=lambda c: -c.chars)[:4]:
        code, part = sides.detect_language([text[:_HEAD] for text in column.present[:40]])
        if code and part >= 0.6:
            found.setdefault(f"{code} ({part:.0%})", []).append(_shown_path(column))
    for code, paths in found.items():
        yield f"language detected: {code} in {', '.join(paths)}"


def _shown_path(column: Column) -> str:
    return display_path(column.path)
