"""Find the texts and literals that a model wrote into a mapping by itself.

A row that a model is shown could have planted any of them; what every record would hold is for a
person to approve, and what can be no value at all is a problem.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ingot.agent.privacy import redact
from ingot.agent.proposing.proposal import MappingDocument, document_layouts, message_roles
from ingot.converters.errors import Problem
from ingot.converters.mapping.bind import ISO_639_1
from ingot.converters.rows import Json

Where = Literal["system", "text"]

# What is no more than a label: `Question: `, `### Answer:`, `请回答：`. Where it is trained on it
# has to look like one too: five words are enough for `Buy AcmeCoin today`.
LABEL_WORDS, LABEL_CHARS = 5, 60
_LABELS_WORDS = 15  # of all labels of one value together
MOST_NAME = 128  # characters of a literal source or language
_SINGLE = ("original_id", "timestamp", "token_count", "quality_score")

_HOLE = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_WORD = re.compile(r"\w+")
_SUSPICIOUS = re.compile(
    r"""
    https?:// | \bwww\. | \b[a-z0-9-]+\.(?:com|net|org|io|ai|dev|cn|ru)\b              # an address
    | <\|.{1,40}?\|> | \[/?INST\] | <</?SYS>> | </?s> | <(?:start|end)_of_turn>        # a marker
    | ^\W*(?:user|human|assistant|system|ai|bot|chatgpt|gpt|tool|function
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
    """A text that a mapping brings along.

    Attributes:
        pointer: where it stands, as a JSON Pointer.
    """

    pointer: str
    where: Where
    pieces: tuple[str, ...]
    alone: bool = False
    trained: bool = False


def system_texts(document: MappingDocument) -> list[FixedText]:
    """Fixed texts of system messages: every one of them would be in every record."""
    return [one for one in _fixed_texts(document) if one.where == "system"]


def long_texts(document: MappingDocument) -> list[FixedText]:
    """Fixed texts of messages and texts that are more than labels of what the data says."""
    return [
        one for one in _fixed_texts(document) if one.where == "text" and not _is_only_labels(one)
    ]


def _is_only_labels(one: FixedText) -> bool:
    headed = not one.trained or all(map(_HEADING.fullmatch, one.pieces))
    return is_label(one.pieces) and headed and not one.alone


def is_label(pieces: Sequence[str]) -> bool:
    """Whether the fixed pieces of a value say no more than what follows them is."""
    counts = [count_words(piece) for piece in pieces]
    short = all(len(piece.strip()) <= LABEL_CHARS for piece in pieces)
    plain = not any(_SUSPICIOUS.search(piece) for piece in pieces)
    return (
        short and plain and max(counts, default=0) <= LABEL_WORDS and sum(counts) <= _LABELS_WORDS
    )


def count_words(text: str) -> int:
    """About how many words a text has; of scripts without blanks two characters are one."""
    dense = len(_CJK.findall(text))
    return len(_WORD.findall(_CJK.sub(" ", text))) + -(-dense // 2)


def _fixed_texts(document: MappingDocument) -> Iterator[FixedText]:
    for pointer, layout in document_layouts(document):
        yield from _fixed_texts_of(layout.get("system"), f"{pointer}/system", "system")
        yield from _fixed_texts_of(layout.get("text"), f"{pointer}/text", "text", trained=True)
        for number, message in enumerate(layout.get("messages") or []):
            roles = message_roles(message.get("role"))
            where: Where = "system" if "system" in roles else "text"
            place, trained = f"{pointer}/messages/{number}/content", "assistant" in roles
            yield from _fixed_texts_of(message.get("content"), place, where, trained=trained)


def _fixed_texts_of(
    value: Json, pointer: str, where: Where, *, trained: bool = False
) -> Iterator[FixedText]:
    said = tuple(piece for piece in _text_pieces(value) if any(map(str.isalnum, piece)))
    alone = constant_text(value) is not None
    if said:
        yield FixedText(pointer=pointer, where=where, pieces=said, alone=alone, trained=trained)


def _text_pieces(value: Json) -> Iterator[str]:
    """Every text that a value says besides what its paths find."""
    if isinstance(value, list):
        for part in value:
            yield from _text_pieces(part)
    elif isinstance(value, dict):
        if "literal" in value:
            yield str(value["literal"])
        yield from _HOLE.split(value.get("template") or "")
        yield value.get("sep") or ""
        for table in ("replace", "map"):
            yield from (said for said in (value.get(table) or {}).values() if isinstance(said, str))
        for inner in ("concat", "any_of"):
            yield from _text_pieces(value.get(inner))


# --- meta


def constant_text(value: Json) -> str | None:
    """The text of a value that is the same for every record, None where the data has a say."""
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
    return template if template is not None and not _HOLE.search(template) else None


def meta_faults(document: MappingDocument) -> list[Problem]:
    """Constants that can be no value of their meta key; pointers are into the document."""
    return [problem for place in _meta_constants(document) for problem in _meta_fault(*place)]


def _meta_constants(document: MappingDocument) -> Iterator[tuple[str, str, str]]:
    for pointer, layout in document_layouts(document):
        for key, value in (layout.get("meta") or {}).items():
            if (said := constant_text(value)) is not None:
                yield f"{pointer}/meta/{key}", key, said


def _meta_fault(pointer: str, key: str, said: str) -> Iterator[Problem]:
    if key in _SINGLE:
        expected = f"a path, or nothing: one {key} for all records says nothing"
        yield Problem(pointer, "constant_meta", expected, repr(redact(said)[:MOST_NAME]))
    elif len(said) > MOST_NAME or any(unicodedata.category(c) in ("Cc", "Zl", "Zp") for c in said):
        expected = f"a name of at most {MOST_NAME} characters on one line"
        yield Problem(pointer, "bad_literal", expected, repr(redact(said)[:MOST_NAME]))
    elif key == "language" and said != "mix" and said not in ISO_639_1:
        yield Problem(pointer, "bad_literal", "an ISO 639-1 code or mix", repr(redact(said)))


def foreign_languages(document: MappingDocument, known: str | None) -> list[str]:
    """Literal languages that are not the one asked for, or found in the texts; None = unknown."""
    found = [said for _, key, said in _meta_constants(document) if key == "language"]
    return [said for said in found if known and said != known]


def foreign_sources(document: MappingDocument, known: Sequence[str | None]) -> list[str]:
    """Literal sources that are neither the data set's name nor what was asked for."""
    names = {_fold_name(name) for name in known if name}
    found = [said for _, key, said in _meta_constants(document) if key == "source"]
    return [said for said in found if _fold_name(said) not in names] if names else []


def _fold_name(name: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFKC", name).casefold() if c.isalnum())
