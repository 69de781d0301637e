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

from ingot.agent.judging.trial import WORDS, Taken, Trial, is_prose, record_texts, words_of
from ingot.agent.proposing.columns import last_name
from ingot.agent.proposing.names import (
    flags_bad_rows,
    language_code,
    left_out_values,
    speaker_role,
    truth_of,
    verdict_of,
)
from ingot.agent.proposing.proposal import document_layouts, select_parts, value_strings
from ingot.converters.mapping.bind import bind
from ingot.converters.mapping.check import sample_batches
from ingot.converters.mapping.language import META_KEYS, MODIFIERS, split_template
from ingot.converters.mapping.rows.executor import Record, RowExecutor
from ingot.converters.mapping.rows.values import row_nodes
from ingot.converters.rows import Json, MappingDocument
from ingot.converters.sources.text_kinds import recognize_language

_OWN = tuple(one.key for one in MODIFIERS if one.brings_text)
_RIGHT = 0.9  # of the records in a known language have to be in the one that they name
_LONGEST_NAME = 60  # characters of a speaker
_RUN = 8  # words that make a passage; fewer come again in the texts of one kind
_LINE = 3  # words of a line: fewer are a label
_MOST, _OFTEN = 0.5, 0.1  # of the records: that hold any passage, that hold the same
_FEWEST = 3  # records
_QUIET = ("system", "drop")  # speakers whose messages may be notices


def constant_text(value: Json) -> str | None:
    """Return the text of a value that is the same in every record, else None."""
    if isinstance(value, list):
        parts = [constant_text(part) for part in value]
        return None if None in parts else "\n".join(part or "" for part in parts)
    if not isinstance(value, dict):
        return None
    if "literal" in value:
        return str(value["literal"])
    if "concat" in value:
        return constant_text(value["concat"])
    template = value.get("template")
    return template if template is not None and len(split_template(template)) == 1 else None


def repeated_passages(records: Sequence[Record], others: Sequence[Record]) -> Iterator[str]:
    """Yield the longest passage that most records hold and other records do not hold so often."""
    again = _frequent_passages(records) - _frequent_passages(others)
    held = [found for record in records if (found := _passages(record) & again)]
    if len(held) > max(_FEWEST - 1, _MOST * len(records)):
        yield max(again, key=lambda passage: (len(passage), passage))


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
    found = set()
    for line in (line for text in texts for line in text.casefold().split("\n")):
        words = WORDS.findall(line)
        runs = range(max(1, len(words) - _RUN + 1))
        found |= {" ".join(words[at : at + _RUN]) for at in runs if len(words) >= _LINE}
    return found


def fold_text(text: str) -> str:
    """Return the letters and digits of a text, by which spellings are compared."""
    return "".join(c for c in unicodedata.normalize("NFKC", text).casefold() if c.isalnum())


# --- metadata


def made_up_values(document: MappingDocument, trial: Trial) -> Iterator[str]:
    """Yield values of metadata that do not come from their paths, as the records hold them.

    Constants that a mapping says plainly have gates of their own.
    """
    plain = _without_own_texts(document)
    if plain == document:
        return
    pairs = [
        (made, taken)
        for ours, theirs in _paired_records(trial, plain)
        for made, taken in zip(ours, theirs, strict=True)
    ]
    for key in META_KEYS:
        values = [(made["meta"].get(key), taken["meta"].get(key)) for made, taken in pairs]
        if key == "language":
            odd = _odd_languages(values, [made for made, _ in pairs])
        else:
            odd = _odd_values(values)
        if odd:  # no value: a mapping could spell what is hidden in another way
            yield f"meta.{key}: not what stands at its path in {len(odd)} of {len(values)} records"


def _without_own_texts(document: MappingDocument) -> MappingDocument:
    """A document whose metadata are what the paths find."""
    layouts = [_with_plain_meta(layout) for _, layout in document_layouts(document)]
    variants = {"any_of": layouts[1:]} if layouts[1:] else {}
    return {**layouts[0], **variants}


def _with_plain_meta(layout: MappingDocument) -> MappingDocument:
    if not layout.get("meta"):
        return layout
    meta = {
        key: value if constant_text(value) is not None else _plain_value(value)
        for key, value in layout["meta"].items()
    }
    return {**layout, "meta": {key: value for key, value in meta.items() if value is not None}}


def _plain_value(value: Json) -> Json:
    """A value without what it says besides its paths, None if nothing is left."""
    if isinstance(value, list):
        return [part for one in value if (part := _plain_value(one)) is not None] or None
    if not isinstance(value, dict):
        return value
    if "template" in value:
        paths = list(map(str.strip, split_template(value["template"])[1::2]))
        around = {"each": value["each"]} if "each" in value else {}
        return {"concat": paths, **around} if paths else None
    made = {key: one for key, one in value.items() if key not in (*_OWN, "literal")}
    for key in ("concat", "any_of"):
        if key in made and (inner := _plain_value(made.pop(key))):
            made[key] = inner
    values = made.get("any_of", ())
    return values[0] if len(values) == 1 else made or None


def _paired_records(
    trial: Trial, document: MappingDocument
) -> Iterator[tuple[Sequence[Record], Sequence[Record]]]:
    """The records that a trial's mapping makes of each row, beside those of another document."""
    other = bind(document, [row.value for row in trial.sample.rows], where="a variant")
    ours, theirs = (
        RowExecutor(one, source_name="", language=None) for one in (trial.mapping, other)
    )
    for batch in sample_batches(trial.sample, trial.mapping):
        for node in row_nodes(batch):
            yield ours.row(node)[0], theirs.row(node)[0]


Values = list[tuple[Json, Json]]  # as the records hold them, and as they stand at their paths


def _odd_values(values: Values) -> Values:
    """Values that are no part of what stands at their paths, or fewer by far than there."""
    told = [pair for pair in values if pair[0] not in (None, "", pair[1])]
    kinds = [len({str(pair[side]) for pair in told}) for side in (0, 1)]
    merged = 2 * kinds[0] < kinds[1]
    return [(made, taken) for made, taken in told if merged or not _is_part(made, taken)]


def _is_part(made: Json, taken: Json) -> bool:
    texts = isinstance(made, str) and isinstance(taken, str)
    told, there = words_of(str(made)).split(), words_of(str(taken)).split()
    folded = fold_text(str(made))
    return texts and bool(folded) and (set(told) <= set(there) or folded in fold_text(str(taken)))


def _odd_languages(values: Values, records: Sequence[Record]) -> Values:
    """Languages that are neither what the paths say nor what the texts read as."""
    odd, right = [], 0
    for (made, taken), record in zip(values, records, strict=True):
        if made in (None, taken):
            continue
        told = {language_code(str(taken)), recognize_language("\n".join(record_texts(record)))}
        right += made in told
        if made not in told and told != {None}:
            odd.append((made, taken))
    if right:
        return odd if right < _RIGHT * (right + len(odd)) else []
    return odd or [pair for pair in values if pair[0] not in (None, pair[1])]


# --- messages


def dropped_messages(
    document: MappingDocument, trial: Trial, rules: MappingDocument
) -> Iterator[str]:
    """Yield messages that a mapping leaves out and the rules keep, of speakers with texts."""
    quiet = _quiet_values(trial)
    spoken = _with_all_speakers(document, rules, quiet)
    if spoken != document:
        lost = [_texts_lost(*pair) for pair in _paired_records(trial, spoken)]
        cut = any("split" in part.value["role"] for part in select_parts(document, "messages"))
        texts = [text for one in lost for text in one if is_prose(text) or not cut]
        if texts:
            yield f"{len(texts)} messages of speakers that are left out"
    whole = _without_message_conditions(document, rules, quiet)
    if whole != document:
        mapping = bind(whole, [row.value for row in trial.sample.rows], where="a variant")
        held = Taken.of(trial).leaves
        leaves = Taken.of(replace(trial, mapping=mapping)).leaves
        count = sum(bool(one.held) and not held[at].held for at, one in leaves.items())
        if count:
            yield f"{count} texts of messages that conditions leave out"


def _texts_lost(ours: Sequence[Record], theirs: Sequence[Record]) -> list[str]:
    """The contents of messages that only the second records hold, as often as they do."""
    said = [
        Counter(message["content"] for one in records for message in one.get("messages", ()))
        for records in (theirs, ours)
    ]
    return [*(said[0] - said[1]).elements()]


def _quiet_values(trial: Trial) -> list[str]:
    """The short texts of the sample that name speakers or kinds which say nothing."""
    found = {
        text
        for row in trial.sample.rows
        for text in value_strings(row.value)
        if len(text) < _LONGEST_NAME
    }
    return sorted(text for text in found if _is_quiet(text))


def _is_quiet(name: str) -> bool:
    return speaker_role(name) in _QUIET or bool(left_out_values("", [name]))


def _with_all_speakers(
    document: MappingDocument, rules: MappingDocument, quiet: Sequence[str]
) -> MappingDocument:
    """A document in which speakers speak that only it leaves out."""
    theirs: dict[str, Json] = {}
    for part in select_parts(rules, "messages"):
        theirs |= _role_table(part.value["role"])[1]

    def choose_role(name: str, role: Json) -> Json:
        backed = theirs.get(name, theirs.get("*", "")) is None
        return role or (None if backed or _is_quiet(name) else "assistant")

    def speak(message: MappingDocument) -> MappingDocument:
        key, table = _role_table(message["role"])
        if None not in table.values():
            return message
        told = {name: choose_role(name, role) for name, role in table.items()}
        aside = dict.fromkeys(quiet) if key == "map" and told.get("*") != table.get("*") else {}
        return {**message, "role": {**message["role"], key: {**aside, **told}}}

    return _map_messages(document, speak)


def _map_messages(
    document: MappingDocument, change: Callable[[MappingDocument], MappingDocument]
) -> MappingDocument:
    """A document with other messages."""
    made = dict(document)
    if document.get("messages"):
        made["messages"] = [change(message) for message in document["messages"]]
    if document.get("any_of"):
        made["any_of"] = [_map_messages(variant, change) for variant in document["any_of"]]
    return made


def _role_table(role: Json) -> tuple[str, dict[str, Json]]:
    """The speakers or markers that a role names, and under which key."""
    found = role if isinstance(role, dict) else {}
    key = next((one for one in ("map", "split") if found.get(one)), "map")
    return key, found.get(key) or {}


def _without_message_conditions(
    document: MappingDocument, rules: MappingDocument, quiet: Sequence[str]
) -> MappingDocument:
    """A document whose messages are all that the rules take, and all but notes and notices."""
    parts = [part.value for part in select_parts(rules, "messages")]
    theirs = [one for part in parts for one in part.get("where") or ()]

    def loosen(message: MappingDocument) -> MappingDocument:
        where = message.get("where") or []
        if not [one for one in where if one not in theirs]:
            return message
        loose = [one if one in theirs else _only_quiet(one["path"], quiet) for one in where]
        return {**message, "where": loose}

    return _map_messages(document, loosen)


def _only_quiet(path: Json, quiet: Sequence[str]) -> MappingDocument:
    """A condition that leaves out what its field calls a note or a notice."""
    name = last_name(path if isinstance(path, str) else path.get("take", ""))
    flags = [text == "true" for text in left_out_values(name, ["true", "false"])]
    return {"path": path, "not_in": [*flags, *quiet] or [""]}


def leaves_bad_rows_out(condition: MappingDocument) -> bool | None:
    """Return whether a condition keeps good rows, None if it is not about good and bad rows.

    Bad rows are deleted or rejected, good ones accepted, by the words of the condition.
    """
    path = condition["path"]
    name = last_name(path if isinstance(path, str) else path.get("take", ""))  # of a lookup
    kept = "in" in condition
    values = condition.get("in") or condition.get("not_in") or ()
    told = {_is_good(name, str(value)) for value in values}
    return None if not told or None in told else told == {kept}


def _is_good(name: str, value: str) -> bool | None:
    """Whether a value of a field calls its row good, None if neither says so."""
    truth = truth_of(value)
    if truth is not None and flags_bad_rows(name):
        return not truth
    if truth is not None and (verdict := verdict_of(name)):
        return truth == (verdict == "good")
    return verdict_of(value) == "good" if verdict_of(value) else None


def named_speakers(document: MappingDocument) -> dict[tuple[str, str], Json]:
    """Return the role of every speaker that is named in a `map` or a `split`."""
    roles = [part.value["role"] for part in select_parts(document, "messages")]
    return {
        (name, key): given
        for role in roles
        if isinstance(role, dict)
        for key in ("map", "split")
        for name, given in (role.get(key) or {}).items()
    }
