"""What a model's mapping writes of its own into records, and which messages it leaves out.

Metadata and messages are seen by what the records hold, however a mapping spells it: beside the
records of the same mapping without its tables and literals, and of the same mapping with a role for
every speaker.
"""

import json
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ingot.agent.judging.text_coverage import WORDS, Taken, is_prose, record_texts, words_of
from ingot.agent.judging.trial import Trial, row_records
from ingot.agent.proposing.columns import last_name
from ingot.agent.proposing.names import (
    flags_bad_rows,
    language_code,
    left_out_values,
    speaker_role,
    truth_of,
    verdict_of,
)
from ingot.agent.proposing.proposal import value_strings
from ingot.converters.mapping.language import (
    META_KEYS,
    Condition,
    Layout,
    Mapping,
    Message,
    Role,
    RoleFromData,
    RoleSplit,
    Value,
    speaker_roles,
)
from ingot.converters.mapping.lookup import taken_path
from ingot.converters.mapping.rows.executor import Record
from ingot.converters.mapping.walk import select_messages
from ingot.converters.paths import Path
from ingot.converters.rows import Json
from ingot.converters.sources.text_kinds import recognize_language

_RIGHT = 0.9  # of the records in a known language have to be in the one that they name
_LONGEST_NAME = 60  # characters of a speaker
_RUN = 8  # words that make a passage; fewer come again in the texts of one kind
_LINE = 3  # words of a line: fewer are a label
_MOST, _OFTEN = 0.5, 0.1  # of the records: that hold any passage, that hold the same
_FEWEST = 3  # records
_QUIET = ("system", "drop")  # speakers whose messages may be notices


def constant_text(value: Value) -> str | None:
    """Return the text of a value that is the same for every record, None if it depends on data."""
    if value.kind == "concat":
        parts = list(map(constant_text, value.parts))
        return None if None in parts else "\n".join(part or "" for part in parts)
    return value.literal if value.kind == "literal" else None


def repeated_passages(records: Sequence[Record], others: Sequence[Record]) -> Iterator[str]:
    """Yield the longest passage that most records hold and other records do not hold so often."""
    repeated = _frequent_passages(records) - _frequent_passages(others)
    holding = [
        held_passages for record in records if (held_passages := _passages(record) & repeated)
    ]
    if len(holding) > max(_FEWEST - 1, _MOST * len(records)):
        yield max(repeated, key=lambda passage: (len(passage), passage))


def _frequent_passages(records: Sequence[Record]) -> frozenset[str]:
    counts = Counter(one for record in records for one in _passages(record))
    fewest = max(_FEWEST, _OFTEN * len(records))
    return frozenset(passage for passage, count in counts.items() if count >= fewest)


def _passages(record: Record) -> set[str]:
    """Return the lines of all texts of a record, and all runs of so many of their words."""
    texts = [message["content"] for message in record.get("messages", ())]
    texts += [record.get("text") or "", record.get("system") or ""]
    texts += [json.dumps(record.get("tools") or "", ensure_ascii=False)]
    texts += [str(record["meta"].get("source") or "")]
    passages = set()
    for line in (line for text in texts for line in text.casefold().split("\n")):
        words = WORDS.findall(line)
        runs = range(max(1, len(words) - _RUN + 1))
        passages |= {" ".join(words[start : start + _RUN]) for start in runs if len(words) >= _LINE}
    return passages


def fold_text(text: str) -> str:
    """Return the letters and digits of a text, by which spellings are compared."""
    return "".join(c for c in unicodedata.normalize("NFKC", text).casefold() if c.isalnum())


# --- metadata


def invented_metadata(trial: Trial) -> Iterator[str]:
    """Yield metadata values, as the records hold them, that do not come from their paths.

    Constants that a mapping states plainly have gates of their own.
    """
    changed = _change_layouts(trial.mapping, _strip_meta_texts)
    if changed == trial.mapping:
        return
    pairs = [
        (record, path_record)
        for ours, theirs in _paired_records(trial, changed)
        for record, path_record in zip(ours, theirs, strict=True)
    ]
    for key in META_KEYS:
        values = [
            (record["meta"].get(key), path_record["meta"].get(key)) for record, path_record in pairs
        ]
        if key == "language":
            unmatched = _find_unmatched_languages(values, [record for record, _ in pairs])
        else:
            unmatched = _find_unmatched_values(values)
        if unmatched:  # no value: a mapping could spell what is hidden in another way
            yield (
                f"meta.{key}: not what stands at its path in "
                f"{len(unmatched)} of {len(values)} records"
            )


def _change_layouts(mapping: Mapping, change: Callable[[Layout], Layout]) -> Mapping:
    """A mapping with other layouts."""
    variants = tuple(map(change, mapping.any_of))
    return replace(mapping, outer=change(mapping.outer), any_of=variants)


def _strip_meta_texts(layout: Layout) -> Layout:
    """A layout whose metadata are what the paths find."""
    meta = {
        key: value if constant_text(value) is not None else _strip_own_texts(value)
        for key, value in layout.meta.items()
    }
    return replace(layout, meta={key: value for key, value in meta.items() if value})


def _strip_own_texts(value: Value) -> Value | None:
    """A value without what it says besides its paths, None where nothing is left."""
    if value.kind == "template":
        paths = [one for one in value.template if isinstance(one, Path)]
        parts_taken = tuple(Value(kind="path", path=one) for one in paths)
        return Value(kind="concat", parts=parts_taken, each=value.each)
    if value.path or value.tree:
        return value.without_own_texts()
    parts = tuple(part for one in value.parts if (part := _strip_own_texts(one)))
    single = len(parts) == 1 and (value.kind == "any_of" or value.is_bare)
    if single or not parts:
        return parts[0] if parts else None
    return replace(value.without_own_texts(), parts=parts)


def _paired_records(
    trial: Trial, other: Mapping
) -> Iterator[tuple[Sequence[Record], Sequence[Record]]]:
    """The records that a trial's mapping makes of each row, beside those of another mapping."""
    for (_, ours), (_, theirs) in zip(row_records(trial), row_records(trial, other), strict=True):
        yield ours, theirs


Values = list[tuple[Json, Json]]  # as the records hold them, and as they stand at their paths


def _find_unmatched_values(values: Values) -> Values:
    """Values that are no part of what stands at their paths, or fewer by far than there."""
    differing = [pair for pair in values if pair[0] not in (None, "", pair[1])]
    kinds = [len({str(pair[index]) for pair in differing}) for index in (0, 1)]
    merged = 2 * kinds[0] < kinds[1]
    return [
        (actual, expected)
        for actual, expected in differing
        if merged or not _is_part(actual, expected)
    ]


def _is_part(actual: Json, expected: Json) -> bool:
    texts = isinstance(actual, str) and isinstance(expected, str)
    actual_words, expected_words = words_of(str(actual)).split(), words_of(str(expected)).split()
    folded = fold_text(str(actual))
    return (
        texts
        and bool(folded)
        and (set(actual_words) <= set(expected_words) or folded in fold_text(str(expected)))
    )


def _find_unmatched_languages(values: Values, records: Sequence[Record]) -> Values:
    """Languages that are neither what the paths say nor what the texts read as."""
    mismatches, right = [], 0
    for (actual, expected), record in zip(values, records, strict=True):
        if actual in (None, expected):
            continue
        likely = {language_code(str(expected)), recognize_language("\n".join(record_texts(record)))}
        right += actual in likely
        if actual not in likely and likely != {None}:
            mismatches.append((actual, expected))
    if right:
        return mismatches if right < _RIGHT * (right + len(mismatches)) else []
    return mismatches or [pair for pair in values if pair[0] not in (None, pair[1])]


# --- messages


def dropped_messages(trial: Trial, rules: Mapping | None) -> Iterator[str]:
    """Yield messages with content that a mapping leaves out and the rules keep."""
    quiet = _quiet_values(trial)
    theirs = select_messages(rules) if rules else []
    with_speakers = _change_messages(trial.mapping, _let_speak(theirs, quiet))
    if with_speakers != trial.mapping:
        lost = [_texts_lost(*records) for records in _paired_records(trial, with_speakers)]
        cut = any(isinstance(one.role, RoleSplit) for one in select_messages(trial.mapping))
        texts = [text for one in lost for text in one if is_prose(text) or not cut]
        if texts:
            yield f"{len(texts)} messages of speakers that are left out"
    loosened = _change_messages(trial.mapping, _loosen_conditions(theirs, quiet))
    if loosened != trial.mapping:
        leaves_taken = Taken.of(trial).leaves
        leaves = Taken.of(replace(trial, mapping=loosened)).leaves
        count = sum(bool(one.held) and not leaves_taken[key].held for key, one in leaves.items())
        if count:
            yield f"{count} texts of messages that conditions leave out"


def _texts_lost(ours: Sequence[Record], theirs: Sequence[Record]) -> list[str]:
    """The contents of messages that only the second records hold, as often as they do."""
    content_counts = [
        Counter(message["content"] for one in records for message in one.get("messages", ()))
        for records in (theirs, ours)
    ]
    return [*(content_counts[0] - content_counts[1]).elements()]


def _quiet_values(trial: Trial) -> list[str]:
    """The short texts of the sample that name speakers or kinds which say nothing."""
    short_texts = {
        text
        for row in trial.sample.rows
        for text in value_strings(row.value)
        if len(text) < _LONGEST_NAME
    }
    return sorted(text for text in short_texts if _is_quiet(text))


def _is_quiet(name: str) -> bool:
    return speaker_role(name) in _QUIET or bool(left_out_values("", [name]))


def _change_messages(mapping: Mapping, change: Callable[[Message], Message]) -> Mapping:
    """A mapping with other messages."""
    return _change_layouts(
        mapping,
        lambda one: replace(one, messages=one.messages and tuple(map(change, one.messages))),
    )


def _let_speak(rules: Sequence[Message], quiet: Sequence[str]) -> Callable[[Message], Message]:
    """What lets speakers of a message speak that only the mapping leaves out."""
    theirs = {name: role for one in rules for name, role in speaker_roles(one.role).items()}

    def choose_role(name: str, role: Role | None) -> Role | None:
        backed = theirs.get(name, theirs.get("*", "user")) is None
        return role or (None if backed or _is_quiet(name) else "assistant")

    def speak(message: Message) -> Message:
        table = speaker_roles(message.role)
        if None not in table.values():
            return message
        roles = {name: choose_role(name, role) for name, role in table.items()}
        if isinstance(message.role, RoleSplit):
            return replace(message, role=replace(message.role, markers=roles))
        left_out = dict.fromkeys(quiet) if roles.get("*") != table.get("*") else {}
        role = message.role
        if isinstance(role, RoleFromData):
            role = replace(role, map={**left_out, **roles})
        return replace(message, role=role)

    return speak


def _loosen_conditions(
    rules: Sequence[Message], quiet: Sequence[str]
) -> Callable[[Message], Message]:
    """What takes all messages that the rules take, and all but notes and notices."""
    theirs = [one for message in rules for one in message.where]
    return lambda message: replace(
        message,
        where=tuple(one if one in theirs else _only_quiet(one, quiet) for one in message.where),
    )


def _only_quiet(condition: Condition, quiet: Sequence[str]) -> Condition:
    """A condition that leaves out what its field calls a note or a notice."""
    name = last_name(taken_path(condition.path).text)
    flags = [text == "true" for text in left_out_values(name, ["true", "false"])]
    return Condition(path=condition.path, op="not_in", values=(*flags, *quiet) or ("",))


def leaves_bad_rows_out(condition: Condition) -> bool | None:
    """Return whether a condition keeps good rows, None if it is not about good and bad ones."""
    name = last_name(taken_path(condition.path).text)
    verdicts = {_is_good(name, str(value)) for value in condition.values}
    return None if not verdicts or None in verdicts else verdicts == {condition.op == "in"}


def _is_good(name: str, value: str) -> bool | None:
    """Whether a value of a field calls its row good, None where neither says so."""
    truth = truth_of(value)
    if truth is not None and flags_bad_rows(name):
        return not truth
    if truth is not None and (verdict := verdict_of(name)):
        return truth == (verdict == "good")
    return verdict_of(value) == "good" if verdict_of(value) else None
