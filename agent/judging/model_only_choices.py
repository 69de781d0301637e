"""Choices of a model that only the model backs: no name, no value, and not the rules.

Data may talk a model into them (docs/injection.md). They are looked for where the model's records
are not those of the rules, and by what they make of the sample, however a path is spelt.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from ingot.agent.judging.invented_values import (
    dropped_messages,
    invented_metadata,
    leaves_bad_rows_out,
    repeated_passages,
)
from ingot.agent.judging.sample_gates import GateRule
from ingot.agent.judging.text_coverage import (
    WORDS,
    Taken,
    is_prose,
    other_texts,
    record_texts,
    rows_without_record,
    texts_left_out,
    texts_taken_twice,
    words_of,
)
from ingot.agent.judging.trial import Trial, sample_records
from ingot.agent.proposing.columns import (
    View,
    last_name,
    parse_finite_number,
    start_alike,
    values_at,
)
from ingot.agent.proposing.names import NAMED, name_strength, speaker_role, spell_name
from ingot.agent.proposing.proposal import value_strings
from ingot.agent.proposing.rules.answers.preference import are_two_sides
from ingot.converters.mapping.documents.writer import part_document, to_document
from ingot.converters.mapping.language import (
    Group,
    Mapping,
    Message,
    Role,
    RoleFromData,
    RoleSplit,
    Value,
    possible_roles,
    speaker_roles,
)
from ingot.converters.mapping.lookup import Lookup
from ingot.converters.mapping.rows.executor import Record
from ingot.converters.mapping.walk import (
    select_conditions,
    select_messages,
    select_parts,
    value_paths,
    walk,
)
from ingot.converters.paths import Node, Path
from ingot.converters.sources.profile import pick_evenly
from ingot.converters.sources.text_kinds import is_question

_RECORDS = 200  # that are compared
_MOST = 0.5  # of the texts of a list
_OFTEN = 0.1  # of the records, that are copies
_MANY = 0.25  # of the records, with the question in the answer
_FEWEST = 3  # records
_MORE_QUESTIONS = 0.3  # share by which users ask more often than assistants
_FEW_GROUPS = 5  # rows of a group where a model makes groups and the rules make none
_NAME = re.compile(r"[\w-]+")  # in a path, a template
_UP = re.compile(r"(?:\^\.?)+")
_PLACES = re.compile(r"\[[^\[\]]*\]")
_MARKUP = re.compile(r"<[^<>]{0,99}>")
_ONE_PLACE = re.compile(r"(.*)\[(-?\d+)\]([^\[\]]*)")


@dataclass(frozen=True, kw_only=True)
class Side:
    """A mapping beside what it makes of the sample."""

    mapping: Mapping
    trial: Trial
    records: Sequence[Record]

    @classmethod
    def of(cls, mapping: Mapping, trial: Trial) -> "Side":
        """Run a mapping on the sample again, and keep some of its records."""
        records = pick_evenly([*sample_records(trial)], _RECORDS)
        return cls(mapping=mapping, trial=trial, records=records)

    @cached_property
    def taken(self) -> Taken:
        """Return the texts of the rows, with those that the records hold."""
        return Taken.of(self.trial)


def _texts_of(rules: Side | None, model: Side) -> Taken | None:
    """Return the texts that the rules take from the same rows, None if they read other rows."""
    same_source = rules and rules.mapping.source == model.mapping.source
    return rules.taken if rules and same_source else None


def unbacked_choices(
    model: Side, rules: Side | None, *, same_texts: bool = False
) -> dict[str, tuple[str, ...]]:
    """By the names of the gates, what only the model says, as it stands in the data.

    Where the texts are the same only what is trained on and metadata can differ.
    """
    gates = _OTHER_GATES if same_texts else UNBACKED_GATES
    return {one.name: findings for one in gates if (findings := tuple(one.find(model, rules)))}


def _outside_texts(model: Side) -> Iterator[str]:
    """Names of keys and files, and what lies around the records of a single document."""
    outer_paths = model.mapping.outer.each
    is_single_document = len(model.trial.sample.rows) == 1 and len(model.records) > 1
    if is_single_document and len(outer_paths) > 1:
        yield f"{' and '.join(path.text for path in outer_paths)} in step"
    for value, inner in _text_values(model.mapping):
        depth = sum(map(_count_names, (outer_paths, inner) if len(outer_paths) == 1 else ()))
        for path_text in value_strings(part_document(value)):
            ascent = _UP.match(path_text)
            is_outside = is_single_document and depth and ascent and ascent[0].count("^") >= depth
            if path_text in ("@file", "~") or path_text.endswith(".~") or is_outside:
                yield path_text


def _text_values(mapping: Mapping) -> Iterator[tuple[Value, tuple[Path, ...]]]:
    """The values that give texts, each with the list that its message walks."""
    for part in select_parts(mapping, "messages", "text", "system", "tools"):
        if isinstance(part.value, Value):
            yield part.value, ()
        elif isinstance(part.value, Message) and part.value.content:
            yield part.value.content, part.value.each


def _count_names(paths: tuple[Path, ...]) -> int:
    """How many objects a path goes down."""
    first = paths[0].text if paths else ""
    return sum(step not in ("", "^") for step in _PLACES.sub("", first).split("."))


def _repeated_passages(model: Side, rules: Side | None) -> Iterator[str]:
    """Passages that come again; a mapping that takes one text of a row alone brings none."""
    text = model.mapping.outer.text
    if not (text and text.is_bare and text.path and not isinstance(text.path, Lookup)):
        yield from repeated_passages(model.records, rules.records if rules else ())


def _rows_left_out(model: Side, rules: Side | None) -> Iterator[str]:
    """Rows that conditions leave out, and not the rules, unless they call themselves bad."""
    filtered = [
        one.trial.report.failures.get("filtered", 0) if one else 0 for one in (model, rules)
    ]
    lost_rows = rows_without_record(model.taken, _texts_of(rules, model))
    lost = max(lost_rows, filtered[0] if filtered[0] > filtered[1] else 0)
    nested = [one for message in select_messages(model.mapping) for one in message.where]
    conditions = select_conditions(model.mapping)
    theirs = select_conditions(rules.mapping) if rules else []
    good = [one.path for one in (*conditions, *nested) if leaves_bad_rows_out(one)]
    added = [one for one in (*conditions, *nested) if one.path not in good and one not in theirs]
    inverted = [one for one in added if leaves_bad_rows_out(one) is False or one.op == "max_chars"]
    if (lost and (added or not (conditions or nested))) or inverted:
        yield f"{lost} of {model.trial.report.rows} sampled rows"


def _echoes(model: Side, rules: Side | None) -> Iterator[str]:
    """Answers that hold the question, and records that stand twice."""
    counts = [sum(map(_holds_question, one.records)) if one else 0 for one in (model, rules)]
    if counts[0] > counts[1] and counts[0] > _MANY * len(model.records):
        yield f"{counts[0]} questions in their answers"
    copies = [_count_copies(one.records) if one else 0 for one in (model, rules)]
    if copies[0] > copies[1] and copies[0] > _OFTEN * len(model.records):
        yield f"{copies[0]} records that are copies of another"


def _count_copies(records: Sequence[Record]) -> int:
    return len(records) - len({tuple(record_texts(record)) for record in records})


def _holds_question(record: Record) -> bool:
    contents: dict[str, list[str]] = {"user": [], "assistant": []}
    for message in record.get("messages", ()):
        contents.setdefault(message["role"], []).append(message["content"])
    questions = [words_of(text) for text in contents["user"] if is_prose(text)]
    return any(one in words_of(answer) for answer in contents["assistant"] for one in questions)


def _objects_as_text(model: Side) -> Iterator[str]:
    """Lists and objects that become JSON in a text; calls and results of tools are such."""
    for part in select_parts(model.mapping, "messages", "text", "system"):
        if not isinstance(part.value, Message) or part.value.role != "tool":
            content = part.value.content if isinstance(part.value, Message) else part.value
            as_json_values = (one for one in walk(content, Value) if one.as_json)
            yield from (one.path.text if one.path else one.kind for one in as_json_values)


def _unbacked_groups(model: Side, rules: Side | None) -> Iterator[str]:
    """Groups that the rules do not make: of many rows, or without an order and speakers."""
    group, other = model.mapping.group, rules.mapping.group if rules else None
    if not group or (other and other.by == group.by):
        return
    rows, group_count = len(model.trial.sample.rows), model.trial.report.rows
    has_few_groups = _FEW_GROUPS * group_count < rows or (group_count == 1 and rows >= _FEWEST)
    if _restarts(group, model):
        return
    roles = [one.role for one in select_messages(model.mapping)]
    ordered = group.sort or any(isinstance(one, RoleFromData | RoleSplit) for one in roles)
    if has_few_groups or (group_count < rows and not ordered):
        yield f"{rows} rows become {group_count} groups"


def _unproved_sides(model: Side, rules: Side | None) -> Iterator[str]:
    """Who asks and who answers, where no name, no text and not the rules say so."""
    messages = select_messages(model.mapping)
    if not messages or any(map(_is_named_side, messages)):
        return
    user_share, assistant_share = (_asking(model.records, role) for role in ("user", "assistant"))
    paths_by_side = _side_paths(model.mapping)
    if user_share - assistant_share < _MORE_QUESTIONS and not (
        rules and _agree(paths_by_side, _side_paths(rules.mapping))
    ):
        yield "; ".join(" and ".join(one) for one in paths_by_side if one) or "the roles alternate"


def _agree(ours: Sequence[Sequence[str]], theirs: Sequence[Sequence[str]]) -> bool:
    """Whether both put fields on the same sides, and none on another one."""
    crossed = {*ours[0]} & {*theirs[1]} or {*ours[1]} & {*theirs[0]}
    return not crossed and all({*a} & {*b} for a, b in zip(ours, theirs, strict=True))


def _is_named_side(message: Message) -> bool:
    role = message.role
    words = (
        (word, mapped_role)
        for name, mapped_role in speaker_roles(role).items()
        for word in (name, *spell_name(name).split("_"))
    )
    if any(mapped_role and speaker_role(word) == mapped_role for word, mapped_role in words):
        return True
    slots = {"user": ("question", "instruction", "input"), "assistant": ("answer",)}
    role_slots = slots.get(role, ()) if isinstance(role, str) else ()
    names = [last_name(path) for path in value_paths(message.content)]
    return any(name_strength(name, slot) >= NAMED for name in names for slot in role_slots)


def _side_paths(mapping: Mapping) -> tuple[tuple[str, ...], tuple[str, ...]]:
    paths: dict[str | None, list[str]] = {"user": [], "assistant": []}
    for one in select_messages(mapping):
        roles = possible_roles(one.role)
        if len(roles) == 1 and roles[0] in paths:
            paths[roles[0]] += value_paths(one.content)
    return tuple(paths["user"]), tuple(paths["assistant"])


def _asking(records: Sequence[Record], role: str) -> float:
    texts = [m["content"] for r in records for m in r.get("messages", ()) if m["role"] == role]
    return sum(map(is_question, texts)) / max(1, len(texts))


def _rival_answers(model: Side) -> Iterator[str]:
    """An answer beside another one of which nothing is read, or that is called a rejected one."""
    _, answers = _side_paths(model.mapping)
    mapping_texts = value_strings(to_document(model.mapping))
    read = {name for text in mapping_texts for name in _NAME.findall(text)}
    columns = View.of([row.value for row in model.trial.sample.rows]).columns
    for path in answers:
        name = last_name(path)
        if name_strength(name, "rejected") >= NAMED:
            yield f"{path}, which is called a rejected one"
        for column in columns:
            if column.text and column.name not in read and are_two_sides(name, column.name):
                yield f"{path} and not {column.path}"


def _restarts(group: Group, model: Side) -> bool:
    """Whether the numbers that groups are sorted by begin anew in every group."""
    numbers: dict[str, list[float]] = {}
    for node in (Node(row.value) for row in model.trial.sample.rows):
        keys = [values_at(path.text, node) for path in group.by]
        for value in values_at(group.sort.text, node) if group.sort else ():
            if (number := parse_finite_number(str(value))) is not None:
                numbers.setdefault(str(keys), []).append(number)
    return start_alike([sorted(one) for one in numbers.values()]) if numbers else False


def _unbacked_speakers(model: Side, rules: Side | None) -> Iterator[str]:
    """Speakers with another role than their name, one more assistant, speeches left out."""
    theirs = _speakers(rules.mapping) if rules else {}
    speakers = _speakers(model.mapping)
    for name, role in speakers.items():
        known, backed = speaker_role(name[0]), theirs.get(name, role) == role and name in theirs
        others = [one for one in speakers if speakers[one] == "assistant" and one != name]
        other_role = role and known not in (None, "drop", role)
        one_more = role == "assistant" and known is None and others
        has_words = WORDS.search(_MARKUP.sub("", name[0]))
        cut = role is None and known is None and name[1] and has_words
        if not backed and (other_role or one_more or cut):
            yield f"{name[0].strip()!r} → {role or 'left out'}"
    starts = [_starts_with_answers(one.records) if one else 0.0 for one in (model, rules)]
    if starts[0] > starts[1] + _MORE_QUESTIONS:
        yield "records begin with an assistant"


def _speakers(mapping: Mapping) -> dict[tuple[str, bool], Role | None]:
    """The role of every speaker that is named in a `map` or, cut from texts, in a `split`."""
    return {
        (name, isinstance(one.role, RoleSplit)): role
        for one in select_messages(mapping)
        for name, role in speaker_roles(one.role).items()
    }


def _starts_with_answers(records: Sequence[Record]) -> float:
    firsts = [record["messages"][0]["role"] for record in records if record.get("messages")]
    return firsts.count("assistant") / max(1, len(firsts))


def _unbacked_picks(model: Side, rules: Side | None) -> Iterator[str]:
    """Yield fields that pick an answer although neither the rules nor their names say so."""
    theirs = _picks(rules.mapping) if rules else []
    for pick in _picks(model.mapping):
        names = [last_name(path) for path in value_paths(pick)]
        named = any(name_strength(name, s) >= NAMED for name in names for s in ("answer", "label"))
        if pick not in theirs and (theirs or not named):
            yield f"{' '.join(value_paths(pick))} picks it"


def _picks(mapping: Mapping) -> list[Value]:
    values = (one for value, _ in _text_values(mapping) for one in walk(value, Value))
    return [pick for one in values for pick in one.picking_values().values()]


def _unbacked_positions(model: Side, rules: Side | None) -> Iterator[str]:
    """Places of lists but the first, where the first is not taken and the rules take others."""
    theirs = {*value_strings(to_document(rules.mapping))} if rules else set()
    for by_index in _fixed_positions(model).values():
        if "0" not in by_index:
            yield from (path for path in by_index.values() if path not in theirs)


def _fixed_positions(model: Side) -> dict[tuple[str, str], dict[str, str]]:
    """The fixed places of lists that give texts: by the paths before and behind them."""
    paths = [path for value, _ in _text_values(model.mapping) for path in value_paths(value)]
    by_paths: dict[tuple[str, str], dict[str, str]] = {}
    for match in filter(None, map(_ONE_PLACE.fullmatch, paths)):
        by_paths.setdefault((match[1], match[3]), {})[match[2]] = match[0]
    return by_paths


def _skipped_positions(model: Side) -> Iterator[str]:
    """Lists of which a mapping takes several places, and leaves half of the texts and more."""
    for (head, tail), by_index in _fixed_positions(model).items():
        share = model.taken.share(f"{head}[*]{tail}", model.taken.rows())
        if len(by_index) > 1 and share is not None and share < _MOST:
            yield f"{head}: {share:.0%} of its texts are taken"


def _unbacked_training(model: Side, rules: Side | None) -> Iterator[str]:
    """Messages of users that are trained on, or of assistants that are not, as data say."""
    count, backed = (_count_unusual_masks(one.records) if one else 0 for one in (model, rules))
    if count > backed:
        yield f"{count} messages"


def _count_unusual_masks(records: Sequence[Record]) -> int:
    messages = [message for record in records for message in record.get("messages", ())]
    return sum(one["loss_mask"] != (one["role"] == "assistant") for one in messages)


def _texts_left_out(model: Side, rules: Side | None) -> Iterator[str]:
    return chain(
        texts_left_out(model.taken, _texts_of(rules, model)),
        _skipped_positions(model),
        dropped_messages(model.trial, rules.mapping if rules else None),
    )


def _texts_taken_twice(model: Side, rules: Side | None) -> Iterator[str]:
    return chain(texts_taken_twice(model.taken, _texts_of(rules, model)), _echoes(model, rules))


def _chosen_answers(model: Side, rules: Side | None) -> Iterator[str]:
    return chain(
        _rival_answers(model),
        _unbacked_picks(model, rules),
        _unbacked_positions(model, rules),
        other_texts(model.taken, _texts_of(rules, model)),
    )


def _rule(
    name: str, why: str, find: Callable[[Side, Side | None], Iterator[str]]
) -> GateRule[[Side, Side | None]]:
    """Return the gate of a choice that passes where the rules make the same one."""
    return GateRule(name, why, "none, or the rules do so too", find)


_TEXT_GATES = (
    _rule(
        "texts from outside",
        "the model takes texts from outside a record",
        lambda model, _: _outside_texts(model),
    ),
    _rule(
        "texts in most records",
        "the model brings the same words into most records",
        _repeated_passages,
    ),
    _rule("rows left out", "the model's conditions leave out", _rows_left_out),
    _rule("texts left out", "the model takes a part of the texts", _texts_left_out),
    _rule("texts taken twice", "the model takes texts more than once", _texts_taken_twice),
    _rule(
        "objects as text",
        "the model takes whole objects for text",
        lambda model, _: _objects_as_text(model),
    ),
    _rule("groups without order", "the model makes groups of rows", _unbacked_groups),
    _rule(
        "sides without evidence",
        "nothing but the model says who asks and who answers",
        lambda model, rules: chain(_unproved_sides(model, rules), _unbacked_speakers(model, rules)),
    ),
    _rule(
        "one of two answers",
        "nothing but the model says which answer is taken",
        _chosen_answers,
    ),
)
# What can differ where the texts are the same.
_OTHER_GATES = (
    _rule(
        "what is trained on",
        "the model trains on other messages than those of assistants",
        _unbacked_training,
    ),
    _rule(
        "metadata of its own",
        "the model writes metadata that is not in the data",
        lambda model, _: invented_metadata(model.trial),
    ),
)
UNBACKED_GATES = (*_TEXT_GATES, *_OTHER_GATES)
