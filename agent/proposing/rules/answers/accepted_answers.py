"""Find the answer that was accepted, in a list of several: by its id, or by a mark in the list."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ingot.agent.proposing.columns import (
    Column,
    View,
    count_wildcards,
    is_path_inside,
    nodes_at,
    parse_finite_number,
    text_of,
)
from ingot.agent.proposing.names import speaker_role, spell_name, verdict_of
from ingot.agent.proposing.rules.answers.sides import answer_strength
from ingot.agent.proposing.rules.text_copies import drop_copies
from ingot.converters.rows import Json

_MOST_KINDS = 6  # values of a column that tells kinds apart
_FEWEST_WORDS = 2
_SHARE = 0.9
_SEVERAL = 3  # rows that show a habit
_LONGER = 1.5  # times as long as the answers beside it is one that was chosen
_FALSE = frozenset({"false", "0", "no"})
_BAD = frozenset({"bad", "gone"})


@dataclass(frozen=True, kw_only=True)
class AcceptedAnswer:
    """The one element of a list that answers.

    Attributes:
        column: its texts, one per row.
        entry: the message of the assistant.
        element: the path of the elements of the list.
        sure: whether a name or a verdict says so.
    """

    column: Column
    entry: dict[str, Json]
    element: str
    sure: bool


@dataclass(frozen=True, kw_only=True)
class Answers:
    """A list of answers: the view of its elements, the row of each, and their texts."""

    view: View
    element: str
    rows: tuple[int, ...]
    body: Column

    def places(self, selected: Sequence[bool]) -> dict[int, list[int]]:
        """Return for each row the numbers of the taken elements among all elements."""
        places: dict[int, list[int]] = {}
        for number, row in enumerate(self.rows):
            if selected[number]:
                places.setdefault(row, []).append(number)
        return places

    @property
    def marks(self) -> list[Column]:
        """Return the columns of scalars that stand beside the text in each element."""
        columns = [c for c in self.view.own if not c.many]
        return [c for c in columns if c is not self.body and c.present]


def find_accepted_answers(view: View) -> list[AcceptedAnswer]:
    """Find the accepted answer of each list of a record, those that a name marks first."""
    accepted_answers = [
        accepted for answers in list_answers(view) for accepted in _judge_answers(view, answers)
    ]
    return sorted(
        accepted_answers,
        key=lambda accepted: (not accepted.sure, -answer_strength(accepted.column)),
    )


def list_answers(view: View, element: str = "") -> Iterator[Answers]:
    """Yield the lists of objects with several texts in a row, or only the list at `element`."""
    for facts in view.facts.paths:
        path = facts.path
        other = element not in ("", path)
        if other or not (
            facts.types.get("object") and path.endswith("[*]") and count_wildcards(path) == 1
        ):
            continue
        elements = [
            (row, node) for row, top in enumerate(view.nodes) for node in nodes_at(path, top)
        ]
        rows = tuple(row for row, _ in elements)
        if not elements or max(Counter(rows).values()) < 2:
            continue
        if not any(_says_words(node.value) for _, node in elements):
            continue
        inner = View.over([node for _, node in elements])
        text_columns = [c for c in inner.own if c.text and not c.many]
        texts = [c for c in drop_copies(text_columns) if c.words >= _FEWEST_WORDS]
        body = max(texts, key=lambda c: (answer_strength(c), c.chars), default=None)
        if body and not _are_turns(inner):
            yield Answers(view=inner, element=path, rows=rows, body=body)


def _says_words(value: Json) -> bool:
    """Whether a text in an object, apart from its lists, can have several words."""
    if isinstance(value, dict):
        return any(map(_says_words, value.values()))
    return isinstance(value, str) and not (value.isascii() and len(value.split(None, 1)) < 2)


def _are_turns(view: View) -> bool:
    """Whether a field of the elements names both speakers of a conversation."""
    column_roles = [
        {speaker_role(text) for text in set(c.present)} for c in view.columns if not c.many
    ]
    return any({"user", "assistant"} <= roles for roles in column_roles)


def _judge_answers(view: View, answers: Answers) -> Iterator[AcceptedAnswer]:
    yield from _looked_up_answers(view, answers)
    for where, selected, sure in marked_elements(answers):
        places = answers.places(selected)
        if len(places) >= _SHARE * len(view.nodes) / 2 and _single(places):
            entry = {"each": answers.element, "where": where}
            yield _make_accepted(view, answers, entry, answers.body.path, places, sure=sure)


def _single(places: dict[int, list[int]]) -> bool:
    return all(len(numbers) == 1 for numbers in places.values())


def _make_accepted(
    view: View,
    answers: Answers,
    entry: dict[str, Json],
    content: Json,
    places: dict[int, list[int]],
    *,
    sure: bool,
) -> AcceptedAnswer:
    """The accepted answers as a column of the rows."""
    path = f"{answers.element}.{answers.body.path}".replace(".[", "[")
    texts = [
        [v for n in places.get(row, ()) for v in answers.body.values[n][:1]]
        for row in range(len(view.nodes))
    ]
    column = Column(
        path=path,
        facts=answers.body.facts,
        position=len(view.columns),
        many=False,
        values=tuple(map(tuple, texts)),
    )
    whole = {**entry, "role": "assistant", "content": content}
    return AcceptedAnswer(column=column, entry=whole, element=answers.element, sure=sure)


def _looked_up_answers(view: View, answers: Answers) -> Iterator[AcceptedAnswer]:
    """The answers whose id stands in a column of the row."""
    head = answers.element.removesuffix("[*]")
    outside = [
        c for c in view.columns if not c.many and c.present and not is_path_inside(c.path, head)
    ]
    keys = [key for key in answers.marks if _tells_apart(key, answers)]
    pointed = {column.path: _pointing_rows(column) for column in outside} if keys else {}
    for key in keys:
        number = {
            (row, repr(keys[:1])): n
            for n, (row, keys) in enumerate(zip(answers.rows, key.values, strict=True))
        }
        for column in outside:
            places = _find_pointed(number, pointed[column.path])
            named = max(map(column.named, ("chosen", "answer", "good"))) >= 0.5
            if not places or not (named or _chooses(answers, places)):
                continue
            sure = named or _says_more(answers, places)
            value = {"lookup": answers.element, "key": key.path, "of": column.path}
            content: Json = {**value, "take": answers.body.path}
            yield _make_accepted(view, answers, {}, content, places, sure=sure)


def _tells_apart(key: Column, answers: Answers) -> bool:
    """Whether a field is the id of an element: another one in each."""
    foreign = max(key.named_own("foreign_id"), key.named("author"), key.named("time")) >= 0.8
    return key.distinct == len(answers.rows) and not foreign


def _pointing_rows(column: Column) -> dict[tuple[int, str], None]:
    """The rows in which a column holds something, each with how that is spelt in Python."""
    texts = enumerate(column.texts)
    return dict.fromkeys((row, repr(column.values[row][:1])) for row, text in texts if text)


def _find_pointed(
    number: dict[tuple[int, str], int], pointed: dict[tuple[int, str], None]
) -> dict[int, list[int]]:
    """Per row the element whose key stands in a column; empty where it mostly is no key of one."""
    enough = max(1, _SHARE * len(pointed))
    if len(number.keys() & pointed.keys()) <= enough:
        return {}
    return {text[0]: [number[text]] for text in pointed if text in number}


def _chooses(answers: Answers, places: dict[int, list[int]]) -> bool:
    """Whether what is taken is neither always the first nor always the last element."""
    first = {row: n for n, row in reversed(list(enumerate(answers.rows)))}
    last = {row: n for n, row in enumerate(answers.rows)}
    several = [(row, n) for row, (n, *_) in places.items() if first[row] != last[row]]
    ends = [{n == end[row] for row, n in several} for end in (first, last)]
    return len(several) > 1 and all(False in end for end in ends)


def _says_more(answers: Answers, places: dict[int, list[int]]) -> bool:
    """Whether what is taken in several rows is clearly longer than what is left beside it."""
    selected = {n for numbers in places.values() for n in numbers}
    chars = [len(text) for text in answers.body.texts]
    left = [n for n, row in enumerate(answers.rows) if row in places and n not in selected]
    means = [sum(chars[n] for n in numbers) / max(1, len(numbers)) for numbers in (selected, left)]
    return len(places) >= _SEVERAL and bool(left) and means[0] >= _LONGER * means[1]


def marked_elements(answers: Answers) -> Iterator[tuple[list[Json], list[bool], bool]]:
    """Yield conditions of the accepted element, what each one takes, and whether words say so."""
    for mark in answers.marks:
        accepted, sure = _accepted_values(mark, answers)
        if not accepted:
            accepted, sure = _exclusive_values(mark, answers)
        if not accepted:
            continue
        selected = [bool(values) and values[0] in accepted for values in mark.values]
        where: list[Json] = [{"path": mark.path, "in": accepted}]
        if not _single(answers.places(selected)):
            more, selected = _narrow_to_kind(answers, mark, selected)
            where += more
        yield where, selected, sure


def _accepted_values(mark: Column, answers: Answers) -> tuple[list[Json], bool]:
    """The values of a mark that accept an element, and whether the name or the words say so."""
    values = {
        text_of(values[0]): values[0] for values in mark.values if values and text_of(values[0])
    }
    if len(values) < 2 or len(values) > _MOST_KINDS:
        return [], False
    words = spell_name(mark.name).removeprefix("is_")
    named = max(map(mark.named, ("good", "chosen"))) >= 0.8 or verdict_of(words) == "good"
    if set(values) <= {"true", "false", "1", "0"}:
        return [values[max(values)]] if named else [], named
    if mark.numeric:
        return _top_values(mark, answers), named or mark.named("quality") < 0.5
    good = [value for text, value in values.items() if verdict_of(text) == "good"]
    return good if len(good) < len(values) else [], True


def _exclusive_values(mark: Column, answers: Answers) -> tuple[list[Json], bool]:
    """The value of a mark that one element at most has in each row, wherever that stands."""
    counts = mark.numeric and not set(mark.present) <= {"0", "1", "false", "true"}
    if (
        counts
        or mark.distinct > _MOST_KINDS
        or mark.words > _FEWEST_WORDS
        or _BAD.intersection(map(verdict_of, (spell_name(mark.name), *set(mark.present))))
    ):
        return [], False
    places_by_text: dict[str, dict[int, list[int]]] = {}
    for text in set(mark.present) - _FALSE:
        places = answers.places([text == mark for mark in mark.texts])
        enough = 2 * len(places) > len(set(answers.rows))
        if enough and _single(places) and _chooses(answers, places):
            places_by_text[text] = places
    value = next((h[0] for h in mark.values if h and text_of(h[0]) in places_by_text), None)
    if len(places_by_text) != 1 or value is None:
        return [], False
    return [value], _says_more(answers, *places_by_text.values())


def _top_values(mark: Column, answers: Answers) -> list[Json]:
    """The highest number, where every row has one element with it: a share of the points."""
    numbers = [parse_finite_number(text) for text in mark.texts]
    top = max((n for n in numbers if n is not None), default=0.0)
    places = answers.places([n == top for n in numbers])
    whole = top in (1.0, 100.0) and len(places) == len(set(answers.rows)) > 2
    wanted = {
        repr(values[0]): values[0]
        for values, n in zip(mark.values, numbers, strict=True)
        if n == top
    }
    return list(wanted.values()) if whole else []


def _narrow_to_kind(
    answers: Answers, mark: Column, selected: list[bool]
) -> tuple[list[Json], list[bool]]:
    """The condition on the kind of the elements that hold the texts: `question`, `type`."""
    kinds = [c for c in answers.marks if c is not mark and 1 < c.distinct <= _MOST_KINDS]
    for column in kinds:
        chars = Counter[str]()
        for text, answer_text, is_selected in zip(
            column.texts, answers.body.texts, selected, strict=True
        ):
            chars[text] += len(answer_text) * is_selected
        kind = max(chars, key=lambda text: chars[text])
        left = [
            is_selected and text == kind
            for is_selected, text in zip(selected, column.texts, strict=True)
        ]
        value = next(
            (values[0] for values in column.values if values and text_of(values[0]) == kind), None
        )
        if value is not None and _single(answers.places(left)):
            return [{"path": column.path, "in": [value]}], left
    return [], selected
