"""The redactor: what leaves the machine, or is kept beside results, goes through it.

It knows the secrets of one data set: what stands under the name of a secret is one in every other
column too, and so are the lines of a private key that are rows or elements of a list. Evidence is
computed from rows that went through it.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NewType

from ingot.agent.privacy import redaction
from ingot.agent.privacy.pairs import Pair, find_below_header, find_pairs
from ingot.agent.privacy.redaction import PLACED, SECRET
from ingot.agent.privacy.secrets import (
    find_assignments,
    find_key_lines,
    is_no_value,
    is_secret_name,
    is_value_beside,
    may_be_key_line,
    names_several,
)
from ingot.converters.errors import Problem, SourceError
from ingot.converters.rows import Json, Safe
from ingot.converters.sources.formats.row_chunks import JsonTextError, parse_json

if TYPE_CHECKING:
    from ingot.converters.sources import Source
    from ingot.converters.sources.sample import Sample

_DEEPEST = 100
_NAMES = re.compile(r"[^.\[\]'\"*$]+")
_KEY_MARK = "[private key]"
_SHORTEST_SECRET = 4  # characters that are looked for inside other texts
_SHORT_SECRET = 8  # characters under which a secret is looked for as a word
_PART, _STEP = 6, 3  # characters of a part; it and two more make the shortest long secret
_WORD = re.compile(r"[A-Za-z0-9]+")
_TABLES, _FIRST_ROWS = 20, 3  # files, and rows of each, in which names of columns are looked for
_BRANCHES = 3  # characters by which secrets are told apart

# In place of values that no redacted row gives.
NOT_SHOWN = "(not shown: the mapping reads the files in its own way)"
DIFFERS = "(differs: what is hidden decides what becomes of the rows)"

SafeProblem = NewType("SafeProblem", Problem)


@dataclass(frozen=True, slots=True)
class SafeValue:
    """A value that went through the redactor; `json` is what may be shown of it."""

    json: Json


class Redactor:
    """Takes values of one data set, gives what may be shown of them; with `raw` all.

    Different secrets stay different where they are `numbered`.
    """

    def __init__(self, share: str, rows: Iterable[Json] = (), *, numbered: bool = True) -> None:
        self.share, self._numbered = share, numbered
        self.rows = tuple(rows)
        self._known: dict[str, dict[str, int]] = {}

    @classmethod
    def of(cls, share: str, source: "Source", sample: "Sample", *more: Json) -> "Redactor":
        """Return the redactor of a sample, which knows the names that its rows stand under."""
        root = source.spec.root or (source.roots[0].path if source.roots else "")
        name = next((name for name in reversed(_NAMES.findall(root)) if is_secret_name(name)), "")
        rows = [row.value for row in sample.rows]
        keys = [(row.key or "", row.value) for row in sample.rows]
        named: list[Json] = [{key: value} for key, value in keys if is_secret_name(key)]
        named += [{name: rows}, {name: dict(keys)}] if name else []
        named += [{key: value} for key, value in _below_headers(source, sample)]
        return cls(share, [*rows, *named, *more])

    @cached_property
    def _named(self) -> "_NamedSecrets":
        named = _NamedSecrets()
        if self.share != "raw":
            named.add([*self.rows], "", _DEEPEST)
        return named

    @cached_property
    def secrets(self) -> dict[str, str]:
        """Return each secret text that names and neighbours reveal, with its placeholder."""
        lines = _key_lines([*self.rows], _DEEPEST) if self._named.begins_key else ()
        secrets = dict.fromkeys(lines, _KEY_MARK) | self._named.found
        # Inside JSON that is a text they are spelled with its escapes, inside its texts twice.
        once = _escaped_texts(secrets)
        return _escaped_texts(once) | once | secrets

    @cached_property
    def _replaced(self) -> "Replacer":
        return Replacer(self.secrets)

    def value(self, value: Json) -> SafeValue:
        """Return a value redacted, its keys too."""
        if self.share == "raw":
            return SafeValue(value)
        return SafeValue(redaction.convert_scalars(value, self._scalar, hide=self._key))

    def sample(self, sample: "Sample") -> "Sample":
        """Return a redacted sample, with `none` its types; the same one if it holds no secret.

        Records that a mapping makes of it may be shown.
        """
        if self.share == "raw":
            return sample
        hide = _bare_type if self.share == "none" else self._whole_scalar
        rows = tuple(
            replace(
                row,
                key=None if row.key is None else str(hide(row.key, "")),
                value=redaction.convert_scalars(row.value, hide, hide=self._key),
            )
            for row in sample.rows
        )
        return sample if rows == sample.rows else replace(sample, rows=rows)

    @cached_property
    def _in_keys(self) -> "Replacer":
        """Of the secrets those that are no short words, as keys are."""
        known, keys = self.secrets.items(), self._named.keys
        placeholders = {
            k: v for k, v in known if len(k) >= _SHORT_SECRET or not k.isalpha() or k in keys
        }
        return Replacer(placeholders)

    def _key(self, key: str) -> str:
        return redaction.redact(self._in_keys.text(key))

    def _whole_scalar(self, value: Json, name: str) -> Json:
        return self._scalar(value, name, redaction.redact_whole)

    def _scalar(self, value: Json, name: str, hide: Callable[[str], Safe] | None = None) -> Json:
        shown = redaction.redact_scalar(self._replaced.value(value), name, hide)
        placed = shown != value and isinstance(shown, str) and PLACED.fullmatch(shown)
        if placed and self._numbered:
            return self.stand_in(shown, redaction.spell_value(value))
        return shown

    def stand_in(self, placeholder: str, secret: str) -> str:
        """Return `[email]` for the first secret of a kind, `[email b]`, ... for later ones."""
        number = self.count(placeholder, secret)
        return placeholder if number == 1 else f"{placeholder[:-1]} {_letters(number)}]"

    def count(self, kind: str, secret: str) -> int:
        """Return which secret of its kind it is, from 1."""
        known = self._known.setdefault(kind, {})
        return known.setdefault(secret, len(known) + 1)

    def text(self, text: str) -> Safe:
        """Return a text redacted."""
        return (
            Safe(text) if self.share == "raw" else redaction.redact_ends(self._replaced.text(text))
        )

    def problem(self, problem: Problem) -> SafeProblem:
        """Return a problem without the secrets that it quotes."""
        nearest = self.text(problem.nearest) if problem.nearest else problem.nearest
        expected, actual = self.text(problem.expected), self.text(problem.got)
        return SafeProblem(
            Problem(
                pointer=redaction.redact(problem.pointer),
                code=problem.code,
                expected=expected,
                got=actual,
                nearest=nearest,
                path=self.text(problem.path),
                values=tuple((self.text(value), count) for value, count in problem.values),
                words=self.text(problem.words),
                command=problem.command if self.text(problem.command) == problem.command else "",
            )
        )


def _bare_type(value: Json, _: str) -> Json:
    """The JSON type of a value, of which nothing else is left; null is one."""
    return None if value is None else redaction.scalar_type(value)


def _letters(number: int) -> str:
    """Return `a` to `z`, `aa`, ...: digits would look like a secret again."""
    text = ""
    while number:
        number, place = divmod(number - 1, 26)
        text = chr(ord("a") + place) + text
    return text


def _below_headers(source: "Source", sample: "Sample") -> Iterator[Pair]:
    """What stands in tables whose names are one of their first rows, not those of the reader."""
    for file in source.files[:_TABLES]:
        rows = [row.value for row in sample.rows if row.file == file.name]
        table = file.facts.format in ("csv", "excel") or (rows and isinstance(rows[0], list))
        if not table:
            continue
        if not sample.complete:
            with suppress(SourceError):
                first = next(iter(source.batches([file])), None)
                rows[:0] = first.values[:_FIRST_ROWS] if first else ()
        yield from find_below_header(rows, 3 if file.facts.header else 2)


def _escaped_texts(secrets: Mapping[str, str]) -> dict[str, str]:
    ways = (False, True)
    return {
        json.dumps(secret, ensure_ascii=is_ascii)[1:-1]: secrets[secret]
        for secret in secrets
        for is_ascii in ways
    }


class _NamedSecrets:
    """What names in a value say: text -> placeholder, and whether lines of a key may be in it."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self.keys: set[str] = set()  # of objects whose name says that these are secrets
        self.begins_key = False

    def add(self, value: Json, name: str, levels: int) -> None:
        """Add what stands under a name."""
        for near_name, inner in find_pairs(value) if levels else ():
            if not isinstance(inner, str) or is_value_beside(inner):
                self.add(inner, near_name, levels - 1)
        if isinstance(value, dict):
            self._add_keys(value, name)
            outer = redaction.outer_name(value, name)
            for key, inner in value.items() if levels else ():
                self.add(inner, redaction.inner_name(key, outer), levels - 1)
        elif isinstance(value, list):
            for inner in value if levels else ():
                self.add(inner, name, levels - 1)
        elif isinstance(value, str):
            self._add_text(value.strip(), name, levels)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            self._add_text(
                redaction.spell_value(value) if redaction.is_telling(name) else "", name, 0
            )

    def _add_keys(self, value: dict[str, Json], name: str) -> None:
        """Add the keys of `passwords`, unless its texts are the secrets and these the users."""
        if names_several(name) and not any(isinstance(inner, str) for inner in value.values()):
            self.keys.update(value)
            self.found |= dict.fromkeys(filter(None, map(str.strip, value)), SECRET)

    def _add_text(self, text: str, name: str, levels: int) -> None:
        self.begins_key = self.begins_key or may_be_key_line(text)
        kind = redaction.name_placeholder(text, name) if text else None
        if kind is None and levels:
            self._look_inside(text, levels - 1)
            return
        # What is a secret only for how it looks under its name may be an everyday number.
        sure = redaction.is_telling(name) or len(text) >= _SHORT_SECRET
        if kind is not None and sure and not is_no_value(text):
            self.found[text] = kind

    def _look_inside(self, text: str, levels: int) -> None:
        """Add what a text names a secret, as JSON or as `password=...`; no everyday words."""
        if text[:1] in ("{", "["):
            with suppress(JsonTextError):
                self.add(parse_json(text.encode("utf-8", "replace")), "", levels)
        if len(text) <= _SHORT_SECRET:
            return
        for start, end in find_assignments(text):
            if end - start >= _SHORT_SECRET and any(map(str.isdigit, text[start:end])):
                self.found[text[start:end]] = SECRET


def _key_lines(value: Json, levels: int) -> Iterator[str]:
    """Lines of private keys among the texts of a list, or of one column of its elements."""
    if not isinstance(value, (dict, list)) or not levels:
        return
    if isinstance(value, list):
        columns: dict[str, list[str]] = {}
        for inner in value:
            for path, text in _leaves(inner, "", levels):
                columns.setdefault(path, []).append(text)
        for texts in columns.values():
            yield from find_key_lines(texts)
    for inner in value.values() if isinstance(value, dict) else value:
        yield from _key_lines(inner, levels - 1)


def _leaves(value: Json, path: str, levels: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, list) and len(value) == 1 and levels:
        yield from _leaves(value[0], path, levels - 1)
    elif isinstance(value, dict) and levels:
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}\0{key}", levels - 1)


class Replacer:
    """Replaces known texts in others, in one pass over each.

    Short ones are replaced only where they are the whole text, or a word of it.
    """

    def __init__(
        self, secrets: Mapping[str, str], shown: Callable[[str, str], str] = lambda kind, _: kind
    ) -> None:
        self._secrets, self._shown = secrets, shown
        known = _known_texts(secrets)
        self._pattern = re.compile(known) if known else None
        long = [secret for secret in secrets if len(secret) >= _SHORT_SECRET]
        self._parts = {secret[at : at + _PART] for secret in long for at in range(_STEP)}
        words = {
            _WORD.search(secret)
            for secret in secrets
            if _SHORTEST_SECRET <= len(secret) < _SHORT_SECRET
        }
        self._words = {match[0] for match in words if match}
        self._always = None in words

    def text(self, text: str) -> str:
        """Return the text without those that are known."""
        whole = text.strip()
        if kind := self._secrets.get(whole):
            return self._shown(kind, whole)
        if self._pattern is None or not self._may_hold(text):
            return text
        return self._pattern.sub(lambda match: self._shown(self._secrets[match[0]], match[0]), text)

    def _may_hold(self, text: str) -> bool:
        """Whether a known text may stand in it, much faster than by the pattern.

        A long one has one of its parts at every third place, a short one its first word.
        """
        parts = (text[at : at + _PART] for at in range(0, len(text), _STEP))
        if self._always or not self._parts.isdisjoint(parts):
            return True
        return bool(self._words) and not self._words.isdisjoint(_WORD.findall(text))

    def value(self, value: Json) -> Json:
        """Return a text or number without those that are known; itself where there are none."""
        if value is None or isinstance(value, bool):
            return value
        text = redaction.spell_value(value)
        redacted = self.text(text)
        return value if redacted == text else redacted


def _known_texts(texts: Iterable[str]) -> str:
    """A pattern of texts, the longest first; short ones only where they are words."""
    words = sorted(texts, key=len, reverse=True)
    long = [word for word in words if len(word) >= _SHORT_SECRET]
    short = [word for word in words if _SHORTEST_SECRET <= len(word) < _SHORT_SECRET]
    word = rf"(?<![A-Za-z0-9])(?:{_branched(short, _BRANCHES)})(?![A-Za-z0-9])"
    return "|".join([*([_branched(long, _BRANCHES)] if long else []), *([word] if short else [])])


def _branched(words: list[str], levels: int) -> str:
    """A pattern of words that are told apart by their first characters, which is fast."""
    if not levels or len(words) == 1:
        return "|".join(map(re.escape, words))
    parts: dict[str, list[str]] = {}
    for word in words:
        parts.setdefault(word[0], []).append(word[1:])
    return "|".join(
        f"{re.escape(first)}(?:{_branched(rest, levels - 1)})" for first, rest in parts.items()
    )
