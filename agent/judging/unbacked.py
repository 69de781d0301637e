"""Choices of a model that only the model backs: no name, no value, and not the rules.

Data may talk a model into them (docs/injection.md). They are looked for where the model's records
are not those of the rules, and by what they make of the sample, however a path is spelt.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ingot.agent.judging.trial import Trial
from ingot.agent.proposing.columns import View, last_name, values_at
from ingot.agent.proposing.names import (
    NAMED,
    flags_bad_rows,
    name_strength,
    speaker_role,
    spell_name,
    verdict_of,
)
from ingot.agent.proposing.proposal import message_roles, select_parts, value_paths, value_strings
from ingot.agent.proposing.rules.answers.preference import are_two_sides
from ingot.converters.mapping.check import sample_batches
from ingot.converters.mapping.rows.executor import Record, RowExecutor
from ingot.converters.paths import PathSyntaxError
from ingot.converters.rows import MappingDocument
from ingot.converters.sources.profile import pick_evenly
from ingot.converters.sources.text_kinds import is_question

_RECORDS = 200  # that are compared
_RUN = 8  # words that make a passage; fewer come again in the texts of one kind
_LINE = 3  # words of a line: fewer are a label
_MOST = 0.5  # of the records
_FEWEST = 3  # records
_MORE_QUESTIONS = 0.3  # share by which users ask more often than assistants
_FEW_GROUPS = 5  # rows of a group where a model makes groups and the rules make none
_WORDS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")
# What is wrong with each, by the name of its gate.
UNBACKED = {
    "texts in most records": "the model brings the same words into most records",
    "rows left out": "the model's conditions leave out",
    "turns left out": "the model leaves out",
    "few groups": "the model makes large groups",
    "sides without evidence": "nothing but the model says who asks and who answers",
    "one of two answers": "nothing but the model says which of two answers is taken",
    "what is trained on": "the model trains on other messages than those of assistants",
}
_NAME = re.compile(r"[\w-]+")  # in a path, a template
_PLACE = re.compile(r"^(.*)\[(\d+)\][^\[\]]*$")


@dataclass(frozen=True, kw_only=True)
class Side:
    """A mapping beside what it makes of the sample."""

    document: MappingDocument
    trial: Trial
    records: Sequence[Record]

    @classmethod
    def of(cls, document: MappingDocument, trial: Trial) -> "Side":
        """Run a mapping on the sample again, and keep some of its records."""
        executor = RowExecutor(trial.mapping, source_name="", language=None)
        batches = sample_batches(trial.sample, trial.mapping)
        records = [record for batch in batches for record in executor.batch(batch).records]
        return cls(document=document, trial=trial, records=pick_evenly(records, _RECORDS))


def unbacked_choices(model: Side, rules: Side | None) -> dict[str, tuple[str, ...]]:
    """By the names of the gates, what only the model says, as it stands in the data."""
    found = {
        "texts in most records": _repeated_passages(model, rules),
        "rows left out": _rows_left_out(model, rules),
        "turns left out": _turns_left_out(model),
        "few groups": _few_groups(model, rules),
        "sides without evidence": _unproved_sides(model, rules),
        "one of two answers": _rival_answers(model),
        "what is trained on": _odd_training(model, rules),
    }
    return {name: told for name, one in found.items() if (told := tuple(one))}


def _repeated_passages(model: Side, rules: Side | None) -> Iterator[str]:
    """A passage or a line that most records hold, and those of the rules do not."""
    known = _common_passages(rules.records) if rules else frozenset()
    yield from sorted(_common_passages(model.records) - known, key=len)[-1:]


def _common_passages(records: Sequence[Record]) -> frozenset[str]:
    counts = Counter(one for record in records for one in _passages(record))
    most = max(_FEWEST - 1, _MOST * len(records))
    return frozenset(passage for passage, count in counts.items() if count > most)


def _passages(record: Record) -> set[str]:
    """The lines of all texts of a record, and all runs of so many of their words."""
    said = [message["content"] for message in record.get("messages", ())]
    said += [record.get("text") or "", record.get("system") or ""]
    said += [json.dumps(record.get("tools") or "", ensure_ascii=False)]
    said += [str(record["meta"].get("source") or "")]
    found = set()
    for line in (line for text in said for line in text.casefold().split("\n")):
        words = _WORDS.findall(line)
        runs = range(max(1, len(words) - _RUN + 1))
        found |= {" ".join(words[at : at + _RUN]) for at in runs if len(words) >= _LINE}
    return found


def _rows_left_out(model: Side, rules: Side | None) -> Iterator[str]:
    """Rows left out by conditions on what does not call itself bad, and not by the rules."""
    sides = [one.trial.report.failures.get("filtered", 0) if one else 0 for one in (model, rules)]
    conditions = [part.value for part in select_parts(model.document, "where")]
    if sides[0] > sides[1] and not all(map(_names_bad_rows, conditions)):
        yield f"{sides[0]} of {model.trial.report.rows} sampled rows"


def _names_bad_rows(condition: MappingDocument) -> bool:
    """Whether a condition is about deleted, rejected or accepted rows, by its field or values."""
    path = condition["path"]
    name = last_name(path if isinstance(path, str) else path.get("take", ""))  # of a lookup
    values = [*condition.get("in", ()), *condition.get("not_in", ())]
    named = flags_bad_rows(name) or bool(verdict_of(name))
    truth = all(isinstance(value, bool) for value in values)
    return bool(values) and ((named and truth) or all(verdict_of(str(one)) for one in values))


def _turns_left_out(model: Side) -> Iterator[str]:
    """Lists of which a mapping takes several places, and leaves what stands behind them."""
    taken: dict[str, set[int]] = {}
    for part in select_parts(model.document, "messages", "text"):
        value = part.value["content"] if part.key == "messages" else part.value
        for path in value_paths(value):
            if found := _PLACE.match(path):
                taken.setdefault(found[1], set()).add(int(found[2]))
    nodes = View.of([row.value for row in model.trial.sample.rows]).nodes[:_RECORDS]
    for path, places in taken.items():
        try:
            sizes = [len(values_at(f"{path}[*]", node)) for node in nodes]
        except PathSyntaxError:
            continue
        if len(places) > 1 and 2 * sum(size > max(places) + 1 for size in sizes) > len(sizes):
            yield f"the elements of {path} behind number {max(places)}"


def _few_groups(model: Side, rules: Side | None) -> Iterator[str]:
    """Groups of many rows where the rules make none by the same columns."""
    group = model.document.get("group")
    rows = len(model.trial.sample.rows)
    backed = rules and rules.document.get("group", {}).get("by") == (group or {}).get("by")
    made = model.trial.report.rows
    few = _FEW_GROUPS * made < rows or (made == 1 and rows >= _FEWEST)
    if group and not backed and few:
        yield f"{rows} rows become {made} groups"


def _unproved_sides(model: Side, rules: Side | None) -> Iterator[str]:
    """Who asks and who answers, where no name, no text and not the rules say so."""
    parts = [part.value for part in select_parts(model.document, "messages")]
    if not parts or any(map(_is_named_side, parts)):
        return
    asked, told = (_asking(model.records, role) for role in ("user", "assistant"))
    sides = _side_paths(model.document)
    if asked - told < _MORE_QUESTIONS and not (
        rules and _agree(sides, _side_paths(rules.document))
    ):
        yield "; ".join(" and ".join(one) for one in sides if one) or "the roles alternate"


def _agree(one: Sequence[Sequence[str]], other: Sequence[Sequence[str]]) -> bool:
    """Whether both put fields on the same sides, and none on another one."""
    crossed = {*one[0]} & {*other[1]} or {*one[1]} & {*other[0]}
    return not crossed and all({*a} & {*b} for a, b in zip(one, other, strict=True))


def _is_named_side(message: MappingDocument) -> bool:
    role = message.get("role")
    if isinstance(role, dict):
        named = role.get("map") or role.get("split") or {}
        words = (
            (word, given)
            for name, given in named.items()
            for word in (name, *spell_name(name).split("_"))
        )
        return any(given and speaker_role(word) == given for word, given in words)
    slots = {"user": ("question", "instruction", "input"), "assistant": ("answer",)}
    found = slots.get(role, ()) if isinstance(role, str) else ()
    names = [last_name(path) for path in value_paths(message.get("content"))]
    return any(name_strength(name, slot) >= NAMED for name in names for slot in found)


def _side_paths(document: MappingDocument) -> tuple[tuple[str, ...], tuple[str, ...]]:
    paths: dict[str, list[str]] = {"user": [], "assistant": []}
    for part in select_parts(document, "messages"):
        roles = message_roles(part.value.get("role"))
        if len(roles) == 1 and roles[0] in paths:
            paths[roles[0]] += value_paths(part.value.get("content"))
    return tuple(paths["user"]), tuple(paths["assistant"])


def _asking(records: Sequence[Record], role: str) -> float:
    texts = [m["content"] for r in records for m in r.get("messages", ()) if m["role"] == role]
    return sum(map(is_question, texts)) / max(1, len(texts))


def _rival_answers(model: Side) -> Iterator[str]:
    """An answer beside another one of which nothing is read, or that is called a rejected one."""
    _, answers = _side_paths(model.document)
    read = {name for said in value_strings(model.document) for name in _NAME.findall(said)}
    columns = View.of([row.value for row in model.trial.sample.rows]).columns
    for path in answers:
        name = last_name(path)
        if name_strength(name, "rejected") >= NAMED:
            yield f"{path}, which is called a rejected one"
        for column in columns:
            if column.text and column.name not in read and are_two_sides(name, column.name):
                yield f"{path} and not {column.path}"


def _odd_training(model: Side, rules: Side | None) -> Iterator[str]:
    """Messages of users that are trained on, or of assistants that are not, as data say."""
    if _count_odd_masks(model.records) and not (rules and _count_odd_masks(rules.records)):
        yield f"{_count_odd_masks(model.records)} messages"


def _count_odd_masks(records: Sequence[Record]) -> int:
    messages = [message for record in records for message in record.get("messages", ())]
    return sum(one["loss_mask"] != (one["role"] == "assistant") for one in messages)
