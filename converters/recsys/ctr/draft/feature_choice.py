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
    lines += [
        f"  {key}: {dump_yaml_line(one)}  # {_comment_text(reason)}" for key, one, reason in table
    ]
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
    profile, group = _first_match(_CLICKS, [one for one in profiles if one.is_label])
    if profile is None or group < _PLAIN_CLICKS:
        return profile, ""
    return profile, f"{profile.name} is taken as the click"


def find_conversion(profiles: Sequence[Profile], click: Profile) -> Profile | None:
    """Return the column of the conversion."""
    candidates = [one for one in profiles if one.only_labels and one is not click]
    return _first_match(_CONVERSIONS, candidates)[0]


def unfilled_conversions(profiles: Sequence[Profile], click: Profile) -> Iterator[str]:
    """Yield advice on columns named like a conversion that hold 0, 1 and empty cells."""
    for one in profiles:
        negatives, positives, empty = one.labels
        holes = one is not click and positives and empty == one.missing > 0
        if holes and _first_match(_CONVERSIONS, [one])[0]:
            counts_text = (
                f"{one.name} holds 0 or 1 in {negatives + positives:,} rows "
                f"and nothing in {empty:,}"
            )
            yield f"{counts_text}: write 0 there to use it as the conversion"


def find_entity(profiles: Sequence[Profile]) -> tuple[Profile | None, str]:
    """Return the column that splits rows, and what is doubtful about it."""
    candidates = [one for one in profiles if not one.shape.many and one.tokens.distinct >= 2]
    candidates = [one for one in candidates if not one.shape.unread and not one.shape.fraction]
    profile, group = _first_match(_ENTITIES, candidates)
    if profile is None:
        by_name = (
            one for one in candidates if re.search(r"(?:^|_)(?:user|uid)", words_of(one.name))
        )
        profile = next(by_name, None)
        group = 0 if profile else group
    if profile is None:
        return None, ""
    if profile.tokens.distinct >= 0.95 * profile.rows:
        return profile, f"{profile.name} has a value of its own in nearly every row: rows are split"
    if group >= _PLAIN_ENTITIES:
        return profile, f"{profile.name} is taken as the entity, for want of a user"
    return profile, ""


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
    by_words = {words_of(one.name): one for one in reversed(profiles)}
    for number, group in enumerate(groups):
        for name in group:
            if name in by_words:
                return by_words[name], number
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
    counts = [Counter(mark for mark in column_marks if mark) for column_marks in marks]
    token, value = (max(one, key=lambda m: (one[m], m)) if one else None for one in counts)
    return Separators(token=token, value=value)


def cardinality(profile: Profile) -> str:
    """Return the number of distinct tokens and the share of cells without one, as text."""
    prefix = "" if profile.tokens.exact else "about "
    texts = [f"{prefix}{profile.tokens.distinct:,} distinct"]
    if profile.missing:
        texts.append(f"{100 * profile.missing / profile.rows:.3g} % missing")
    return ", ".join(texts)


def choose_features(
    sample: Sample,
    roles: Mapping[str, str],
    separators: Separators,
    leaks: Mapping[str, str],
    requested: Sequence[str],
    doubts: list[str],
) -> Iterator[Decision]:
    """Yield a decision on every column that is not a label or an id; `requested` ones are used."""
    used_names: set[str] = set()
    for number, profile in enumerate(sample.profiles):
        role, is_requested = roles.get(profile.name), profile.name in requested
        if role not in (None, "entity") and not is_requested:
            continue
        reason = _unusable_reason(profile)
        if reason is None and not is_requested:
            reason = leaks.get(profile.name) or _exclusion_reason(profile, complete=sample.whole)
            reason = _ENTITY_REASON if role == "entity" else reason
        if reason is not None:
            if is_requested or is_outcome(profile) or profile.name in leaks:
                hint = "" if is_requested else " (`features` uses it anyway)"
                doubts.append(f"{profile.name} is left out: {reason}{hint}")
            yield Decision(column=profile.name, role="left_out", why=reason)
            continue
        doubts += _feature_doubts(profile)
        if is_requested and profile.name in leaks:
            doubts.append(f"{profile.name} {leaks[profile.name]}")
        name = _feature_name(profile.name, number, used_names)
        feature, reason_text = _draft_feature(profile, sample, name, separators)
        yield Decision(column=profile.name, role="feature", why=reason_text, feature=feature)


_ENTITY_REASON: Final = "rows are split by it, so that each of its values in valid is unknown (OOV)"


def _unusable_reason(profile: Profile) -> str | None:
    """Why no feature can be made of a column."""
    if profile.shape.unread:
        return profile.shape.unread
    return "no values in the sample" if profile.tokens.distinct == 0 else None


def _exclusion_reason(profile: Profile, *, complete: bool) -> str | None:
    distinct, filled = profile.tokens.distinct, profile.rows - profile.missing
    if distinct == 1 and not profile.missing and not profile.shape.many:
        return "the same value in every row"
    if is_outcome(profile):
        return "0 or 1, and by its name an outcome: it would tell the label"
    if profile.shape.fraction and distinct > _CONTINUOUS:
        return f"a measure: {distinct:,} distinct numbers with fractions; there is no bucketing"
    words = words_of(profile.name)
    if profile.shape.number and distinct > _CONTINUOUS and _MEASURE.search(words):
        return f"by its name a measure: {distinct:,} distinct numbers; there is no bucketing"
    is_id = bool(_ID.search(words))
    enough = filled >= (_MANY if is_id and not complete else _FEW)
    if not profile.shape.many and enough and distinct > (_OWN_ID if is_id else _OWN) * filled:
        return f"nearly every row has its own: {distinct:,} distinct in {filled:,}"
    return None


def _feature_doubts(profile: Profile) -> Iterator[str]:
    if profile.shape.doubt:
        yield f"{profile.name}: {profile.shape.doubt}"
    looks_like_ids = (
        profile.shape.number
        and not profile.shape.fraction
        and not _ID.search(words_of(profile.name))
    )
    if looks_like_ids and profile.tokens.distinct > _SMALL and not profile.shape.many:
        yield f"{profile.name}: whole numbers, taken as ids; leave it out if it measures something"
    if _AFTERWARDS.search(words_of(profile.name)):
        yield f"{profile.name}: is it known before the row is shown? else it tells the label"
    if profile.missing > 0.99 * profile.rows:
        yield f"{profile.name}: {100 * profile.missing / profile.rows:.4g} % missing"
    if profile.odd:
        yield (
            f"{profile.name}: {profile.odd:,} tokens have no value that is a number: "
            "they are dropped"
        )


def _draft_feature(
    profile: Profile, sample: Sample, name: str, separators: Separators
) -> tuple[dict[str, Any], str]:
    feature: dict[str, Any] = {"name": name, "src": 0, "field": profile.name}
    sizes, encoding_reason = _choose_encoding(profile, sample)
    feature |= sizes
    reasons = [cardinality(profile), encoding_reason]
    if profile.shape.many:
        lengths = profile.length(0.5), profile.length(0.99), profile.length(1.0)
        longest = max(1, lengths[1])
        step = 1 if longest <= 10 else 5 if longest <= 50 else 10 if longest <= 200 else 50
        feature["max_len"] = -(-longest // step) * step
        reasons.append(f"tokens a row: median {lengths[0]}, p99 {lengths[1]}, max {lengths[2]}")
    if profile.shape.value_separator is not None:
        feature["use_value"] = True
    for key, own_mark, usual in (
        ("token_separator", profile.shape.separator, separators.token),
        ("value_separator", profile.shape.value_separator, separators.value),
    ):
        if own_mark and own_mark != usual:
            feature[key] = own_mark
            reasons.append(f"its own {key}")
    return feature, "; ".join(reasons)


def _choose_encoding(profile: Profile, sample: Sample) -> tuple[dict[str, Any], str]:
    tokens = profile.tokens
    distinct, expected = tokens.distinct, _expected_tokens(profile, sample)
    grown = f", about {expected:,} expected" if expected > 1.05 * distinct else ""
    head = tokens.holding(_HEAD)
    if expected <= _SMALL:
        return {"encoding": "vocab", "vocab_num_tokens": round_up(expected)}, f"few{grown}"
    if head * 4 <= distinct:
        reason = f"the most frequent {head:,} hold {100 * _HEAD:.0f} %{grown}"
        sizes = {"vocab_num_tokens": round_up(head), "hash_bucket": bucket_size(2 * expected)}
        return {"encoding": "hybrid", **sizes}, reason
    if expected <= _BIG:
        sizes = {"vocab_num_tokens": round_up(expected)}
        return {"encoding": "vocab", **sizes}, f"evenly frequent{grown}"
    reason = f"many, and {100 * tokens.once / max(1, distinct):.0f} % of them once{grown}"
    return {"encoding": "hash", "hash_bucket": bucket_size(4 * expected)}, reason


def _expected_tokens(profile: Profile, sample: Sample) -> int:
    """Distinct tokens of the whole table as the sample tells; rather too many than too few."""
    distinct = profile.tokens.distinct
    if sample.whole or not profile.tokens.occurrences:
        return distinct
    longer = sample.total / sample.rows if sample.total else _GROWTH
    # How likely the next one is new (Good, Turing).
    new = profile.tokens.once / profile.tokens.occurrences
    return round(distinct + new * profile.tokens.occurrences * math.log(max(1.0, longer)))


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


def _feature_name(column: str, number: int, used_names: set[str]) -> str:
    """A name for a feature's columns that no other has."""
    clean = re.sub(r"[^A-Za-z0-9_]+", "_", column).strip("_")[:90]
    name = f"f0_{clean or f'c{number}'}"
    while (
        used_names & {name, f"{name}_idx", f"{name}_val"}
        or re.sub("_(idx|val)$", "", name) in used_names
    ):
        name += f"_{number}"
    used_names.add(name)
    return name
