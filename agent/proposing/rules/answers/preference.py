"""Find the better one of two answers: the column that says which one it is."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ingot.agent.proposing.columns import Column
from ingot.agent.proposing.names import spell_name
from ingot.agent.proposing.rules.answers.sides import PREFERS
from ingot.converters.mapping.language import add_pick
from ingot.converters.rows import Json

_SIDE_NAMES = (("0", "1"), ("1", "2"), ("a", "b"))
_TIE = re.compile(r"tie|draw|both|neither|same|equal|none|null|skip")
RATED = re.compile(r"score|rating|votes?|likes|reward|rank")


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Which of two sides a column calls the better one.

    Attributes:
        column: where it says so.
        first: its values that stand for the first side.
        second: its values that stand for the second side; any other value has no better one.
    """

    column: Column
    first: tuple[str, ...]
    second: tuple[str, ...]

    @property
    def pick(self) -> Json:
        """Return the number of the better side as a value of the mapping."""
        if (self.first, self.second) == (("0",), ("1",)):
            return self.column.path
        table = {**dict.fromkeys(self.first, 0), **dict.fromkeys(self.second, 1), "*": None}
        return {"path": self.column.path, "map": table}


def _name_tokens(name: str) -> tuple[str, ...]:
    """The words of a name, a number at its end apart (`output1`)."""
    return tuple(re.findall(r"[^\W\d_]+|\d+", spell_name(name)))


def _unlike_words(first: str, second: str) -> tuple[str, str] | None:
    """The two words in which two names differ, where they differ in one only."""
    ours, theirs = _name_tokens(first), _name_tokens(second)
    if len(ours) == len(theirs) == 1 and not (first + second).isascii():
        ours, theirs = tuple(*ours), tuple(*theirs)  # a script without spaces: 回答甲, 回答乙
    unlike = [(x, y) for x, y in zip(ours, theirs, strict=False) if x != y]
    return unlike[0] if len(ours) == len(theirs) > 1 and len(unlike) == 1 else None


def are_two_sides(first: str, second: str) -> bool:
    """Return whether two names are those of two sides: `reply_a` and `reply_b`, `b` and `a`."""
    pairs = ((first, second), (second, first))
    return any(differing_words(a, b) or (a, b) in _SIDE_NAMES for a, b in pairs)


def differing_words(first: str, second: str) -> tuple[str, str] | None:
    """Return the words in which two names differ, if these number or letter two sides."""
    unlike = _unlike_words(first, second)
    return unlike if unlike in _SIDE_NAMES else None


def _told_by_names(column: Column, sides: tuple[str, str]) -> Verdict | None:
    """What values that name both sides say.

    Beside values that are the very sides others are a tie, whatever they are called; beside
    letters and numbers they may be a third side.
    """
    values, short = sorted(set(column.present)), _are_short(sides)
    if values == ["0", "1"]:
        return Verdict(column=column, first=("0",), second=("1",))
    side_of: dict[str, str] = {}
    for value in values:
        words = set(_name_tokens(value))
        if sum(side in words for side in sides) == 1:
            side_of[value] = next(side for side in sides if side in words)
        elif not _TIE.search(value.lower()) and (short or not {*sides} <= {*values}):
            return None
    first, second = (
        tuple(v for v, side_name in side_of.items() if side_name == side) for side in sides
    )
    return Verdict(column=column, first=first, second=second) if first and second else None


def _are_short(sides: tuple[str, str]) -> bool:
    """Whether sides are numbers or single letters, which may stand for anything."""
    return all(side.isdigit() or (len(side) == 1 and side.isascii()) for side in sides)


def _told_of_one(column: Column, sides: tuple[str, str]) -> Verdict | None:
    """What a column says of one side alone, whether it won: `winner_model_b`."""
    words = _name_tokens(column.name)
    if not {*column.present} <= {"0", "1", "true", "false"} or column.distinct != 2:
        return None
    untrue, truth = sorted(set(column.present))
    won = [side in words for side in sides]
    if won[0] == won[1]:
        return None
    first, second = (untrue, truth) if won[1] else (truth, untrue)
    return Verdict(column=column, first=(first,), second=(second,))


def _rating_columns(
    columns: Sequence[Column], sides: tuple[str, str]
) -> tuple[Column, Column] | None:
    """Numbers that rate both sides: `score_A`, `score_B`."""
    numbers = [c for c in columns if c.nature == "number" and RATED.search(spell_name(c.name))]
    pairs = ((a, b) for a in numbers for b in numbers if differing_words(a.name, b.name) == sides)
    return next(pairs, None)


def _reverse_verdict(verdict: Verdict, rated: tuple[Column, Column] | None) -> Verdict:
    """The verdict the other way round, where the better rating is always on the other side."""
    if rated is None:
        return verdict
    lower = "rank" in spell_name(rated[0].name)
    agree = against = 0
    for choice, x, y in zip(verdict.column.texts, rated[0].texts, rated[1].texts, strict=True):
        try:
            gap = (float(y) - float(x)) * (-1 if lower else 1)
        except ValueError:
            continue
        if gap and choice in (*verdict.first, *verdict.second):
            agree += (gap > 0) == (choice in verdict.second)
            against += (gap > 0) != (choice in verdict.second)
    if against <= 3 * agree:
        return verdict
    return replace(verdict, first=verdict.second, second=verdict.first)


def find_verdict(columns: Sequence[Column], first: str, second: str) -> Verdict | None:
    """Find the column that says which of two texts is better, by the names of the two."""
    sides = _unlike_words(first, second)
    if sides is None:
        return None
    for column in columns:
        if column.many or not 1 < column.distinct <= 6 or column.words > 4:
            continue
        named = PREFERS.search(spell_name(column.name).replace("_", " "))
        verdict = _told_of_one(column, sides) if named and sides in _SIDE_NAMES else None
        telling = [(first, second)] if _are_short(sides) else [(first, second), sides]
        if named or any({*pair} <= set(column.present) for pair in telling):
            verdict = verdict or _told_by_names(column, sides)
        if verdict:
            return _reverse_verdict(verdict, _rating_columns(columns, sides))
    return None


def verdict_columns(columns: Sequence[Column]) -> list[Column]:
    """Return the columns that only say which of two texts is better."""
    texts = [c for c in columns if c.text and not c.many]
    verdicts = (find_verdict(columns, a.name, b.name) for a in texts for b in texts if a is not b)
    return [verdict.column for verdict in verdicts if verdict]


def rival_answer(columns: Sequence[Column], answer: Column) -> Column | None:
    """Return the second of two answers if `answer` is the first."""
    texts = [c for c in columns if c.text and not (c.many or c.nameless or c is answer)]
    rivals = (c for c in texts if find_verdict(columns, answer.name, c.name))
    return next((c for c in texts if differing_words(answer.name, c.name)), next(rivals, None))


def preferred_column(columns: Sequence[Column], answer: Column) -> dict[str, Json] | None:
    """Return a value that takes the better of two answer columns, as each row says."""
    other = rival_answer(columns, answer)
    verdict = find_verdict(columns, answer.name, other.name) if other else None
    if other is None or verdict is None:
        return None
    return add_pick({"concat": [answer.path, other.path]}, verdict.pick)
