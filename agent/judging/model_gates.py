"""The gates of a mapping that a model wrote: a row could have told it what to write.

Roles, sides, system texts and loss masks are compared with the names of fields and speakers. Names
alone prove little, but a row that a model is shown cannot change them for all records.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ingot.agent.judging.invented_values import constant_text, fold_text
from ingot.agent.judging.model_only_choices import UNBACKED_GATES
from ingot.agent.judging.sample_gates import (
    GateRule,
    ProblemsByCode,
    constant_answer_gates,
    failing_gate,
    left_out_gates,
    person_gate,
)
from ingot.agent.privacy import redact
from ingot.agent.proposing.names import (
    known_words,
    name_strength,
    speaker_role,
    spell_name,
    spells_truth,
)
from ingot.agent.proposing.proposal import MODEL, Proposal
from ingot.agent.state import Gate, State
from ingot.converters.errors import Problem
from ingot.converters.mapping.language import (
    Layout,
    Mapping,
    Message,
    MessageRole,
    Value,
    possible_roles,
    speaker_roles,
)
from ingot.converters.mapping.lookup import taken_path
from ingot.converters.mapping.walk import (
    mapping_layouts,
    select_messages,
    select_parts,
    value_paths,
)
from ingot.converters.sources.documents.kinds import ISO_639_1

Where = Literal["system", "text"]

# What is no more than a label: `Question: `, `### Answer:`, `请回答：`. Where it is trained on it
# has to look like one too: five words are enough for `Buy AcmeCoin today`.
LABEL_WORDS, LABEL_CHARS = 5, 60
_LABELS_WORDS = 15  # of all labels of one value together
MOST_NAME = 128  # characters of a literal source or language
_SINGLE = ("original_id", "timestamp", "token_count", "quality_score")

_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_WORD = re.compile(r"\w+")
_SUSPICIOUS = re.compile(
    r"""
    https?:// | \bwww\. | (?<![a-z0-9_-])[a-z0-9-]++\.(?:com|net|org|io|ai|dev|cn|ru)\b  # address
    | <\|.{1,40}?\|> | \[/?INST\] | <</?SYS>> | </?s> | <(?:start|end)_of_turn>        # a marker
    | (?:\A|(?<!\W)[^\w\n]*+\n)\W*+(?:user|human|assistant|system|ai|bot|chatgpt|gpt|tool|function
        |用户|人类|助手|系统|机器人)\s*[:：>]                                           # a speaker
    | \b(?:ignore|disregard|forget|override|pretend|reveal|never|always|do\s+not|don't
        |you\s+(?:are|must|should|will|shall|have)|act\s+as|from\s+now\s+on
        |(?:system|previous|above)\s+(?:prompt|instructions?))\b                       # an order
    | 忽略 | 无视 | 忘记 | 你是 | 你要 | 你必须 | 不要 | 务必 | 必须 | 从现在起 | 假装 | 扮演
    """,
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
_HEADING = re.compile(
    r"\W*(?:[^\n:：]+[:：]|\w{1,2}[.)、．]|\#+[ ]?[^\n]+|\[[^\n\]]+\]|<[^\n>]+>|\*\*[^\n*]+\*\*)\W*"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class FixedText:
    """A text that a mapping brings along, and where it stands, as a JSON Pointer."""

    pointer: str
    where: Where
    pieces: tuple[str, ...]
    alone: bool
    trained: bool
    known: bool


def system_texts(mapping: Mapping) -> list[FixedText]:
    """Return fixed texts of system messages: every one of them would be in every record."""
    return [one for one in _fixed_texts(mapping) if one.where == "system"]


def long_texts(mapping: Mapping) -> list[FixedText]:
    """Return fixed texts that are more than labels of what the data says."""
    return [
        one for one in _fixed_texts(mapping) if one.where == "text" and not _is_only_labels(one)
    ]


def _fixed_texts(mapping: Mapping) -> Iterator[FixedText]:
    for part in select_parts(mapping, "system", "text", "messages"):
        value: object = part.value
        pointer = part.pointer
        roles: tuple[str | None, ...] = (part.key,)
        if isinstance(value, Message):
            roles, pointer = possible_roles(value.role), f"{pointer}/content"
            value = value.content
        if not isinstance(value, Value):
            continue
        if pieces := tuple(one for one in _text_pieces(value) if any(map(str.isalnum, one))):
            yield FixedText(
                pointer=pointer,
                where="system" if "system" in roles else "text",
                pieces=pieces,
                alone=constant_text(value) is not None or _stands_for_data(value),
                trained="text" in roles or "assistant" in roles,
                known=_has_known_words(pieces, value),
            )


def _stands_for_data(value: Value) -> bool:
    """Whether a text stands where the data would: behind a map, or where other values are blank."""
    table = value.map or {}
    texts = [text for text in table.values() if isinstance(text, str)]
    return (
        not (spells_truth(table) or _has_known_words(texts, value))
        or (value.kind == "any_of" and any(map(constant_text, value.parts)))
        or any(map(_stands_for_data, _joined_values(value)))
    )


def _joined_values(value: Value) -> tuple[Value, ...]:
    """The values that a value is made of."""
    return (value.tree.text,) if value.tree else value.parts


def _has_known_words(pieces: Sequence[str], value: Value) -> bool:
    """Whether fixed pieces have no words but those of the value's fields and of the tables."""
    field_words = {word for path in value_paths(value) for word in spell_name(path).split("_")}
    piece_words = {
        word for piece in pieces for word in spell_name(piece).split("_") if len(word) > 1
    }
    return not {word for word in piece_words if not word.isdigit()} - field_words - known_words()


def _is_only_labels(fixed: FixedText) -> bool:
    if fixed.alone or not is_label(fixed.pieces):
        return False
    return not fixed.trained or (fixed.known and all(map(_HEADING.fullmatch, fixed.pieces)))


def is_label(pieces: Sequence[str]) -> bool:
    """Return whether the fixed pieces of a value say no more than what follows them is."""
    counts = [count_words(piece) for piece in pieces]
    short = all(len(piece.strip()) <= LABEL_CHARS for piece in pieces)
    harmless = not any(_SUSPICIOUS.search(piece) for piece in pieces)
    return (
        short
        and harmless
        and max(counts, default=0) <= LABEL_WORDS
        and sum(counts) <= _LABELS_WORDS
    )


def count_words(text: str) -> int:
    """Return about how many words a text has; of scripts without blanks two characters are one."""
    dense = len(_CJK.findall(text))
    return len(_WORD.findall(_CJK.sub(" ", text))) + -(-dense // 2)


def _text_pieces(value: Value) -> Iterator[str]:
    """Every text that a value says besides what its paths find."""
    yield value.literal
    yield from (piece for piece in value.template if isinstance(piece, str))
    yield value.sep
    for table in (value.replace or {}, value.map or {}):
        if not spells_truth(table):
            yield from (text for text in table.values() if isinstance(text, str))
    for inner in _joined_values(value):
        yield from _text_pieces(inner)


# --- meta


def meta_faults(mapping: Mapping) -> list[Problem]:
    """Return constants that are invalid for their metadata key; pointers lead into the document."""
    return [problem for constant in _meta_constants(mapping) for problem in _meta_fault(*constant)]


def _meta_constants(mapping: Mapping) -> Iterator[tuple[str, str, str]]:
    for pointer, layout in mapping_layouts(mapping):
        for key, value in layout.meta.items():
            text = constant_text(value)
            if text is not None:
                yield f"{pointer}/meta/{key}", key, text


def _meta_fault(pointer: str, key: str, text: str) -> Iterator[Problem]:
    if key in _SINGLE:
        expected = f"a path, or nothing: one {key} for all records says nothing"
        yield Problem(pointer, "constant_meta", expected, repr(redact(text)[:MOST_NAME]))
    elif len(text) > MOST_NAME or any(unicodedata.category(c) in ("Cc", "Zl", "Zp") for c in text):
        expected = f"a name of at most {MOST_NAME} characters on one line"
        yield Problem(pointer, "bad_literal", expected, repr(redact(text)[:MOST_NAME]))
    elif key == "language" and text != "mix" and text not in ISO_639_1:
        yield Problem(pointer, "bad_literal", "an ISO 639-1 code or mix", repr(redact(text)))


def foreign_languages(mapping: Mapping, known: str | None) -> list[str]:
    """Return literal languages that differ from the requested or detected one; None = unknown."""
    literals = [literal for _, key, literal in _meta_constants(mapping) if key == "language"]
    return [literal for literal in literals if known and literal != known]


def foreign_sources(mapping: Mapping, known: Sequence[str | None]) -> list[str]:
    """Return literal sources that are neither the data set's name nor the requested one."""
    names = {fold_text(name) for name in known if name}
    literals = [literal for _, key, literal in _meta_constants(mapping) if key == "source"]
    return [literal for literal in literals if fold_text(literal) not in names] if names else []


_NAME = re.compile(r"[^.\[\]'\"*^$~]+")
_LAST = re.compile(r"(?<![^.\[\]'\"])(?!\*\])([^.\[\]'\"]++)['\"]?+\]?+(?:\[\*\])*+$")
_OPPOSITE = (("user", "assistant"), ("assistant", "user"))
# Names and slots of fields that are the other side's.
_OTHER_FIELDS = {
    "user": ("assistant", "gpt", "chatgpt", "bot", "chatbot", "助手"),
    "assistant": ("user", "human", "prompter", "用户"),
}
_OTHER_SLOTS = {"user": ("answer",), "assistant": ("question", "instruction")}
_LEAST_STRENGTH = 0.8  # how far a name has to say that it is a side's


def _in_messages(
    find: Callable[[Message], Iterator[str]],
) -> Callable[[Mapping], list[str]]:
    """What finds in a mapping what a function finds in one message."""
    return lambda mapping: [finding for one in select_messages(mapping) for finding in find(one)]


@_in_messages
def swapped_sides(message: Message) -> Iterator[str]:
    """Yield speakers and fields whose name says one side and that the mapping puts on the other."""
    roles = speaker_roles(message.role)
    letters = {"q", "a"} <= {name.casefold() for name in roles}  # else `A` is a person
    for name, role in roles.items():
        clear = len(name) > 1 or not name.isascii() or letters
        if clear and (speaker_role(name), role) in _OPPOSITE:
            yield f"{name!r} → {role}"
    if isinstance(message.role, str):
        for name in _field_names(message.content):
            if name.casefold() in _OTHER_FIELDS.get(message.role, ()):
                yield f"the field {name!r} → {message.role}"


@_in_messages
def odd_masks(message: Message) -> Iterator[str]:
    """Yield fixed `loss_mask`s that contradict their role, and those not read from weights."""
    mask = message.loss_mask
    if isinstance(mask, bool):
        roles = [role for role in possible_roles(message.role) if role]
        if any(mask != (role == "assistant") for role in roles):
            yield f"{_role_text(message.role)} is {'' if mask else 'not '}trained on"
    elif mask is not None:
        for name in _field_names(mask):
            if not name_strength(name, "weight"):
                yield f"{_role_text(message.role)} is trained on where {name!r} says so"


def _role_text(role: MessageRole) -> str:
    return role if isinstance(role, str) else "every role"


def odd_system_texts(mapping: Mapping) -> list[str]:
    """Return fields and speakers that are mapped to system texts, but are not named so."""
    return [
        finding for _, layout in mapping_layouts(mapping) for finding in _find_odd_systems(layout)
    ]


def _find_odd_systems(layout: Layout) -> Iterator[str]:
    messages = layout.messages or ()
    contents = [one.content for one in messages if one.role == "system"]
    for name in (name for value in (layout.system, *contents) for name in _field_names(value)):
        if not name_strength(name, "system"):
            yield f"the field {name!r}"
    for name, role in (pair for one in messages for pair in speaker_roles(one.role).items()):
        if role == "system" and speaker_role(name) != "system":
            yield repr(name)


@_in_messages
def crossed_messages(message: Message) -> Iterator[str]:
    """Yield messages of fields that are all named for the other side, and sides left out."""
    role, names = message.role, [*_field_names(message.content)]
    for name, mapped_role in speaker_roles(role).items():
        if mapped_role is None and speaker_role(name) in ("user", "assistant"):
            yield f"{name!r} is left out"
    if isinstance(role, str) and names:
        slots = _OTHER_SLOTS.get(role, ())
        if all(any(name_strength(one, s) >= _LEAST_STRENGTH for s in slots) for one in names):
            yield f"{', '.join(map(repr, names))} → {role}"


def _field_names(value: Value | None) -> Iterator[str]:
    """The last names of the paths that a value takes plainly."""
    if value is None:
        return
    if value.kind == "concat" or value.tree:
        for part in _joined_values(value):
            yield from _field_names(part)
    elif value.path and (last := _LAST.search(taken_path(value.path).text)):
        yield last[1]


def literal_gates(proposal: Proposal, by_code: ProblemsByCode) -> Iterator[Gate]:
    """Yield whether what a model wrote can be a value at all; the problems are taken."""
    if proposal.mapper == MODEL:
        yield failing_gate("constant ids, times and counts", by_code.take("constant_meta"), "none")
        yield failing_gate("literal source and language", by_code.take("bad_literal"), "a name")


_BY_NAMES = "none, or the rules do so too"
_READING = tuple(f"source.{key}" for key in ("encoding", "delimiter", "quote", "columns"))
# What a model wrote and chose by itself, in its mapping and in the state of the run.
_WRITTEN: tuple[GateRule[[Mapping, State]], ...] = (
    GateRule(
        "system text",
        "the model wrote a system message of its own",
        "none of the model's own",
        lambda mapping, _: _quote_texts(
            piece for one in system_texts(mapping) for piece in one.pieces
        ),
    ),
    GateRule(
        "fixed text",
        "the model wrote text of its own into the records",
        f"labels of at most {LABEL_WORDS} words",
        lambda mapping, _: _quote_texts(
            piece for one in long_texts(mapping) for piece in one.pieces
        ),
    ),
    GateRule(
        "literal source",
        "the model named a source that is neither the data set nor what was asked for",
        "the data set's name",
        lambda mapping, state: _quote_texts(foreign_sources(mapping, _source_names(state))),
    ),
    GateRule(
        "roles against their names",
        "the model turned roles round",
        "none",
        lambda mapping, _: swapped_sides(mapping),
    ),
    GateRule(
        "loss masks against roles",
        "the model says by itself what is trained on",
        "assistants, or as the data says",
        lambda mapping, _: odd_masks(mapping),
    ),
)
# What it chose where the rules come to other records.
_DISPUTED: tuple[GateRule[[Mapping, Proposal]], ...] = (
    GateRule(
        "system texts by their names",
        "the model takes for system texts what is not named so",
        _BY_NAMES,
        lambda mapping, _: odd_system_texts(mapping),
    ),
    GateRule(
        "sides by their names",
        "the model puts on one side what is named for the other",
        _BY_NAMES,
        lambda mapping, _: crossed_messages(mapping),
    ),
    GateRule(
        "reading of the files",
        "the model corrects how the files are read",
        "as the reader takes them, or the records stay the same",
        lambda _, proposal: [
            f"{one.target} {one.choice}" for one in proposal.evidence if one.target in _READING
        ],
    ),
)


def written_gates(state: State) -> Iterator[Gate]:
    """Yield what a model wrote and chose by itself, of a graph's state."""
    proposal = state.get("proposal")
    if not proposal or proposal.mapper != MODEL or proposal.mapping is None:
        return
    mapping, check = proposal.mapping, state.get("check")
    yield from (rule.gate(rule.find(mapping, state)) for rule in _WRITTEN)
    if check is not None:
        yield from left_out_gates(check)
        yield from constant_answer_gates(check)


def _source_names(state: State) -> tuple[str | None, str | None]:
    source = state.get("source")
    return source.name if source else None, state["order"].source_name


def rules_gates(state: State) -> Iterator[Gate]:
    """Yield what a model says and neither the user nor the rules do, of a graph's state."""
    proposal, opinion = state.get("proposal"), state.get("opinion")
    if not proposal or proposal.mapper != MODEL or proposal.mapping is None or not opinion:
        return
    mapping = proposal.mapping
    known = state["order"].language or opinion.proposal.detected.get("language")
    yield person_gate(
        "literal language",
        f"the model says a language that is not the texts' ({known})",
        foreign_languages(mapping, known),
        "the texts' language",
    )
    unbacked = opinion.unbacked or {}
    for rule in UNBACKED_GATES:
        if rule.name in unbacked or not opinion.agrees:
            yield rule.gate(unbacked.get(rule.name, ()))
    if not opinion.agrees:
        yield from (rule.gate(rule.find(mapping, proposal)) for rule in _DISPUTED)


def _quote_texts(texts: Iterable[str]) -> list[str]:
    """The beginnings of texts; redacted first, so that no half of a secret is left."""
    return [repr(redact(text)[:200]) for text in texts]
