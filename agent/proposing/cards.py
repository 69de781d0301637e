"""Read what files beside the data say about it: README.md, dataset_infos.json, croissant.json.

A card is evidence and is never obeyed. Strangers wrote it, so it is bounded, cleaned and redacted
here. It is shown to a model inside the fence of the data, compared with the rows as evidence for
people (no decision, confidence or gate depends on it), and listed in a lake's catalog. What a card
may have talked a model into is not reused for other data: see `ModelAccess.keys`.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from ingot.agent.privacy import redact
from ingot.agent.privacy.redaction import (
    MOST_NAME_CHARS,
    clean_text,
    cut_middle,
    display_name,
    escape_text,
)
from ingot.agent.proposing import card_formats
from ingot.agent.proposing.card_formats import CardText, Field
from ingot.agent.proposing.names import alias_tables, language_code, spell_name
from ingot.agent.proposing.proposal import Evidence, Proposal
from ingot.converters import json_yaml
from ingot.converters.errors import SourceError
from ingot.converters.rows import Json
from ingot.converters.sources.formats.text import detect_encoding
from ingot.converters.sources.storage.listing import Entry

MOST_BYTES = 64 << 10  # of one file
MOST_FILES = 4  # cards that are read beside one data set
_MOST_TEXT = 1_500  # characters of prose
_MOST_TITLE = 200
_MOST_WORD = 80  # characters of a license or a task
_MOST_WORDS = 32  # languages, tasks
_MOST_FIELDS = 64
_MOST_DESCRIPTION = 200  # characters of what is said of a field
_CODE = re.compile(r"[a-z]{2}")

CardReader = Callable[[str], CardText]


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """What is said about a data set beside it; cleaned, redacted, cut; "" or () = not said.

    Attributes:
        file: which files say so, by name and in the order of precedence: "README.md".
        title: at most 200 characters.
        license: as it is named there: `cc-by-4.0`.
        languages: ISO 639-1 codes where the name is known, else the name.
        tasks: as the card names them: `question-answering`.
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
        """Return what the card states for a catalog: file, title, license, languages, tasks."""
        facts = {name: getattr(self, name) for name in ("file", "title", "license")}
        lists = {name: list(getattr(self, name)) for name in ("languages", "tasks")}
        return {name: value for name, value in (facts | lists).items() if value}

    def digest(self) -> str:
        """Return the SHA-256 of all that it says."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()


def find_card(entries: Sequence[Entry]) -> Card | None:
    """Return the card among the files of a data set and those beside it, None if there is none.

    Of several files the first one counts, in the order of `_NAMES` and then the nearest; the others
    add what it leaves out. A file that cannot be read or parsed is ignored: a broken card does not
    make data unreadable.
    """
    named = [(rank, entry) for entry in entries if (rank := _name_rank(entry.name)) is not None]
    nearest = sorted(
        named, key=lambda ranked: (ranked[0], ranked[1].name.count("/"), ranked[1].name)
    )
    card: Card | None = None
    for rank, entry in nearest[:MOST_FILES]:
        card_text = _read_card(entry, _CARD_NAMES[rank][1])
        if card_text is not None:
            card = card_text if card is None else _complete_card(card, card_text)
    return card


# --- files


def _read_markdown(text: str) -> CardText:
    front, body = card_formats.split_front_matter(text)
    document = _read_front(front)
    return replace(
        document,
        title=document.title or card_formats.prose_title(body),
        fields=document.fields or tuple(card_formats.prose_fields(body)),
        text=card_formats.plain_prose(body) or document.text,
    )


def _read_front(text: str) -> CardText:
    """The front matter's facts; what is no YAML that is read here says nothing."""
    try:
        known = json_yaml.read_yaml(text) if text.strip() else {}
        return card_formats.read_front_matter(known)
    except (ValueError, OverflowError, RecursionError):
        return CardText()


def _json_reader(reader: Callable[[Json], CardText]) -> CardReader:
    return lambda text: reader(json.loads(text))


# By what is most often written by people for this very data set.
_CARD_NAMES: tuple[tuple[re.Pattern[str], CardReader], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), reader)
    for pattern, reader in (
        (r"readme(?:[._-][\w-]{1,20})?\.(?:md|markdown)", _read_markdown),
        (r"dataset[_-]?card\.(?:md|markdown)", _read_markdown),
        (r"dataset[_-]?card\.json", _json_reader(card_formats.read_any_card)),
        (
            r"dataset[_-]?card\.ya?ml",
            lambda text: card_formats.read_any_card(json_yaml.read_yaml(text)),
        ),
        (r"dataset_infos?\.json", _json_reader(card_formats.read_dataset_infos)),
        (
            r"(?:croissant|[\w.-]{1,80}[._-]croissant)\.json",
            _json_reader(card_formats.read_croissant),
        ),
        (r"datapackage\.json", _json_reader(card_formats.read_data_package)),
        (r"readme(?:\.txt|\.rst)?", _read_markdown),
    )
)


def _name_rank(name: str) -> int | None:
    base = name.rpartition("/")[2]
    if len(base) > MOST_NAME_CHARS:
        return None
    return next((n for n, (known, _) in enumerate(_CARD_NAMES) if known.fullmatch(base)), None)


def _read_card(entry: Entry, reader: CardReader) -> Card | None:
    text = _entry_text(entry)
    if not text.strip():
        return None
    try:
        card_text = reader(text)
    except (ValueError, OverflowError, RecursionError):  # no JSON, or not in the first 64 KB
        return None
    parts = (
        (_clean_line(name, MOST_NAME_CHARS), _clean_line(about, _MOST_DESCRIPTION))
        for name, about in card_text.fields
    )
    card = Card(
        file=display_name(redact(entry.name.rpartition("/")[2])),
        title=_clean_line(card_text.title, _MOST_TITLE),
        license=_clean_line(card_text.license, _MOST_WORD),
        languages=_clean_words(map(_language_code, card_text.languages)),
        tasks=_clean_words(card_text.tasks),
        fields=tuple((name, about) for name, about in parts if name)[:_MOST_FIELDS],
        text=_clean_prose(card_text.text),
    )
    return None if card == Card(file=card.file) else card


def _entry_text(entry: Entry) -> str:
    """The beginning of a file as text, "" if it is none or cannot be read."""
    try:
        with entry.place.open() as file:
            data = file.read(MOST_BYTES)
    except (SourceError, OSError):
        return ""
    encoding = detect_encoding([data], whole=len(data) < MOST_BYTES) if data else None
    if encoding is None:
        return ""
    text = data.decode(encoding.name, "replace")
    return text if "\n" in text else text.replace("\r", "\n")


# --- cleaning


def _complete_card(first: Card, other: Card) -> Card:
    """The first card, with what only the other says."""
    names = ("title", "license", "languages", "tasks", "fields", "text")
    added = {name: getattr(other, name) for name in names if not getattr(first, name)}
    added = {name: value for name, value in added.items() if value}
    if not added or other.file == first.file:
        return replace(first, **added)
    return replace(first, file=f"{first.file}, {other.file}", **added)


def _language_code(language: str) -> str:
    """The code of a language that is named by code, tag (`zh-CN`) or name; else what is said."""
    code = language_code(language)
    if code is None and _CODE.fullmatch(
        primary := re.split("[-_]", language.lower(), maxsplit=1)[0]
    ):
        code = primary
    return code if code is not None and _CODE.fullmatch(code) else language


def _clean_words(words: Iterable[str]) -> tuple[str, ...]:
    cleaned = (_clean_line(word, _MOST_WORD) for word in words)
    return tuple(dict.fromkeys(word for word in cleaned if word))[:_MOST_WORDS]


def _clean_line(text: str, most: int) -> str:
    """A text on one line: redacted as a whole, then cut, so that no half of a secret is left."""
    bare = " ".join(clean_text(text[: 10 * most]).split())
    return cut_middle(redact(bare), most, 0)


def _clean_prose(text: str) -> str:
    """The beginning of a prose, up to the end of a line or a word."""
    clean = redact(clean_text(text[: 10 * _MOST_TEXT])).strip()
    if len(clean) <= _MOST_TEXT:
        return clean
    head = clean[:_MOST_TEXT]
    end = max(head.rfind("\n"), head.rfind(" "), head.rfind("\u3002"))
    return head[: end if end > _MOST_TEXT // 2 else _MOST_TEXT].rstrip() + " ..."


_MOST_NAMED = 5
_PATH_NAME = re.compile(r"[^.\[\]'\"]+")


def card_evidence(card: Card, proposal: Proposal, fields: Sequence[str]) -> tuple[Evidence, ...]:
    """Return the lines that a card adds to the evidence of a proposal."""
    parts = (
        *_language_evidence(card, proposal),
        *_task_evidence(card, proposal),
        *_field_evidence(card, fields),
    )
    return tuple(_evidence_line(card, agrees, why) for agrees, why in parts)


def _evidence_line(card: Card, agrees: bool, why: str) -> Evidence:
    choice = "agrees" if agrees else "contradicts"
    return Evidence(target="card", choice=choice, why=f"{card.file} says {why}: {choice}")


def _language_evidence(card: Card, proposal: Proposal) -> Iterator[tuple[bool, str]]:
    language = proposed_language(proposal)
    if card.languages and language:
        named = _label_words("language", card.languages)
        several = len(card.languages) > 1
        agrees = several if language == "mix" else card.languages == (language,)
        alone = " alone" if several and language in card.languages else ""
        yield agrees, f"{named}; the texts are read as {language}{alone}"


def proposed_language(proposal: Proposal) -> str | None:
    """Return the one language that a proposal states for all texts, None if it states none."""
    meta = proposal.mapping.outer.meta if proposal.mapping else {}
    stated = meta["language"].literal if "language" in meta else ""
    language = stated or proposal.detected.get("language")
    return language if isinstance(language, str) else None


def _task_evidence(card: Card, proposal: Proposal) -> Iterator[tuple[bool, str]]:
    tables = alias_tables()["tasks"]
    decisions = {task: decision for decision, tasks in tables.items() for task in tasks}
    known = [task for task in card.tasks if task in decisions]
    meant = {decisions[task] for task in known}
    if len(meant) == 1 and proposal.decision != "unmappable":
        named = _label_words("task", known)
        yield proposal.decision in meant, f"{named}; the rows are read as {proposal.decision}"


def _field_evidence(card: Card, fields: Sequence[str]) -> Iterator[tuple[bool, str]]:
    """Whether the fields that are described are there; further ones in the rows are no matter."""
    if not card.fields or not fields:
        return
    there = {spell_name(name) for path in fields for name in _PATH_NAME.findall(path)}
    names = [name for name, _ in card.fields]
    missing = [name for name in names if spell_name(name.rpartition(".")[2]) not in there]
    if not missing:
        yield True, f"{_label_words('field', names)}; the rows have them"
    else:
        yield False, f"{_label_words('field', names)}; the rows have no {_list_words(missing)}"


def _label_words(what: str, words: Sequence[str]) -> str:
    return f"{what}{'s' if len(words) > 1 else ''} {_list_words(words)}"


def _list_words(words: Sequence[str]) -> str:
    more = len(words) - _MOST_NAMED
    return ", ".join(words[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


_PROSE_WIDTH = 300  # characters of a line of prose: the last ones are left out where room ends


def telling_lines(card: Card) -> Iterator[str]:
    """Yield what helps to read rows, the surest first; a license does not."""
    if card.title:
        yield f"title: {card.title}"
    if card.languages:
        yield f"languages: {', '.join(card.languages)}"
    if card.tasks:
        yield f"tasks: {', '.join(card.tasks)}"
    for name, about in card.fields:
        yield f"field {escape_text(name)}: {about}" if about else f"field {escape_text(name)}"
    for line in card.text.splitlines():
        for start in range(0, len(line), _PROSE_WIDTH):
            yield line[start : start + _PROSE_WIDTH]
