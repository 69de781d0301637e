"""What a kind of folder is: files of our own text, and the records that a careful person wants."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

# A text for pretraining, or the (role, content) of each message.
Wanted = str | tuple[tuple[str, str], ...]
# Lists of records of which each is right; none where only a stop is right.
Truth = list[list[Wanted]]
Outcome = Literal["right", "stopped"]
Build = Callable[[Path], Truth]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A folder, what ends a run on it, and the mode of that run."""

    name: str
    build: Build
    outcome: Outcome
    mode: str


KINDS: list[Kind] = []


def kind(outcome: Outcome, mode: str = "auto") -> Callable[[Build], Build]:
    """Enter a builder of a folder; `outcome` is what happens now, so that a loss is seen."""

    def enter(build: Build) -> Build:
        KINDS.append(Kind(name=build.__name__, build=build, outcome=outcome, mode=mode))
        return build

    return enter


def pair(asked: str, answered: str) -> Wanted:
    """A question and its answer as a record."""
    return (("user", asked), ("assistant", answered))


def turns(texts: Iterable[str]) -> Wanted:
    """Messages in turn, the user first."""
    return tuple((("user", "assistant")[n % 2], text) for n, text in enumerate(texts))


def write_json(path: Path, value: Any) -> None:
    """Write one JSON document."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1), encoding="utf-8")


def write_lines(path: Path, rows: Iterable[Any]) -> None:
    """Write one JSON document a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8"
    )


def write_text(path: Path, text: str, encoding: str = "utf-8") -> None:
    """Write a text file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding=encoding)
