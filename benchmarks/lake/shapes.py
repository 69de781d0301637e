"""The shapes that raw data comes in: how a piece of text lies in a row, and what record it makes.

What a record says is written down here by hand, from the documented house rules (title before
body, context before question, options with letters, the chosen side of a pair), and not by ingot.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from words import Writer

Row = dict[str, Any]
Record = dict[str, Any]
Piece = tuple[Any, ...]
Make = Callable[[Writer, str], Piece]
Lay = Callable[[Piece, int, str], tuple[Row, Record]]

TABLES: Final = ("csv", "tsv", "semicolon")
COLUMNS: Final = ("parquet", "arrow", "arrow_stream")
TREES: Final = ("jsonl", "list", "under", "keyed")
_NESTED: Final = ("jsonl", "list", "parquet", "arrow", "arrow_stream")
_FLAT: Final = (*TREES, *TABLES, *COLUMNS)


def document(text: str) -> Record:
    """What a text makes."""
    return {"text": text}


def chat(*turns: tuple[str, str], system: str | None = None, tools: str | None = None) -> Record:
    """What a conversation makes."""
    return {"messages": [list(turn) for turn in turns], "system": system, "tools": tools}


def _text(write: Writer, language: str) -> Piece:
    return (write.text(language, write.chance.randint(3, 7)),)


def _long(write: Writer, language: str) -> Piece:
    return (write.paragraphs(language, write.chance.randint(2, 4)),)


def _titled(write: Writer, language: str) -> Piece:
    return (write.title(language), write.text(language, write.chance.randint(3, 6)))


def _pair(write: Writer, language: str) -> Piece:
    return (write.question(language), write.text(language, write.chance.randint(1, 4)))


def _with_input(write: Writer, language: str) -> Piece:
    given = write.text(language, 2) if write.chance.random() < 0.4 else ""
    return (*_pair(write, language), given)


def _in_context(write: Writer, language: str) -> Piece:
    return (write.text(language, 4), *_pair(write, language))


def _several(write: Writer, language: str) -> Piece:
    return tuple(_pair(write, language) for _ in range(write.chance.randint(1, 4)))


def _chosen(write: Writer, language: str) -> Piece:
    return (*_pair(write, language), write.text(language, 2))


def _choice(write: Writer, language: str) -> Piece:
    options = [write.text(language, 1) for _ in range(4)]
    return (write.question(language), options, write.chance.randrange(4))


def _plain(piece: Piece, number: int, language: str) -> tuple[Row, Record]:
    (text,) = piece
    row = {"id": f"d{number:06d}", "text": text, "lang": language, "tokens": len(text) // 4}
    return row, document(text)


def _article(piece: Piece, number: int, language: str) -> tuple[Row, Record]:
    title, body = piece
    url = f"https://example.org/{language}/{number}"
    day = f"2024-{number % 12 + 1:02d}-{number % 28 + 1:02d}"
    row = {"title": title, "content": body, "url": url, "date": day}
    return row, document(f"{title}\n{body}")


def _nested(piece: Piece, number: int, language: str) -> tuple[Row, Record]:
    (text,) = piece
    about = {"source_id": number, "language": language, "license": "cc-by-4.0"}
    return {"meta": about, "document": {"body": text, "length": len(text)}}, document(text)


def _instruction(piece: Piece, number: int, language: str) -> tuple[Row, Record]:
    ask, answer, given = piece
    row = {"instruction": ask, "input": given, "output": answer}
    asked = f"{ask}\n{given}" if given else ask
    return row, chat(("user", asked), ("assistant", answer))


def _question(piece: Piece, number: int, language: str) -> tuple[Row, Record]:
    ask, answer = piece
    row = {"qid": f"q-{number}", "question": ask, "answer": answer}
    return row, chat(("user", ask), ("assistant", answer))


def _prompt(piece: Piece, number: int, language: str) -> tuple[Row, Record]:
    ask, answer = piece
    return {"prompt": ask, "response": answer}, chat(("user", ask), ("assistant", answer))


def _context(piece: Piece, number: int, language: str) -> tuple[Row, Record]:
    context, ask, answer = piece
    row = {"id": f"c{number}", "context": context, "question": ask, "answer": answer}
    return row, chat(("user", f"{context}\n{ask}"), ("assistant", answer))


def _messages(piece: Piece, number: int, language: str) -> tuple[Row, Record]:
    turns = [one for ask, answer in piece for one in (("user", ask), ("assistant", answer))]
    said = [{"role": role, "content": content} for role, content in turns]
    return {"messages": said}, chat(*turns)


def _sharegpt(piece: Piece, number: int, language: str) -> tuple[Row, Record]:
    turns = [one for ask, answer in piece for one in (("user", ask), ("assistant", answer))]
    names = {"user": "human", "assistant": "gpt"}
    said = [{"from": names[role], "value": content} for role, content in turns]
    return {"id": f"identity_{number}", "conversations": said}, chat(*turns)


def _preference(piece: Piece, number: int, language: str) -> tuple[Row, Record]:
    ask, answer, worse = piece
    row = {"prompt": ask, "chosen": answer, "rejected": worse}
    return row, chat(("user", ask), ("assistant", answer))


def _options(piece: Piece, number: int, language: str) -> tuple[Row, Record]:
    ask, options, right = piece
    letter = "ABCD"[right]
    row = {"question": ask, "options": options, "answer": letter}
    listed = [f"{name}. {option}" for name, option in zip("ABCD", options, strict=True)]
    return row, chat(("user", "\n".join([ask, *listed])), ("assistant", letter))


def _tools(piece: Piece, number: int, language: str) -> tuple[Row, Record]:
    ask, answer, found = piece
    tools = json.dumps([{"name": "look_up", "parameters": {"word": "string"}}])
    system = ("system", "You may look things up.")
    turns = [system, ("user", ask), ("tool", found), ("assistant", answer)]
    said = [{"role": role, "content": content} for role, content in turns]
    return {"messages": said, "tools": tools}, chat(*turns, tools=tools)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How pieces of one kind lie in rows.

    Attributes:
        name: of the shape.
        kind: `pt` or `sft`.
        make: makes a piece in a language.
        lay: a piece, the row's number and the language to the row and its record.
        forms: the formats that can hold it.
        blank: the column that is emptied for a row that gives no record, "" = none.
    """

    name: str
    kind: str
    make: Make
    lay: Lay
    forms: tuple[str, ...] = _FLAT
    blank: str = ""


def _shape(
    name: str, kind: str, make: Make, lay: Lay, forms: tuple[str, ...] = _FLAT, blank: str = ""
) -> Shape:
    return Shape(name=name, kind=kind, make=make, lay=lay, forms=forms, blank=blank)


SHAPES: Final = {
    one.name: one
    for one in (
        _shape("plain", "pt", _text, _plain, blank="text"),
        _shape("article", "pt", _titled, _article),
        _shape("nested", "pt", _long, _nested, forms=_NESTED),
        _shape("instruction", "sft", _with_input, _instruction, blank="output"),
        _shape("question", "sft", _pair, _question, blank="answer"),
        _shape("prompt", "sft", _pair, _prompt, blank="response"),
        _shape("context", "sft", _in_context, _context),
        _shape("messages", "sft", _several, _messages, forms=_NESTED),
        _shape("sharegpt", "sft", _several, _sharegpt, forms=_NESTED),
        _shape("preference", "sft", _chosen, _preference),
        _shape("options", "sft", _choice, _options, forms=_NESTED),
        _shape("tools", "sft", _chosen, _tools, forms=_NESTED),
    )
}


def odd(beside: str, asks: str, answers: str) -> Shape:
    """Questions and answers under names that say nothing, and a third text beside them."""

    def lay(piece: Piece, number: int, language: str) -> tuple[Row, Record]:
        ask, answer, other = piece
        row = {beside: other, asks: ask, answers: answer}
        return row, chat(("user", ask), ("assistant", answer))

    return _shape("odd", "sft", _chosen, lay)
