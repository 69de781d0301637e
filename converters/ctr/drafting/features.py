"""Which columns of a table become features, and how each is encoded, with the reasons."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ingot.converters.ctr.drafting.profile import Profile, Sample
from ingot.converters.ctr.drafting.roles import is_outcome
from ingot.converters.ctr.drafting.shapes import words_of
from ingot.converters.ctr.drafting.text import Decision

_SMALL = 1_000  # distinct tokens that all get an id of their own
_BIG = 20_000  # the most that do, where none is much more frequent than the others
_HEAD = 0.9  # share of the occurrences that the vocabulary of a hybrid holds
_LARGEST_BUCKET = 1 << 23  # the largest of the contract
_GROWTH = 10  # how much longer than the sample a table of unknown length is taken to be
_CONTINUOUS = 50  # more distinct numbers with fractions than this are no categories
_OWN = 0.9  # of the cells: more distinct tokens say nothing about another row
_MEASURE = re.compile(
    r"(?:^|_)(?:price|amount|cnt|count|num|score|duration|length|size|income|rate|ratio|prob|"
    r"balance|total|sum|avg|mean|std|bid|cost|fee|salary|distance|seconds?|ms|views?|visits?)(?:_|$)"
)
_AFTERWARDS = re.compile(
    r"(?:^|_)(?:rating|stars|dwell|stay|watch|watched|play|played|completion|revenue|gmv)(?:_|$)"
)
_ID = re.compile(r"(?:^|_)(?:id|ids|uid|sku|spu|code|key|hash|idx|md5)(?:_|$)|id$")


@dataclass(frozen=True, kw_only=True)
class Separators:
    """The separators that most columns have: a table has one of each."""

    token: str | None
    value: str | None


def separators_of(profiles: Sequence[Profile]) -> Separators:
    """The separators of a table's lists and values."""
    return Separators(
        token=_usual([one.shape.separator for one in profiles if not one.shape.unread]),
        value=_usual([one.shape.value_separator for one in profiles if not one.shape.unread]),
    )


def _usual(marks: Sequence[str | None]) -> str | None:
    counts = Counter(mark for mark in marks if mark)
    return max(counts, key=lambda mark: (counts[mark], mark)) if counts else None


def cardinality(profile: Profile) -> str:
    """Distinct tokens and the share of cells without one."""
    about = "" if profile.tokens.exact else "about "
    said = [f"{about}{profile.tokens.distinct:,} distinct"]
    if profile.missing:
        said.append(f"{100 * profile.missing / profile.rows:.3g} % missing")
    return ", ".join(said)


def features(
    sample: Sample, roles: Mapping[str, str], separators: Separators, doubts: list[str]
) -> Iterator[Decision]:
    """What becomes of every column that is no label and no sample's id.

    Args:
        sample: of the table.
        roles: of columns that have one.
        separators: those of the table.
        doubts: what a person should look at is added to it.
    """
    taken: set[str] = set()
    for place, one in enumerate(sample.profiles):
        role = roles.get(one.name)
        if role not in (None, "entity"):
            continue
        odd = _other_separator(one, separators)
        reason = _left_out(one, role == "entity") or odd
        if reason is not None:
            if odd or is_outcome(one):
                doubts.append(f"{one.name} is left out: {reason}")
            yield Decision(column=one.name, role="left_out", why=reason)
            continue
        doubts += _feature_doubts(one)
        feature, why = _feature(one, sample, _name(one.name, place, taken))
        yield Decision(column=one.name, role="feature", why=why, feature=feature)


def _other_separator(one: Profile, separators: Separators) -> str | None:
    """Why its lists cannot be read with the table's separators, None where they can."""
    for own, usual in (
        (one.shape.separator, separators.token),
        (one.shape.value_separator, separators.value),
    ):
        if own and own != usual:
            return f"its separator is {own!r}, and that of more columns is {usual!r}"
    return None


def _left_out(one: Profile, is_entity: bool) -> str | None:
    """Why a column is no feature, None where it is one."""
    distinct, held = one.tokens.distinct, one.rows - one.missing
    if one.shape.unread:
        return one.shape.unread
    if distinct == 0:
        return "no values in the sample"
    if distinct == 1 and not one.missing and not one.shape.many:
        return "the same value in every row"
    if is_outcome(one):
        return "0 or 1, and by its name an outcome: it would tell the label"
    if one.shape.fraction and distinct > _CONTINUOUS:
        return f"a measure: {distinct:,} distinct numbers with fractions; there is no bucketing"
    words = words_of(one.name)
    if one.shape.number and distinct > _CONTINUOUS and _MEASURE.search(words):
        return f"by its name a measure: {distinct:,} distinct numbers; there is no bucketing"
    own = not one.shape.many and held >= 50 and distinct > _OWN * held
    if own and not is_entity and not _ID.search(words):
        return f"nearly every row has its own: {distinct:,} distinct in {held:,}"
    return None


def _feature_doubts(one: Profile) -> Iterator[str]:
    if one.shape.doubt:
        yield f"{one.name}: {one.shape.doubt}"
    plain = one.shape.number and not one.shape.fraction and not _ID.search(words_of(one.name))
    if plain and one.tokens.distinct > _SMALL and not one.shape.many:
        yield f"{one.name}: whole numbers, taken as ids; leave it out if it measures something"
    if _AFTERWARDS.search(words_of(one.name)):
        yield f"{one.name}: is it known before the row is shown? else it tells the label"
    if one.missing > 0.99 * one.rows:
        yield f"{one.name}: {100 * one.missing / one.rows:.4g} % missing"
    if one.odd:
        yield f"{one.name}: {one.odd:,} tokens have no value that is a number: they are dropped"


def _feature(one: Profile, sample: Sample, name: str) -> tuple[dict[str, Any], str]:
    feature: dict[str, Any] = {"name": name, "src": 0, "field": one.name}
    sizes, said = _encoding(one, sample)
    feature |= sizes
    why = [cardinality(one), said]
    if one.shape.many:
        lengths = one.length(0.5), one.length(0.99), one.length(1.0)
        feature["max_len"] = _round_length(max(1, lengths[1]))
        why.append(f"tokens a row: median {lengths[0]}, p99 {lengths[1]}, max {lengths[2]}")
    if one.shape.value_separator is not None:
        feature["use_value"] = True
    return feature, "; ".join(why)


def _encoding(one: Profile, sample: Sample) -> tuple[dict[str, Any], str]:
    """The encoding with its sizes, and why."""
    tokens = one.tokens
    distinct, expected = tokens.distinct, _expected(one, sample)
    grown = f", about {expected:,} expected" if expected > 1.05 * distinct else ""
    head = tokens.holding(_HEAD)
    if expected <= _SMALL:
        return {"encoding": "vocab", "vocab_num_tokens": round_up(expected)}, f"few{grown}"
    if head * 4 <= distinct:
        said = f"the most frequent {head:,} hold {100 * _HEAD:.0f} %{grown}"
        sizes = {"vocab_num_tokens": round_up(head), "hash_bucket": _bucket(2 * expected)}
        return {"encoding": "hybrid", **sizes}, said
    if expected <= _BIG:
        sizes = {"vocab_num_tokens": round_up(expected)}
        return {"encoding": "vocab", **sizes}, f"evenly frequent{grown}"
    said = f"many, and {100 * tokens.once / max(1, distinct):.0f} % of them once{grown}"
    return {"encoding": "hash", "hash_bucket": _bucket(4 * expected)}, said


def _expected(one: Profile, sample: Sample) -> int:
    """Distinct tokens of the whole table, as far as the sample tells.

    The share of tokens that occurred once is the share that the next token is a new one with (Good
    and Turing); it falls as more are seen, so this is rather too many than too few.
    """
    distinct = one.tokens.distinct
    if sample.whole or not one.tokens.occurrences:
        return distinct
    longer = sample.total / sample.rows if sample.total else _GROWTH
    new = one.tokens.once / one.tokens.occurrences
    return round(distinct + new * one.tokens.occurrences * math.log(max(1.0, longer)))


def round_up(number: int) -> int:
    """The next number that people would choose: all up to 20, then 25, 30, 40, 50, ..., 100."""
    if number <= 20:
        return max(1, number)
    unit = 10 ** (len(str(number)) - 1)
    for step in (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10):
        if number <= step * unit:
            return int(step * unit)
    return number


def _bucket(number: int) -> int:
    return min(_LARGEST_BUCKET, max(64, 1 << (number - 1).bit_length()))


def _round_length(number: int) -> int:
    step = 1 if number <= 10 else 5 if number <= 50 else 10 if number <= 200 else 50
    return -(-number // step) * step


def _name(column: str, place: int, taken: set[str]) -> str:
    """A name for a feature's columns that no other has."""
    bare = re.sub(r"[^A-Za-z0-9_]+", "_", column).strip("_")[:90]
    name = f"f0_{bare or f'c{place}'}"
    while taken & {name, f"{name}_idx", f"{name}_val"} or re.sub("_(idx|val)$", "", name) in taken:
        name += f"_{place}"
    taken.add(name)
    return name
