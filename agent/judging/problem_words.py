"""Say what is wrong with a mapping in plain words, with the command of `ingot chat` that solves it.

Every door shows the same words. Whoever writes the document finds its pointer behind them.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ingot.agent.privacy import SafeProblem
from ingot.agent.proposing.names import speaker_role
from ingot.agent.proposing.proposal import (
    MappingPart,
    document_layouts,
    layout_parts,
    message_roles,
    value_forms,
)
from ingot.converters.errors import Problem
from ingot.converters.mapping.language import ROLES
from ingot.converters.rows import Json, MappingDocument

_Said = tuple[str, str]  # words and a command, "" = none solves it
_NOTHING = ("none", "nothing")
_NOT_TYPED = re.compile(r"""[,|"{}\n]""")  # in a path that a command would read otherwise
_READ_BY = "facts that the files can be read by"  # of a mapping, not of rows
# What rows became instead of records, as it is said of some of them.
_REASONS = {
    "no_assistant": "no message of the assistant",
    "no_prompt": "no message of a user",
    "empty_text": "no text",
    "filtered": "left out by a condition",
    "not_text": "a list or an object in place of a text",
    "not_a_list": "no list where one is walked over",
    "unmapped_value": "a value that the mapping does not name",
    "bad_row": "not readable",
}
_OUTCOMES = ("no_records", "coverage")  # of all other problems together


def explain_problem(problem: Problem, mapping: MappingDocument) -> Problem:
    """Return the problem of a mapping with its words and its command."""
    if problem.words:
        return problem
    explain = _EXPLAIN.get(problem.code)
    words, command = explain(problem, mapping) if explain else (_plain_words(problem), "")
    return replace(problem, words=words, command=command)


def told_problems(problems: Sequence[SafeProblem]) -> list[SafeProblem]:
    """Return the problems that a person is told: not what another one of them explains."""
    causes = {one.code for one in problems if not one.pointer.startswith("/meta")}
    told = [one for one in problems if one.code not in _OUTCOMES or not _is_explained(one, causes)]
    codes = [one.code for one in told]
    return [one for one in told if one.code != "coverage" or "no_records" not in codes]


def _is_explained(outcome: Problem, causes: set[str]) -> bool:
    reasons = {reason for reason, _ in outcome.values}
    return bool(reasons) and (reasons <= causes or "unresolved_path" in causes)


def _plain_words(problem: Problem) -> str:
    got = f", not {problem.got}" if problem.got and problem.got not in _NOTHING else ""
    return f"This needs {problem.expected}{got}.{_nearest_words(problem)}"


def _nearest_words(problem: Problem) -> str:
    return f" Did you mean {problem.nearest}?" if problem.nearest else ""


def _counts(problem: Problem, spell: Callable[[str], str] = repr) -> str:
    """Return what was found as `'agent' (793), 'system' (400)`."""
    told = ", ".join(f"{spell(value)} ({count})" for value, count in problem.values)
    return told or problem.got


# --- what each kind says


def _unresolved(problem: Problem, mapping: MappingDocument) -> _Said:
    if not problem.nearest:
        return f"No sampled row has {problem.got}.", ""
    command = _set_line(mapping, problem.pointer, problem.got, problem.nearest)
    return f"No sampled row has {problem.got}.{_nearest_words(problem)}", command


def _unmapped(problem: Problem, mapping: MappingDocument) -> _Said:
    """Say which speakers have no role, or which values of a table stand for nothing."""
    said = f"{problem.path or 'The data'} has {_counts(problem)}"
    role = _role_at(mapping, problem.pointer)
    if not isinstance(role, dict):
        return f'{said}, which `map` does not name; "*" in it stands for all others.', ""
    if "order" in role:
        return f"{said}: more speakers than `order` has roles for.", ""
    first = problem.values[0][0] if problem.values else ""
    if not first or mapping.get("any_of"):  # `role` sets those of the mapping itself
        return f"{said} without a role.", ""
    if first == "null":
        name = str(role.get("path"))
        return f"{said} without a role.", f"drop message where {name} is null"
    known = speaker_role(first) or "|".join((*ROLES, "drop"))
    return f"{said} without a role.", f"role {typed_name(first)} {known}"


def _role_at(mapping: MappingDocument, pointer: str) -> Json:
    for place, layout in document_layouts(mapping):
        for part in layout_parts(layout, place):
            if part.key == "messages" and f"{pointer}/".startswith(f"{part.pointer}/role/"):
                return part.value["role"]
    return None


def typed_name(name: str) -> str:
    """Return the name of a speaker as a command reads it."""
    return name if re.fullmatch(r'[^\s"]+', name) else json.dumps(name, ensure_ascii=False)


def _not_text(problem: Problem, mapping: MappingDocument) -> _Said:
    """Say how a list or an object becomes a text: its texts joined, or its JSON."""
    path, first = problem.path, problem.values[0][0] if problem.values else ""
    words = f"{path or 'A field'} holds a list or an object where a text is wanted."
    other = f"{path}[*]" if first.startswith('["') else f"{path} as json"
    return words, _set_line(mapping, problem.pointer, path, other) if first and path else ""


def _too_few(problem: Problem, mapping: MappingDocument) -> _Said:
    found = _counts(problem, lambda reason: _REASONS.get(reason, reason.replace("_", " ")))
    none = problem.code == "no_records"
    share = f"Only {problem.got.partition(' ')[0]} of the sampled records can be made"
    words = f"{'No sampled row gives a record' if none else share}: {found}."
    reasons = [reason for reason, _ in problem.values[:1]]
    if reasons == ["filtered"]:
        return words, "keep all"
    stated = [role for one in mapping.get("messages") or () for role in message_roles(one["role"])]
    for reason, side in (("no_assistant", "assistant"), ("no_prompt", "user")):
        if reasons == [reason] and side not in stated:
            return words, f"set {side} FIELD"
    return words, ""


def _both_sides(problem: Problem, mapping: MappingDocument) -> _Said:
    command = _set_line(mapping, problem.pointer, problem.path, "FIELD")
    return f"{problem.path} stands in the question and in its answer.", command


def _no_training(problem: Problem, mapping: MappingDocument) -> _Said:
    for number, one in enumerate(mapping.get("messages") or (), start=1):
        if "assistant" in message_roles(one["role"]) and "loss_mask" in one:
            return "No message is trained on.", f"train message {number} usual"
    return "No message is trained on.", ""


def _unreadable(problem: Problem, mapping: MappingDocument) -> _Said:
    if problem.expected != _READ_BY:
        return f"Of the sampled rows {problem.got} cannot be read ({problem.expected}).", ""
    command = "set root none" if problem.pointer == "/source/root" else ""
    return f"The files cannot be read as the mapping says: {problem.got}.", command


def _drift(problem: Problem, mapping: MappingDocument) -> _Said:
    said = f"The data differ from those that the mapping was made for: {problem.got}."
    return f"{said} --allow-drift converts them all the same.", ""


def _constant_meta(problem: Problem, mapping: MappingDocument) -> _Said:
    return _plain_words(problem), f"set {problem.pointer.rpartition('/')[2]} none"


_EXPLAIN: dict[str, Callable[[Problem, MappingDocument], _Said]] = {
    "unresolved_path": _unresolved,
    "unmapped_value": _unmapped,
    "not_text": _not_text,
    "no_records": _too_few,
    "coverage": _too_few,
    "both_sides": _both_sides,
    "no_training": _no_training,
    "unreadable": _unreadable,
    "drift": _drift,
    "constant_meta": _constant_meta,
    "bad_literal": _constant_meta,
    "ambiguous_lookup": lambda problem, mapping: (
        f"{problem.path} finds more than one element with its key: {_counts(problem)}.",
        "",
    ),
    "too_deep": lambda problem, mapping: (
        f"{problem.path} has more levels than `depth` allows: a larger `depth` takes them too.",
        "",
    ),
}


# --- commands that put another path in the place of one


def _set_line(mapping: MappingDocument, pointer: str, old: str, new: str) -> str:
    """Return the command that says a part anew with another path, "" where none can say it."""
    if mapping.get("version") != 2:  # its parts lie elsewhere
        return ""
    for number, (place, layout) in enumerate(document_layouts(mapping)):
        for part in layout_parts(layout, place):
            if f"{pointer}/".startswith(f"{part.pointer}/"):
                target, value = _typed_target(part, layout, pointer)
                typed = ",".join(_typed_parts(value, old, new)) if target else ""
                named = f"alternative {number} " * (number > 0)
                return f"set {named}{target} {typed}" if typed else ""
    return ""


def _typed_target(part: MappingPart, layout: MappingDocument, pointer: str) -> tuple[str, Json]:
    """Return what a command sets for a part, and the value that it has now."""
    if part.key != "messages":
        return ("" if part.key == "where" else part.key.removeprefix("meta.")), part.value
    if not pointer.startswith(f"{part.pointer}/content"):
        return "", None
    role, number = part.value["role"], int(part.pointer.rpartition("/")[2]) + 1
    alone = [one["role"] for one in layout["messages"]].count(role) == 1
    return (role if isinstance(role, str) and alone else f"message {number}"), part.value["content"]


def _typed_parts(value: Json, old: str, new: str) -> Iterable[str]:
    """Return the parts of a value as they are typed, none where one of them cannot be."""
    parts = value if isinstance(value, list) else [value]
    typed = [_typed_part(one, old, new) for one in parts]
    return typed if all(typed) else ()


def _typed_part(part: Json, old: str, new: str) -> str:
    if isinstance(part, str):
        path = new if part == old else part
        return "" if _NOT_TYPED.search(path) else path
    if [*part] == ["literal"]:
        return json.dumps(part["literal"], ensure_ascii=False)
    if [*part] == ["any_of"]:
        choices = [_typed_part(one, old, new) for one in part["any_of"]]
        return "|".join(choices) if all(choices) and len([*value_forms(part)]) == 1 else ""
    if part.get("as") and part.keys() == {"path", "as"} and isinstance(part["path"], str):
        return f"{_typed_part(part['path'], old, new).removesuffix(' as json')} as json"
    return ""
