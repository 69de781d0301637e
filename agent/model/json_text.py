"""The one JSON object in what a model said, however it is wrapped or spelt.

The order is that of trust: plain JSON, JSON in a fence or amid prose, and only then JSON that is
badly spelt and can be repaired. What was cut off is never repaired, as half a mapping is a
plausible wrong one; nor is a text with two answers, since a repair would silently keep the last.

One text of a JSON object that is still being written, read as far as it is certain.
"""

import json
import re
from collections.abc import Callable, Iterator
from string import hexdigits

from ingot.converters.rows import Json

JsonObject = dict[str, Json]
Rank = Callable[[JsonObject], int]

_MOST_TRIES = 300
LONGEST_REPLY = 256 << 10  # characters; no mapping is longer
_THOUGHTS = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_FENCE = re.compile(r"```[a-zA-Z]*[ \t]*\r?\n?(.*?)```", re.DOTALL)
_ANSWER = re.compile(r"[{,]\s*[\"'“”]?(?:decision|messages)[\"'“”]?\s*:")


class UnreadableReply(ValueError):  # noqa: N818 - a state of a text
    """A text without exactly one object. Fields: expected, got."""

    def __init__(self, expected: str, got: str) -> None:
        super().__init__(expected, got)
        self.expected = expected
        self.got = got


class _DuplicateKey(Exception):  # noqa: N818 - not a ValueError, which means "no JSON" here
    """An object in which one key has two values."""


def only_object(text: str, rank: Rank, *, cut_off: bool) -> tuple[JsonObject, tuple[str, ...]]:
    """The only object of a text, and how it was found ("in a fence", "repaired")."""
    try:
        found, how = _find_only_object(text, rank, cut_off=cut_off)
        json.dumps(found, ensure_ascii=False).encode()
        return found, how
    except UnicodeEncodeError:
        raise UnreadableReply("whole characters", "half of a surrogate pair") from None
    except _DuplicateKey as error:
        raise UnreadableReply("every key once", f"{str(error)[:60]!r} twice") from None


def _find_only_object(
    text: str, rank: Rank, *, cut_off: bool
) -> tuple[JsonObject, tuple[str, ...]]:
    plain = _THOUGHTS.sub("", text).strip()
    if not plain:
        raise UnreadableReply("a JSON object", "an empty reply")
    if len(plain) > LONGEST_REPLY:
        raise UnreadableReply(f"at most {LONGEST_REPLY:,} characters", f"{len(plain):,} characters")
    how = ("after its thoughts",) if plain != text.strip() else ()
    whole = _parse_strict(plain)
    if isinstance(whole, dict) and rank(whole):
        return whole, how
    if whole is not None:
        raise UnreadableReply("one JSON object and nothing else", plain)
    return _object_amid_text(plain, rank, how, cut_off=cut_off)


def _object_amid_text(
    plain: str, rank: Rank, how: tuple[str, ...], *, cut_off: bool
) -> tuple[JsonObject, tuple[str, ...]]:
    """The object amid other text, or the one that bad spelling hides."""
    met = [one for one in _outermost_objects(plain) if rank(one)]
    found = [one for one in met if rank(one) == max(map(rank, met))]
    if len(found) > 1:
        raise UnreadableReply("one JSON object and nothing else", f"{len(found)} objects")
    if found:
        where = "in a fence" if _FENCE.search(plain) else "amid other text"
        return found[0], (*how, where)
    if cut_off or _is_incomplete(plain):
        raise UnreadableReply("a complete JSON object", "a reply cut off at its limit")
    if len(_ANSWER.findall(plain)) > 2:  # a decision and messages at most
        raise UnreadableReply("one JSON object and nothing else", "several objects")
    repaired = _repair_json(plain)
    if not isinstance(repaired, dict) or not rank(repaired):
        raise UnreadableReply("one JSON object and nothing else", plain)
    return repaired, (*how, "repaired")


def _parse_strict(text: str) -> Json:
    """The text as strict JSON, None where it is none."""
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None


def _outermost_objects(text: str) -> Iterator[JsonObject]:
    """Every outermost object that is strict JSON; of a text full of brackets the first ones."""
    place, tries = text.find("{"), 0
    while place >= 0 and tries < _MOST_TRIES:
        tries += 1
        try:
            value, end = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            end = place + 1
        else:
            yield value
        place = text.find("{", end)


def _is_incomplete(text: str) -> bool:
    """Whether brackets stay open: servers do not always tell that they stopped."""
    fenced = _FENCE.findall(text)
    body = fenced[0] if len(fenced) == 1 else text
    return body.count("{") > body.count("}") or body.count("[") > body.count("]")


def _repair_json(text: str) -> Json:
    """Bad spelling (quotes, commas, None, comments) put right; prose gives no object."""
    from json_repair import repair_json

    fenced = _FENCE.findall(text)
    body = fenced[0].strip() if len(fenced) == 1 else text
    start, end = body.find("{"), body.rfind("}")
    if start < 0 or end < start:
        return None
    try:
        return repair_json(body[start : end + 1], return_objects=True, skip_json_loads=True)
    except (ValueError, RecursionError):
        return None


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _unique_keys(pairs: list[tuple[str, Json]]) -> JsonObject:
    """An object none of whose keys occurs twice with two values."""
    made: JsonObject = {}
    for key, value in pairs:
        if made.setdefault(key, value) != value:
            raise _DuplicateKey(key)
    return made


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_unique_keys)


_OPENING = ("<think>", "<thinking>")
_CLOSING = ("</think>", "</thinking>")
_LONGEST = max(len(tag) for tag in _CLOSING)
_SPACE = " \t\r\n\ufeff"
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "/": "/"}
_LONE = "\ufffd"

_Step = Callable[[str], "_Step"]


class PartialString:
    """Takes an object's text as it comes; gives the new characters of the string under one key.

    Only a key of the object itself counts, not one deeper inside. Prose, fences and thoughts
    (`<think>`) before the object are left out, and so are objects without the key. Where the text
    is no JSON nothing more is given; nothing is raised. Half of a surrogate pair that has no other
    half is given as U+FFFD. A second value of the key is not read.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self._step: _Step = self._outside
        self._tail = ""
        self._text = _PartialText()
        self._name = ""
        self._depth = 0
        self._new: list[str] = []

    def hear(self, delta: str) -> str:
        """The new text of the key, empty = none is certain so far."""
        self._new = []
        for one in delta:
            self._step = self._step(one)
        return "".join(self._new)

    def _outside(self, one: str) -> _Step:
        self._tail = (self._tail + one)[-_LONGEST:]
        if self._tail.endswith(_OPENING):
            return self._thinking
        return self._before_key if one == "{" else self._outside

    def _thinking(self, one: str) -> _Step:
        self._tail = (self._tail + one)[-_LONGEST:]
        return self._outside if self._tail.endswith(_CLOSING) else self._thinking

    def _before_key(self, one: str) -> _Step:
        if one in _SPACE:
            return self._before_key
        if one == '"':
            self._text, self._name = _PartialText(), ""
            return self._in_key
        return self._outside if one == "}" else self._outside(one)

    def _in_key(self, one: str) -> _Step:
        self._name += self._text.take(one)
        if self._text.broken:
            return self._outside(one)
        return self._before_value if self._text.ended else self._in_key

    def _before_value(self, one: str) -> _Step:
        if one in _SPACE:
            return self._before_value
        return self._value if one == ":" else self._outside(one)

    def _value(self, one: str) -> _Step:
        if one in _SPACE:
            return self._value
        if one == '"':
            self._text = _PartialText()
            return self._wanted if self._name == self._key else self._unwanted
        if one in "{[":
            self._depth = 1
            return self._nested
        return self._scalar(one)

    def _wanted(self, one: str) -> _Step:
        self._new.append(self._text.take(one))
        return self._over if self._text.ended or self._text.broken else self._wanted

    def _unwanted(self, one: str) -> _Step:
        self._text.take(one)
        if self._text.broken:
            return self._outside(one)
        return self._after if self._text.ended else self._unwanted

    def _scalar(self, one: str) -> _Step:
        return self._after(one) if one in ',}"{[:' else self._scalar

    def _nested(self, one: str) -> _Step:
        self._depth += (one in "{[") - (one in "}]")
        if one == '"':
            self._text = _PartialText()
            return self._nested_text
        return self._nested if self._depth else self._after

    def _nested_text(self, one: str) -> _Step:
        self._text.take(one)
        if self._text.broken:
            return self._outside(one)
        return self._nested if self._text.ended else self._nested_text

    def _after(self, one: str) -> _Step:
        if one in _SPACE:
            return self._after
        if one == ",":
            return self._before_key
        return self._outside if one == "}" else self._outside(one)

    def _over(self, one: str) -> _Step:
        return self._over


class _PartialText:
    """The characters of one JSON string after its opening quote.

    Line ends and tabs may stand in it as they are: models write them so.
    """

    def __init__(self) -> None:
        self.ended = False
        self.broken = False
        self._escape = ""
        self._half = ""

    def take(self, one: str) -> str:
        """The characters that are certain with this one."""
        if self._escape:
            return self._escaped(one)
        if one == "\\":
            self._escape = one
            return ""
        self.ended = one == '"'
        return self._alone() + ("" if self.ended else one)

    def _escaped(self, one: str) -> str:
        self._escape += one
        if len(self._escape) == 2 and one != "u":
            return self._short(one)
        if len(self._escape) > 2 and one not in hexdigits:
            self.broken = True
            return ""
        if len(self._escape) < len("\\u0000"):
            return ""
        code, self._escape = int(self._escape[2:], 16), ""
        return self._unit(code)

    def _short(self, one: str) -> str:
        self._escape = ""
        if one not in _ESCAPES:
            self.broken = True
            return ""
        return self._alone() + _ESCAPES[one]

    def _unit(self, code: int) -> str:
        """A unit of UTF-16: the first half of a pair waits for the second."""
        if 0xDC00 <= code < 0xE000:
            if self._half:
                high, self._half = ord(self._half), ""
                return chr(0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00))
            return _LONE
        before = self._alone()
        if 0xD800 <= code < 0xDC00:
            self._half = chr(code)
            return before
        return before + chr(code)

    def _alone(self) -> str:
        """What stands for a half that stayed alone."""
        half, self._half = self._half, ""
        return _LONE if half else ""
