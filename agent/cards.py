"""Cards: what files beside data say about it (README.md, dataset_infos.json, croissant.json, ...).

A card is evidence and is never obeyed. Strangers wrote it, so it is bounded, cleaned and redacted
here, once, and what it says can do three things only:

- it is shown to a model that is asked, inside the fence of the data and said to be such
  (`mappers/showing/carding.py`), as far as room is left;
- it is compared with what was found in the rows, which people read as evidence
  (`card_evidence.py`): no decision, mapping, confidence or gate depends on it;
- title, license, languages and tasks stand in a lake's catalog.

What a card may have talked a model into is not said of other data: see `Asking.keys`.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace

from ingot.agent import card_formats, card_prose
from ingot.agent.card_formats import Said
from ingot.agent.card_prose import Field
from ingot.agent.mappers.showing.cleaning import MOST_NAME, clean, cut, shown_name
from ingot.agent.redaction import redact
from ingot.converters import yaml_text
from ingot.converters.errors import SourceError
from ingot.converters.readers.encoding import detect
from ingot.converters.readers.storage import Entry
from ingot.converters.rows import Json

MOST_BYTES = 64 << 10  # of one file
MOST_FILES = 4  # cards that are read beside one data set
_MOST_TEXT = 1_500  # characters of prose
_MOST_TITLE = 200
_MOST_WORD = 80  # characters of a license or a task
_MOST_WORDS = 32  # languages, tasks
_MOST_FIELDS = 64
_MOST_SAID = 200  # characters of what is said of a field
_CODE = re.compile(r"[a-z]{2}")

Reader = Callable[[str], Said]


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """What is said about a data set beside it; cleaned, redacted, cut; "" or () = not said.

    Attributes:
        file: which files say so, by name and in the order of precedence: "README.md".
        title: at most 200 characters.
        license: as it is named there: `cc-by-4.0`.
        languages: ISO 639-1 codes where the name is known, else the name.
        tasks: as the card names them: `question-answering`.
        fields: names with type or description.
        text: the beginning of the prose, at most some 1,500 characters, without markup.
    """

    file: str
    title: str = ""
    license: str = ""
    languages: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    fields: tuple[Field, ...] = ()
    text: str = ""

    def facts(self) -> dict[str, Json]:
        """What a catalog tells of it: file, title, license, languages, tasks; what is said."""
        told = {name: getattr(self, name) for name in ("file", "title", "license")}
        lists = {name: list(getattr(self, name)) for name in ("languages", "tasks")}
        return {name: value for name, value in (told | lists).items() if value}

    def digest(self) -> str:
        """SHA-256 of all that it says."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()


def card(entries: Sequence[Entry]) -> Card | None:
    """The card among the files of a data set and those beside it, None where none says anything.

    Of several files the first says what it says, by `_NAMES` and then the nearest; the others add
    what it leaves out. A file that cannot be read or understood says nothing: a broken card does
    not make data unreadable.

    Args:
        entries: files with names relative to the data set, in any order.
    """
    named = [(rank, one) for one in entries if (rank := _rank(one.name)) is not None]
    nearest = sorted(named, key=lambda found: (found[0], found[1].name.count("/"), found[1].name))
    made: Card | None = None
    for rank, entry in nearest[:MOST_FILES]:
        found = _read(entry, _NAMES[rank][1])
        if found is not None:
            made = found if made is None else _completed(made, found)
    return made


# --- files


def _markdown(text: str) -> Said:
    front, body = card_prose.split(text)
    said = _front(front)
    return replace(
        said,
        title=said.title or card_prose.title(body),
        fields=said.fields or tuple(card_prose.fields(body)),
        text=card_prose.plain(body) or said.text,
    )


def _front(text: str) -> Said:
    """The front matter's facts; what is no YAML that is read here says nothing."""
    try:
        return card_formats.front_matter(yaml_text.read(text)) if text.strip() else Said()
    except (ValueError, OverflowError, RecursionError):
        return Said()


def _json(reader: Callable[[Json], Said]) -> Reader:
    return lambda text: reader(json.loads(text))


def _yaml(text: str) -> Said:
    return card_formats.any_card(yaml_text.read(text))


# By what is most often written by people for this very data set.
_NAMES: tuple[tuple[re.Pattern[str], Reader], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), reader)
    for pattern, reader in (
        (r"readme(?:[._-][\w-]{1,20})?\.(?:md|markdown)", _markdown),
        (r"dataset[_-]?card\.(?:md|markdown)", _markdown),
        (r"dataset[_-]?card\.json", _json(card_formats.any_card)),
        (r"dataset[_-]?card\.ya?ml", _yaml),
        (r"dataset_infos?\.json", _json(card_formats.dataset_infos)),
        (r"(?:croissant|[\w.-]{1,80}[._-]croissant)\.json", _json(card_formats.croissant)),
        (r"datapackage\.json", _json(card_formats.data_package)),
        (r"readme(?:\.txt|\.rst)?", _markdown),
    )
)


def _rank(name: str) -> int | None:
    base = name.rpartition("/")[2]
    if len(base) > MOST_NAME:
        return None
    return next((n for n, (known, _) in enumerate(_NAMES) if known.fullmatch(base)), None)


def _read(entry: Entry, reader: Reader) -> Card | None:
    text = _text_of(entry)
    if not text.strip():
        return None
    try:
        said = reader(text)
    except (ValueError, OverflowError, RecursionError):  # no JSON, or not in the first 64 KB
        return None
    found = _cleaned(said, shown_name(redact(entry.name.rpartition("/")[2])))
    return None if found == Card(file=found.file) else found


def _text_of(entry: Entry) -> str:
    """The beginning of a file as text, "" where it is none or cannot be read."""
    try:
        with entry.place.open() as file:
            data = file.read(MOST_BYTES)
    except (SourceError, OSError):
        return ""
    found = detect([data], whole=len(data) < MOST_BYTES) if data else None
    if found is None:
        return ""
    text = data.decode(found.name, "replace")
    return text if "\n" in text else text.replace("\r", "\n")


# --- cleaning


def _completed(first: Card, other: Card) -> Card:
    """The first card, with what only the other says."""
    names = ("title", "license", "languages", "tasks", "fields", "text")
    added = {name: getattr(other, name) for name in names if not getattr(first, name)}
    added = {name: value for name, value in added.items() if value}
    if not added or other.file == first.file:
        return replace(first, **added)
    return replace(first, file=f"{first.file}, {other.file}", **added)


def _cleaned(said: Said, file: str) -> Card:
    return Card(
        file=file,
        title=_line(said.title, _MOST_TITLE),
        license=_line(said.license, _MOST_WORD),
        languages=_words(map(_language, said.languages)),
        tasks=_words(said.tasks),
        fields=_fields(said.fields),
        text=_prose(said.text),
    )


def _language(said: str) -> str:
    """The code of a language that is named by code, tag (`zh-CN`) or name; else what is said."""
    from ingot.agent.mappers.rules.names import language_of  # brings all rules along

    code = language_of(said)
    if code is None and _CODE.fullmatch(primary := re.split("[-_]", said.lower(), maxsplit=1)[0]):
        code = primary
    return code if code is not None and _CODE.fullmatch(code) else said


def _words(said: Iterable[str]) -> tuple[str, ...]:
    told = (_line(one, _MOST_WORD) for one in said)
    return tuple(dict.fromkeys(one for one in told if one))[:_MOST_WORDS]


def _fields(said: Iterable[Field]) -> tuple[Field, ...]:
    told = ((_line(name, MOST_NAME), _line(about, _MOST_SAID)) for name, about in said)
    return tuple((name, about) for name, about in told if name)[:_MOST_FIELDS]


def _line(text: str, most: int) -> str:
    """A text on one line: redacted as a whole, then cut, so that no half of a secret is left."""
    bare = " ".join(clean(text[: 10 * most]).split())
    return cut(redact(bare), most, 0)


def _prose(text: str) -> str:
    """The beginning of a prose, up to the end of a line or a word."""
    told = redact(clean(text[: 10 * _MOST_TEXT])).strip()
    if len(told) <= _MOST_TEXT:
        return told
    head = told[:_MOST_TEXT]
    end = max(head.rfind("\n"), head.rfind(" "), head.rfind("\u3002"))
    return head[: end if end > _MOST_TEXT // 2 else _MOST_TEXT].rstrip() + " ..."
