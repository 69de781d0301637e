"""Which columns become labels, entity, sample id and features, with reasons, as a YAML draft."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ingot.converters.json_yaml import dump_yaml_line
from ingot.converters.recsys.ctr.draft.cell_shapes import words_of
from ingot.converters.recsys.ctr.draft.column_profile import Profile, Sample


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What becomes of a column."""

    column: str
    role: str
    why: str
    feature: dict[str, Any] | None = None  # as the featuremap has it, None where it is none


def draft_yaml(
    path: str, sample: Sample, table: Sequence[tuple[str, Any, str]], decisions: Sequence[Decision]
) -> str:
    """Return the YAML of a draft; `table` has its keys with values and reasons."""
    features = [one for one in decisions if one.feature is not None]
    left_out = [one for one in decisions if one.role == "left_out"]
    part = "all of its" if sample.whole else "its first"
    name = path.rstrip("/").rpartition("/")[2]
    lines = [
        f"# Drafted by ingot from {_comment_text(name)}: {part} {sample.rows:,} rows.",
        "# Reasons stand beside the lines; read them, and change what you know better.",
    ]
    if sample.rejects:
        lines.append(f"# {sample.rejects:,} lines have another number of cells: rejects.")
    lines.append("table:")
    lines += [f"  {key}: {dump_yaml_line(one)}  # {_comment_text(why)}" for key, one, why in table]
    lines.append("features:")
    lines += [f"  - {dump_yaml_line(one.feature)}  # {_comment_text(one.why)}" for one in features]
    if left_out:
        lines.append("# Left out:")
        lines += [f"#   {_comment_text(o.column)}: {_comment_text(o.why)}" for o in left_out]
    return "\n".join(lines) + "\n"


def _comment_text(text: str) -> str:
    """Text of unknown origin on one line of YAML, where some signs may not stand at all."""
    return "".join(char if char.isprintable() else " " for char in text)[:200]


_CLICKS: Final = (
    ("click", "clicked", "is_click", "is_clicked", "isclick", "clk", "click_label", "y_ctr"),
    ("ctr_label", "label_ctr", "label_click", "has_click", "if_click", "点击", "是否点击"),
    ("label", "target", "y", "is_like", "like", "liked"),
)
_PLAIN_CLICKS = 2  # so many of these groups say nothing but the click
_CONVERSIONS: Final = (
    ("conversion", "converted", "is_conversion", "conv", "cv", "y_cvr", "cvr_label", "label_cvr"),
    ("purchase", "purchased", "is_purchase", "buy", "bought", "is_buy", "购买", "成交"),
    ("order", "ordered", "is_order", "pay", "paid", "is_pay", "install", "installed"),
    ("is_install", "is_installed", "sale", "is_trade", "deal", "label_buy", "label_purchase"),
)
_ENTITIES: Final = (
    ("user_id", "userid", "uid", "user", "user_idx", "log_user_id", "user_hash", "用户", "用户id"),
    ("member_id", "memberid", "customer_id", "customerid", "customer", "buyer_id", "account_id"),
    ("visitor_id", "visitorid", "full_visitor_id", "person_id", "profile_id", "pin", "openid"),
    ("device_id", "deviceid", "device", "imei", "idfa", "gaid", "cookie_id", "cookie", "client_id"),
    ("session_id", "sessionid", "session", "device_ip", "ip"),
)
_PLAIN_ENTITIES = 3
_SAMPLES: Final = (
    ("sample_id", "sampleid", "impression_id", "impressionid", "imp_id", "request_id", "requestid"),
    ("log_id", "logid", "row_id", "rowid", "event_id", "eventid", "record_id", "bid_id"),
    ("id", "sid", "index", "idx", "unnamed_0"),
)
_OUTCOME = re.compile(
    r"(?:^|_)(?:click|clicked|clk|like|liked|follow|followed|share|shared|comment|favou?rite|fav|"
    r"cart|pay|paid|order|ordered|install|installed|purchase|purchased|buy|bought|convert|"
    r"converted|conversion|finish|finished|forward|hate|exposed?|label|skip|skipped)(?:_|$)"
)


def names_click(name: str) -> bool:
    """Return whether a name says that the column is the click, and nothing else."""
    return any(words_of(name) in group for group in _CLICKS[:_PLAIN_CLICKS])


def names_user(name: str) -> bool:
    """Return whether a name says that the column is a person, or an id of one."""
    return any(words_of(name) in group for group in _ENTITIES[:_PLAIN_ENTITIES])


def is_outcome(profile: Profile) -> bool:
    """Return whether a 0/1 column seems to record what happened after the row was shown."""
    return profile.is_label and bool(_OUTCOME.search(words_of(profile.name)))


def find_click(profiles: Sequence[Profile]) -> tuple[Profile | None, str]:
    """Return the column of the click, and what is doubtful about it."""
    found, group = _first_match(_CLICKS, [one for one in profiles if one.is_label])
    if found is None or group < _PLAIN_CLICKS:
        return found, ""
    return found, f"{found.name} is taken as the click"


def find_conversion(profiles: Sequence[Profile], click: Profile) -> Profile | None:
    """Return the column of the conversion."""
    others = [one for one in profiles if one.only_labels and one is not click]
    return _first_match(_CONVERSIONS, others)[0]


def unfilled_conversions(profiles: Sequence[Profile], click: Profile) -> Iterator[str]:
    """Yield advice on columns named like a conversion that hold 0, 1 and empty cells."""
    for one in profiles:
        zeros, ones, others = one.labels
        holes = one is not click and ones and others == one.missing > 0
        if holes and _first_match(_CONVERSIONS, [one])[0]:
            said = f"{one.name} holds 0 or 1 in {zeros + ones:,} rows and nothing in {others:,}"
            yield f"{said}: write 0 there to use it as the conversion"


def find_entity(profiles: Sequence[Profile]) -> tuple[Profile | None, str]:
    """Return the column that splits rows, and what is doubtful about it."""
    able = [one for one in profiles if not one.shape.many and one.tokens.distinct >= 2]
    able = [one for one in able if not one.shape.unread and not one.shape.fraction]
    found, group = _first_match(_ENTITIES, able)
    if found is None:
        named = (one for one in able if re.search(r"(?:^|_)(?:user|uid)", words_of(one.name)))
        found = next(named, None)
        group = 0 if found else group
    if found is None:
        return None, ""
    if found.tokens.distinct >= 0.95 * found.rows:
        return found, f"{found.name} has a value of its own in nearly every row: rows are split"
    if group >= _PLAIN_ENTITIES:
        return found, f"{found.name} is taken as the entity, for want of a user"
    return found, ""


def find_sample(profiles: Sequence[Profile], entity: Profile) -> Profile | None:
    """Return the column of the sample's id: named so, never missing and unique."""
    unique = [
        one
        for one in profiles
        if one is not entity
        and not one.missing
        and not one.shape.many
        and not one.shape.fraction
        and one.tokens.once == one.tokens.distinct >= 2
    ]
    return _first_match(_SAMPLES, unique)[0]


def _first_match(
    groups: Sequence[Sequence[str]], profiles: Sequence[Profile]
) -> tuple[Profile | None, int]:
    named = {words_of(one.name): one for one in reversed(profiles)}
    for number, group in enumerate(groups):
        for name in group:
            if name in named:
                return named[name], number
    return None, len(groups)


_SMALL = 1_000  # distinct tokens that all get an id of their own
_BIG = 20_000  # the most that do, where none is much more frequent than the others
_HEAD = 0.9  # share of the occurrences that the vocabulary of a hybrid holds
_LARGEST_BUCKET = 1 << 23  # the largest of the contract
_GROWTH = 10  # how much longer than the sample a table of unknown length is taken to be
_CONTINUOUS = 50  # more distinct numbers with fractions than this are no categories
_OWN = 0.9  # of the cells: more distinct tokens say nothing about another row
_OWN_ID = 0.98  # the same of ids, as those of items are many
_FEW, _MANY = 50, 20_000  # cells that show it: of all rows or of no id, and of ids in a part
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
    """The separators that most columns have; the others name their own. None: no column has one."""

    token: str | None
    value: str | None


def separators_of(profiles: Sequence[Profile]) -> Separators:
    """Return the separators of a table's lists and values."""
    shapes = [one.shape for one in profiles if not one.shape.unread]
    marks = [[one.separator for one in shapes], [one.value_separator for one in shapes]]
    counts = [Counter(mark for mark in some if mark) for some in marks]
    token, value = (max(one, key=lambda m: (one[m], m)) if one else None for one in counts)
    return Separators(token=token, value=value)


def cardinality(profile: Profile) -> str:
    """Return the number of distinct tokens and the share of cells without one, as text."""
    about = "" if profile.tokens.exact else "about "
    said = [f"{about}{profile.tokens.distinct:,} distinct"]
    if profile.missing:
        said.append(f"{100 * profile.missing / profile.rows:.3g} % missing")
    return ", ".join(said)


def choose_features(
    sample: Sample,
    roles: Mapping[str, str],
    separators: Separators,
    leaks: Mapping[str, str],
    wanted: Sequence[str],
    doubts: list[str],
) -> Iterator[Decision]:
    """Yield a decision on every column that is not a label or an id; `wanted` ones are used."""
    taken: set[str] = set()
    for place, one in enumerate(sample.profiles):
        role, asked = roles.get(one.name), one.name in wanted
        if role not in (None, "entity") and not asked:
            continue
        reason = _unusable_reason(one)
        if reason is None and not asked:
            reason = leaks.get(one.name) or _exclusion_reason(one, whole=sample.whole)
            reason = _ENTITY_REASON if role == "entity" else reason
        if reason is not None:
            if asked or is_outcome(one) or one.name in leaks:
                more = "" if asked else " (`features` uses it anyway)"
                doubts.append(f"{one.name} is left out: {reason}{more}")
            yield Decision(column=one.name, role="left_out", why=reason)
            continue
        doubts += _feature_doubts(one)
        if asked and one.name in leaks:
            doubts.append(f"{one.name} {leaks[one.name]}")
        name = _feature_name(one.name, place, taken)
        feature, why = _draft_feature(one, sample, name, separators)
        yield Decision(column=one.name, role="feature", why=why, feature=feature)


_ENTITY_REASON: Final = "rows are split by it, so that each of its values in valid is unknown (OOV)"


def _unusable_reason(one: Profile) -> str | None:
    """Why no feature can be made of a column."""
    if one.shape.unread:
        return one.shape.unread
    return "no values in the sample" if one.tokens.distinct == 0 else None


def _exclusion_reason(one: Profile, *, whole: bool) -> str | None:
    distinct, held = one.tokens.distinct, one.rows - one.missing
    if distinct == 1 and not one.missing and not one.shape.many:
        return "the same value in every row"
    if is_outcome(one):
        return "0 or 1, and by its name an outcome: it would tell the label"
    if one.shape.fraction and distinct > _CONTINUOUS:
        return f"a measure: {distinct:,} distinct numbers with fractions; there is no bucketing"
    words = words_of(one.name)
    if one.shape.number and distinct > _CONTINUOUS and _MEASURE.search(words):
        return f"by its name a measure: {distinct:,} distinct numbers; there is no bucketing"
    is_id = bool(_ID.search(words))
    enough = held >= (_MANY if is_id and not whole else _FEW)
    if not one.shape.many and enough and distinct > (_OWN_ID if is_id else _OWN) * held:
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


def _draft_feature(
    one: Profile, sample: Sample, name: str, separators: Separators
) -> tuple[dict[str, Any], str]:
    feature: dict[str, Any] = {"name": name, "src": 0, "field": one.name}
    sizes, said = _choose_encoding(one, sample)
    feature |= sizes
    why = [cardinality(one), said]
    if one.shape.many:
        lengths = one.length(0.5), one.length(0.99), one.length(1.0)
        longest = max(1, lengths[1])
        step = 1 if longest <= 10 else 5 if longest <= 50 else 10 if longest <= 200 else 50
        feature["max_len"] = -(-longest // step) * step
        why.append(f"tokens a row: median {lengths[0]}, p99 {lengths[1]}, max {lengths[2]}")
    if one.shape.value_separator is not None:
        feature["use_value"] = True
    for key, own, usual in (
        ("token_separator", one.shape.separator, separators.token),
        ("value_separator", one.shape.value_separator, separators.value),
    ):
        if own and own != usual:
            feature[key] = own
            why.append(f"its own {key}")
    return feature, "; ".join(why)


def _choose_encoding(one: Profile, sample: Sample) -> tuple[dict[str, Any], str]:
    tokens = one.tokens
    distinct, expected = tokens.distinct, _expected_tokens(one, sample)
    grown = f", about {expected:,} expected" if expected > 1.05 * distinct else ""
    head = tokens.holding(_HEAD)
    if expected <= _SMALL:
        return {"encoding": "vocab", "vocab_num_tokens": round_up(expected)}, f"few{grown}"
    if head * 4 <= distinct:
        said = f"the most frequent {head:,} hold {100 * _HEAD:.0f} %{grown}"
        sizes = {"vocab_num_tokens": round_up(head), "hash_bucket": bucket_size(2 * expected)}
        return {"encoding": "hybrid", **sizes}, said
    if expected <= _BIG:
        sizes = {"vocab_num_tokens": round_up(expected)}
        return {"encoding": "vocab", **sizes}, f"evenly frequent{grown}"
    said = f"many, and {100 * tokens.once / max(1, distinct):.0f} % of them once{grown}"
    return {"encoding": "hash", "hash_bucket": bucket_size(4 * expected)}, said


def _expected_tokens(one: Profile, sample: Sample) -> int:
    """Distinct tokens of the whole table as the sample tells; rather too many than too few."""
    distinct = one.tokens.distinct
    if sample.whole or not one.tokens.occurrences:
        return distinct
    longer = sample.total / sample.rows if sample.total else _GROWTH
    new = one.tokens.once / one.tokens.occurrences  # how likely the next one is new (Good, Turing)
    return round(distinct + new * one.tokens.occurrences * math.log(max(1.0, longer)))


def round_up(number: int) -> int:
    """Return the next round number: all up to 20, then 25, 30, 40, 50, ..., 100."""
    if number <= 20:
        return max(1, number)
    unit = 10 ** (len(str(number)) - 1)
    for step in (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10):
        if number <= step * unit:
            return int(step * unit)
    return number


def bucket_size(number: int) -> int:
    """Return the least power of 2 from 64 that holds so many; at most the contract's largest."""
    return min(_LARGEST_BUCKET, max(64, 1 << (number - 1).bit_length()))


def _feature_name(column: str, place: int, taken: set[str]) -> str:
    """A name for a feature's columns that no other has."""
    bare = re.sub(r"[^A-Za-z0-9_]+", "_", column).strip("_")[:90]
    name = f"f0_{bare or f'c{place}'}"
    while taken & {name, f"{name}_idx", f"{name}_val"} or re.sub("_(idx|val)$", "", name) in taken:
        name += f"_{place}"
    taken.add(name)
    return name
