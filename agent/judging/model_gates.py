"""The gates of a mapping that a model wrote: a row could have told it what to write.

Roles, sides, system texts and loss masks are compared with the names of fields and speakers. Names
alone prove little, but a row that a model is shown cannot change them for all records.
"""

import re
from collections.abc import Iterable, Iterator

from ingot.agent.judging import fixed_texts
from ingot.agent.judging.sample_gates import (
    MOST_LEFT_OUT,
    ProblemsByCode,
    failing_gate,
    is_constant,
    person_gate,
    share_text,
)
from ingot.agent.privacy import redact
from ingot.agent.proposing.field_names import name_strength, speaker_role
from ingot.agent.proposing.proposal import (
    MODEL,
    MappingDocument,
    Proposal,
    document_layouts,
    message_roles,
    value_strings,
)
from ingot.agent.state import Check, Gate, State
from ingot.converters.mapping.rows.executor import SOFT_REASONS
from ingot.converters.rows import Json

_LAST = re.compile(r"([^.\[\]'\"]+)['\"]?\]?(?:\[\*\])*$")
_USER_FIELDS = ("user", "human", "prompter", "用户")
_ASSISTANT_FIELDS = ("assistant", "gpt", "chatgpt", "bot", "chatbot", "助手")
# The slots of fields that are the other side's.
_OTHER_SLOTS = {"user": ("answer",), "assistant": ("question", "instruction")}
_LEAST_STRENGTH = 0.8  # how far a name has to say that it is a side's


def swapped_sides(document: MappingDocument) -> list[str]:
    """Speakers and fields whose name says one side and that the mapping puts on the other."""
    return [
        said
        for _, layout in document_layouts(document)
        for message in layout.get("messages") or []
        for said in _swapped_in_message(message)
    ]


def _swapped_in_message(message: MappingDocument) -> Iterator[str]:
    role = message.get("role")
    if isinstance(role, dict):
        named = role.get("map") or role.get("split") or {}
        letters = {"q", "a"} <= {name.casefold() for name in named}  # else `A` is a person
        for name, given in named.items():
            if (len(name) > 1 or not name.isascii() or letters) and _are_opposite(
                speaker_role(name), given
            ):
                yield f"{name!r} → {given}"
    elif isinstance(role, str):
        for name in _field_names(message.get("content")):
            if _are_opposite(_field_side(name), role):
                yield f"the field {name!r} → {role}"


def _are_opposite(named: str | None, given: Json) -> bool:
    return (named, given) in (("user", "assistant"), ("assistant", "user"))


def _field_side(name: str) -> str | None:
    plain = name.casefold()
    if plain in _USER_FIELDS:
        return "user"
    return "assistant" if plain in _ASSISTANT_FIELDS else None


def odd_masks(document: MappingDocument) -> list[str]:
    """Fixed `loss_mask`s against their role, and those read from fields that are no weights."""
    return [
        said
        for _, layout in document_layouts(document)
        for message in layout.get("messages") or []
        for said in _odd_masks_of(message)
    ]


def _odd_masks_of(message: MappingDocument) -> Iterator[str]:
    mask = message.get("loss_mask")
    if isinstance(mask, bool):
        if any(
            mask != (role == "assistant") for role in message_roles(message.get("role")) if role
        ):
            yield f"{_role_text(message['role'])} is {'' if mask else 'not '}trained on"
    elif mask is not None:
        for name in _field_names(mask):
            if not name_strength(name, "weight"):
                yield f"{_role_text(message['role'])} is trained on where {name!r} says so"


def _role_text(role: Json) -> str:
    return role if isinstance(role, str) else "every role"


def odd_system_texts(document: MappingDocument) -> list[str]:
    """Fields and speakers that the mapping takes for system texts and whose name says no such."""
    return [said for _, layout in document_layouts(document) for said in _odd_systems_of(layout)]


def _odd_systems_of(layout: MappingDocument) -> Iterator[str]:
    messages = layout.get("messages") or []
    plain = [
        layout.get("system"),
        *(m.get("content") for m in messages if m.get("role") == "system"),
    ]
    for name in (name for value in plain for name in _field_names(value)):
        if not name_strength(name, "system"):
            yield f"the field {name!r}"
    for role in (m["role"] for m in messages if isinstance(m.get("role"), dict)):
        for name, given in (role.get("map") or role.get("split") or {}).items():
            if given == "system" and speaker_role(name) != "system":
                yield repr(name)


def crossed_messages(document: MappingDocument) -> list[str]:
    """Messages of nothing but fields named for the other side, and sides that are left out."""
    return [
        said
        for _, layout in document_layouts(document)
        for message in layout.get("messages") or []
        for said in _crossed_in_role(message.get("role"), [*_field_names(message.get("content"))])
    ]


def _crossed_in_role(role: Json, names: list[str]) -> Iterator[str]:
    if isinstance(role, dict):
        for name, given in (role.get("map") or role.get("split") or {}).items():
            if given is None and speaker_role(name) in ("user", "assistant"):
                yield f"{name!r} is left out"
    elif (
        isinstance(role, str)
        and names
        and all(_names_slot(one, _OTHER_SLOTS.get(role)) for one in names)
    ):
        yield f"{', '.join(map(repr, names))} → {role}"


def _names_slot(name: str, slots: tuple[str, ...] | None) -> bool:
    return any(name_strength(name, slot) >= _LEAST_STRENGTH for slot in slots or ())


def _field_names(value: Json) -> Iterator[str]:
    """The last names of the paths that a value takes plainly."""
    if isinstance(value, list):
        for part in value:
            yield from _field_names(part)
    elif isinstance(value, dict):
        yield from _field_names(value.get("concat") or value.get("path"))
    elif isinstance(value, str) and (last := _LAST.search(value)):
        yield last[1]


# A name whose elements or values are walked: `data` of `data[*]` and `data.*`.
_WALKED = re.compile(r"([^.\[\]'\"]+)['\"]?\]?(?:\[\*\]|\.\*)")


def constant_group_keys(document: MappingDocument, groups: int, rows: int) -> list[str]:
    """Keys of a `group` that make one row of all sampled rows (three or more)."""
    group = document.get("group")
    return [repr(key) for key in group["by"]] if group and groups == 1 and rows > 2 else []


def fixed_element_paths(document: MappingDocument) -> list[str]:
    """Paths that lead from every record to one fixed element of the list that holds them all.

    One row could put its text into all records that way.
    """
    return [
        said
        for _, layout in document_layouts(document)
        for said in _fixed_elements_of(layout, document)
    ]


def _fixed_elements_of(layout: MappingDocument, document: MappingDocument) -> Iterator[str]:
    each = layout.get("each") or document.get("each") or ""
    walked = [re.escape(name) for name in _WALKED.findall(each)]
    if not walked:
        return
    fixed = re.compile(rf"\^\.(?:[^{{}}]*\.)?(?:{'|'.join(walked)})'?\]?(?:\[(?!\*)|\.(?!\*))")
    for key in ("text", "messages", "system", "tools"):
        for text in value_strings(layout.get(key)):
            if fixed.search(text):
                yield repr(text)


def literal_gates(proposal: Proposal, found: ProblemsByCode) -> Iterator[Gate]:
    """Whether what a model wrote can be a value at all; the problems are taken."""
    if proposal.mapper == MODEL:
        yield failing_gate("constant ids, times and counts", found.take("constant_meta"), "none")
        yield failing_gate("literal source and language", found.take("bad_literal"), "a name")


def written_gates(
    proposal: Proposal, check: Check | None, names: tuple[str | None, ...]
) -> Iterator[Gate]:
    """What a model wrote and chose by itself."""
    document = proposal.mapping
    if proposal.mapper != MODEL or not document:
        return
    yield person_gate(
        "system text",
        "the model wrote a system message of its own",
        _quote_texts(piece for one in fixed_texts.system_texts(document) for piece in one.pieces),
        "none of the model's own",
    )
    yield person_gate(
        "fixed text",
        "the model wrote text of its own into the records",
        _quote_texts(piece for one in fixed_texts.long_texts(document) for piece in one.pieces),
        f"labels of at most {fixed_texts.LABEL_WORDS} words",
    )
    yield person_gate(
        "literal source",
        "the model named a source that is neither the data set nor what was asked for",
        _quote_texts(fixed_texts.foreign_sources(document, names)),
        "the data set's name",
    )
    yield person_gate(
        "roles against their names",
        "the model turned roles round",
        swapped_sides(document),
        "none",
    )
    yield person_gate(
        "loss masks against roles",
        "the model says by itself what is trained on",
        odd_masks(document),
        "assistants, or as the data says",
    )
    yield person_gate(
        "texts of other records",
        "the model takes a text of one row into every record",
        fixed_element_paths(document),
        "none",
    )
    if check is not None:
        yield from _left_out_gates(check)
        yield from _constant_answers(check)


def rules_gates(state: State) -> Iterator[Gate]:
    """What a model says and neither the user nor the rules do, of a graph's state."""
    proposal, opinion = state.get("proposal"), state.get("opinion")
    if not proposal or proposal.mapper != MODEL or not proposal.mapping or not opinion:
        return
    known = state["order"].language or opinion.proposal.detected.get("language")
    yield person_gate(
        "literal language",
        f"the model says a language that is not the texts' ({known})",
        fixed_texts.foreign_languages(proposal.mapping, known),
        "the texts' language",
    )
    if opinion.agrees:
        return
    yield person_gate(
        "system texts by their names",
        "the model takes for system texts what is not named so",
        odd_system_texts(proposal.mapping),
        "none, or the rules do so too",
    )
    yield person_gate(
        "sides by their names",
        "the model puts on one side what is named for the other",
        crossed_messages(proposal.mapping),
        "none, or the rules do so too",
    )
    check = state.get("check")
    groups = check.rows if check else 0
    yield person_gate(
        "one group of all rows",
        "the model makes one record of all rows, by",
        constant_group_keys(proposal.mapping, groups, state["sample"].rows),
        "several, or the rules do so too",
    )


def _quote_texts(said: Iterable[str]) -> list[str]:
    """The beginnings of texts; redacted first, so that no half of a secret is left."""
    return [repr(redact(text)[:200]) for text in said]


def _left_out_gates(check: Check) -> Iterator[Gate]:
    """How much a model's conditions and dropped roles leave out."""
    failures = check.failures
    gone = sum(failures.get(reason, 0) for reason in SOFT_REASONS)
    tried = check.records + sum(failures.values()) - check.unreadable
    yield _half_gate("records left out", gone, tried)
    if check.messages:
        yield _half_gate("messages left out", check.dropped, check.messages)


def _half_gate(name: str, gone: int, whole: int) -> Gate:
    much = gone > MOST_LEFT_OUT * whole
    figure = share_text(gone, whole)
    return Gate(
        name=name,
        state="person" if much else "pass",
        figure=figure,
        limit=f"at most {MOST_LEFT_OUT:.0%}".replace("%", " %"),
        detail=f"the model's mapping leaves out more than half: {name} {figure}" if much else "",
    )


def _constant_answers(check: Check) -> Iterator[Gate]:
    """Whether a model found the same thing to train on in all records."""
    usual = check.content.usual
    for side in ("text", "answers"):
        if side in usual:
            same = is_constant(usual[side])
            figure = share_text(usual[side].count, usual[side].texts)
            yield Gate(
                name=f"constant {side}",
                state="person" if same else "pass",
                figure=figure,
                limit="not the same in all",
                detail=f"the model trains on the same text in {figure} records" if same else "",
            )
