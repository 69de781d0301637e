"""Say what is wrong with a mapping in plain words, with the command of `ingot chat` that solves it.

Every door shows the same words. Whoever writes the document finds its pointer behind them.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from ingot.agent.privacy import SafeProblem
from ingot.agent.proposing.names import speaker_role
from ingot.converters.errors import Problem
from ingot.converters.mapping.language import (
    ROLES,
    Layout,
    Mapping,
    Message,
    RoleFromData,
    RoleSplit,
    Value,
    possible_roles,
)
from ingot.converters.mapping.lookup import Lookup
from ingot.converters.mapping.walk import (
    MappingPart,
    layout_parts,
    mapping_layouts,
    value_parts,
)
from ingot.converters.paths import Path

_NOT_TYPED = re.compile(r"""[,|"{}\n]""")  # in a path that a command would read otherwise
# What is said of each kind of problem, and the command where it is always the same.
_SAID = {
    "unresolved_path": ("No sampled row has {got}.", ""),
    "unmapped role": ("{path} has {found} without a role.", ""),
    "unmapped_value": ("{path} has {found}, for which `map` has nothing.", ""),
    "not_text": ("{path} holds a list or an object where a text is needed.", ""),
    "ambiguous_lookup": ("{path} finds more than one element with its key: {found}.", ""),
    "too_deep": ("{path} has more levels than `depth` allows.", ""),
    "coverage": ("Of the sampled records only {got} can be made.", ""),
    "no_records": ("No sampled row gives a record: {found}.", ""),
    "both_sides": ("{path} stands in the question and in its answer.", "set assistant FIELD"),
    "no_training": ("No message is trained on.", "train assistant usual"),
    "constant_meta": ("This needs {expected}, not {got}.", "set {key} none"),
    "bad_literal": ("This needs {expected}, not {got}.", "set {key} none"),
    "unreadable": ("The data cannot be read as the mapping says: {got}.", ""),
    "drift": (
        "The data differ from those that the mapping was made for: {got} "
        "(--allow-drift converts them anyway).",
        "",
    ),
}
_OTHER = ("This needs {expected}, not {got}.", "")
# What rows became instead of records, as it is said of some of them.
_REASONS = {
    "no_assistant": "no message of the assistant",
    "no_prompt": "no message of a user",
    "empty_text": "no text",
    "filtered": "left out by a condition",
    "not_text": "a list or an object in place of a text",
    "not_a_list": "no list where one is walked over",
    "unmapped_value": "a value that the mapping does not name",
}
_OUTCOMES = ("no_records", "coverage")  # of all other problems together


def explain_problem(problem: Problem, mapping: Mapping) -> Problem:
    """Return the problem of a mapping with its words and its command."""
    if problem.words:
        return problem
    role = problem.code == "unmapped_value" and "/role" in problem.pointer
    words, command = _SAID.get("unmapped role" if role else problem.code, _OTHER)
    names = _REASONS if problem.code in _OUTCOMES else {}
    values = (f"{names.get(one) or repr(one)} ({count})" for one, count in problem.values)
    fields = {
        "expected": problem.expected,
        "got": problem.got,
        "path": problem.path or "The data",
        "found": ", ".join(values) or problem.got,
        "key": problem.pointer.rpartition("/")[2],
    }
    suggestion = f" Did you mean {problem.nearest}?" if problem.nearest else ""
    find_command = _COMMANDS.get(problem.code)
    command = find_command(problem, mapping) if find_command else command.format(**fields)
    return replace(problem, words=words.format(**fields) + suggestion, command=command)


def told_problems(problems: Sequence[SafeProblem]) -> list[SafeProblem]:
    """Return the problems that a person is told: not what another one of them explains."""
    causes = {one.code for one in problems if not one.pointer.startswith("/meta")}
    shown = []
    for one in problems:
        reasons = {reason for reason, _ in one.values}
        explained = "unresolved_path" in causes or (bool(reasons) and reasons <= causes)
        twice = one.code == "coverage" and "no_records" in causes
        if one.code not in _OUTCOMES or not (explained or twice):
            shown.append(one)
    return shown


# --- the command that solves it


def typed_name(name: str) -> str:
    """Return the name of a speaker as a command reads it."""
    return name if re.fullmatch(r'[^\s"]+', name) else json.dumps(name, ensure_ascii=False)


def _role_line(problem: Problem, mapping: Mapping) -> str:
    """Give the first speaker without a role the one that the name says, or let the person say."""
    _, _, part = _find_part(mapping, problem.pointer)
    role = part.value.role if part and isinstance(part.value, Message) else None
    read = isinstance(role, RoleSplit) or (isinstance(role, RoleFromData) and not role.order)
    if not read or mapping.any_of:
        return ""
    name = problem.values[0][0] if problem.values else "NAME"
    if name == "null" and isinstance(role, RoleFromData):
        return f"drop message where {role.path.text} is null"
    return f"role {typed_name(name)} {speaker_role(name) or '|'.join((*ROLES, 'drop'))}"


def _text_line(problem: Problem, mapping: Mapping) -> str:
    """Take the texts of a list, or the JSON of anything else."""
    texts = problem.values and problem.values[0][0].startswith('["')
    other = f"{problem.path}[*]" if texts else f"{problem.path} as json"
    return _set_line(mapping, problem.pointer, problem.path, other) if problem.values else ""


def _side_line(problem: Problem, mapping: Mapping) -> str:
    """Say what is missing where no message can have the role."""
    messages = mapping.outer.messages or ()
    mapped_roles = [role for one in messages for role in possible_roles(one.role)]
    role_by_reason = {"no_assistant": "assistant", "no_prompt": "user"}
    missing = [
        role_by_reason[reason] for reason, _ in problem.values[:1] if reason in role_by_reason
    ]
    return next((f"set {side} FIELD" for side in missing if side not in mapped_roles), "")


_COMMANDS: dict[str, Callable[[Problem, Mapping], str]] = {
    "unresolved_path": lambda problem, mapping: _set_line(
        mapping, problem.pointer, problem.got, problem.nearest or ""
    ),
    "unmapped_value": _role_line,
    "not_text": _text_line,
    "no_records": _side_line,
}


def _find_part(mapping: Mapping, pointer: str) -> tuple[int, Layout, MappingPart | None]:
    """Return the part that a pointer leads into, and its layout with the number of that."""
    for number, (layout_pointer, layout) in enumerate(mapping_layouts(mapping)):
        for part in layout_parts(layout, layout_pointer):
            if f"{pointer}/".startswith(f"{part.pointer}/"):
                return number, layout, part
    return 0, mapping.outer, None


def _set_line(mapping: Mapping, pointer: str, old: str, new: str) -> str:
    """Return the command that says a part anew with another path, "" where none can say it."""
    number, layout, part = _find_part(mapping, pointer)
    if part is None or not new:
        return ""
    target, value = part.key.removeprefix("meta."), part.value
    if isinstance(value, Message):
        roles = [one.role for one in layout.messages or ()]
        message_number = int(part.pointer.split("/")[-1])
        alone = isinstance(value.role, str) and roles.count(value.role) == 1
        target = str(value.role) if alone else f"message {message_number + 1}"
        inside = pointer.startswith(f"{part.pointer}/content")
        value = value.content or "" if inside else ""
    prefix = f"alternative {number} " * (number > 0)
    typed: list[str] = []
    if isinstance(value, tuple):
        typed = [_typed_path(one.text, old, new) for one in value if isinstance(one, Path)]
    elif isinstance(value, Value):
        typed = [_typed_part(one, old, new) for one in value_parts(value)]
    return f"set {prefix}{target} {','.join(typed)}" if typed and all(typed) else ""


def _typed_part(part: Value, old: str, new: str) -> str:
    """Return a part as it is typed, "" where it is neither a path nor the JSON of one."""
    is_plain = part.kind == "path" and part.path and not isinstance(part.path, Lookup)
    if not is_plain or any(one.kind != "flag" for one in part.modifiers()):
        return ""
    typed = _typed_path(part.path.text if part.path else "", old, new)
    return typed and " ".join([typed, *(one.typed for one in part.modifiers())])


def _typed_path(path: str, old: str, new: str) -> str:
    return "" if _NOT_TYPED.search(path) else new if path == old else path
