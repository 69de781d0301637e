"""Find the one JSON object in what a model said, however it is wrapped or spelt.

The order is that of trust: plain JSON, JSON in a fence or amid prose, and only then JSON that is
badly spelt and can be repaired. What was cut off is never repaired, as half a mapping is a
plausible wrong one; nor is a text with two answers, since a repair would silently keep the last.

`PartialString` reads one text of an object that is still being written.
"""

import json
import re
from collections.abc import Callable

from ingot.agent.model.replies import join_surrogates, outermost_objects
from ingot.converters.rows import Json

JsonObject = dict[str, Json]
Rank = Callable[[JsonObject], int]

_MOST_TRIES = 300
LONGEST_REPLY = 256 << 10  # characters; no mapping is longer
_THOUGHTS = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_FENCE = re.compile(r"```[a-zA-Z]*+[ \t]*+\r?+\n?+(.*?)```", re.DOTALL)
_ANSWER = re.compile(r"[{,]\s*[\"'“”]?(?:decision|messages)[\"'“”]?\s*:")


class UnreadableReply(ValueError):  # noqa: N818 - a state of a text
    """A text without exactly one object. Fields: expected, got, cut_off."""

    def __init__(self, expected: str, actual: str, *, cut_off: bool = False) -> None:
        super().__init__(expected, actual)
        self.expected = expected
        self.got = actual
        self.cut_off = cut_off


class _DuplicateKey(Exception):  # noqa: N818 - not a ValueError, which means "no JSON" here
    """An object in which one key has two values."""


def only_object(text: str, rank: Rank, *, cut_off: bool) -> tuple[JsonObject, tuple[str, ...]]:
    """Return the only object of a text, and how it was found ("in a fence", "repaired")."""
    try:
        document, repairs = _find_only_object(text, rank, cut_off=cut_off)
        json.dumps(document, ensure_ascii=False).encode()
        return document, repairs
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
    repairs = ("after its thoughts",) if plain != text.strip() else ()
    whole = _parse_strict(plain)
    if isinstance(whole, dict) and rank(whole):
        return whole, repairs
    if whole is not None:
        raise UnreadableReply("one JSON object and nothing else", plain)
    inside = outermost_objects(plain, _DECODER, _MOST_TRIES)
    met = [candidate for candidate, _ in inside if rank(candidate)]
    best = [candidate for candidate in met if rank(candidate) == max(map(rank, met))]
    if len(best) > 1:
        raise UnreadableReply("one JSON object and nothing else", f"{len(best)} objects")
    if best:
        where = "in a fence" if _FENCE.search(plain) else "amid other text"
        return best[0], (*repairs, where)
    if cut_off or _is_incomplete(plain):
        problem = "a reply cut off at its limit"
        raise UnreadableReply("a complete JSON object", problem, cut_off=True)
    if len(_ANSWER.findall(plain)) > 2:  # a decision and messages at most
        raise UnreadableReply("one JSON object and nothing else", "several objects")
    repaired = _repair_json(plain)
    if not isinstance(repaired, dict) or not rank(repaired):
        raise UnreadableReply("one JSON object and nothing else", plain)
    return repaired, (*repairs, "repaired")


def _parse_strict(text: str) -> Json:
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None


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
    members: JsonObject = {}
    for key, value in pairs:
        if members.setdefault(key, value) != value:
            raise _DuplicateKey(key)
    return members


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_unique_keys)


_CLOSING = ("</think>", "</thinking>")
_OUTSIDE = re.compile(r"<think(?:ing)?>(?:.*?</think(?:ing)?>|.*)|\{", re.DOTALL)
_CHARACTERS = re.compile(r'(?:[^"\\]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
_STRING = re.compile(f'"({_CHARACTERS.pattern})')
_NESTED = re.compile(r'"(?:[^"\\]|\\.)*+"?|[{}\[\]]', re.DOTALL)
_SCALAR = re.compile(r'[^,}"{\[:]*')
_SPACES = re.compile("[ \t\r\n\ufeff]*")
_ESCAPE = re.compile(r"\\(?:u(....)|(.))", re.DOTALL)
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_OPEN_END = re.compile(r"(?:\\(?:u[0-9a-fA-F]{0,3})?)?")
_HALF = re.compile("[\ud800-\udbff]\\Z")


class PartialString:
    """Takes an object's text as it comes; gives the new characters of the string under one key.

    Only a key of the object itself counts, not one deeper inside. Prose, fences and thoughts
    (`<think>`) before the object are left out, and so are objects without the key. Where the text
    is not JSON nothing more is given; nothing is raised. Line ends may stand in strings as they
    are: models write them so. Half of a surrogate pair without its other half is given as U+FFFD.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self._text = ""  # what is not read yet
        self._found = self._over = False
        self._half = ""

    def hear(self, delta: str) -> str:
        """Return the new text of the key, empty = none is certain so far."""
        if self._over:
            return ""
        self._text += delta
        if not self._found:
            self._find_value()
        return self._read_string() if self._found else ""

    def _find_value(self) -> None:
        place = 0
        while not self._found and (met := _OUTSIDE.search(self._text, place)):
            place = met.end()
            if met[0] == "{":
                self._found, place = _find_in_object(self._text, place, self._key)
            elif not met[0].endswith(_CLOSING):  # a thought goes on: only its end matters
                self._text = "<think>" + self._text[-len(_CLOSING[1]) :]
                return
        if self._found:
            self._text = self._text[place + 1 :]

    def _read_string(self) -> str:
        """What is certain of the string; half of a pair waits as long as the other may come."""
        string = _CHARACTERS.match(self._text)
        end = string.end() if string else 0
        value = self._half + _unescape(self._text[:end])
        self._text, self._half = self._text[end:], ""
        self._over = not _OPEN_END.fullmatch(self._text)
        if not self._over and (half := _HALF.search(value)):
            self._half, value = half[0], value[:-1]
        return join_surrogates(value)


def _find_in_object(text: str, place: int, wanted: str) -> tuple[bool, int]:
    """Whether the key has a string, and where that begins or the object ends or breaks."""
    while key := _STRING.match(text, _skip_spaces(text, place)):
        if not text.startswith('"', key.end()):
            return False, key.end()
        place = _skip_spaces(text, key.end() + 1)
        if not text.startswith(":", place):
            return False, place
        place = _skip_spaces(text, place + 1)
        if text.startswith('"', place) and _unescape(key[1]) == wanted:
            return True, place
        place = _skip_spaces(text, _skip_value(text, place))
        if not text.startswith(",", place):
            break
        place += 1
    return False, _skip_spaces(text, place)


def _skip_value(text: str, place: int) -> int:
    if string := _STRING.match(text, place):
        return string.end() + text.startswith('"', string.end())
    if not text.startswith(("{", "["), place):
        scalar = _SCALAR.match(text, place)
        return scalar.end() if scalar else place
    depth = 0
    for token in _NESTED.finditer(text, place):
        depth += (token[0] in "{[") - (token[0] in "}]")
        if not depth:
            return token.end()
    return len(text)


def _skip_spaces(text: str, place: int) -> int:
    spaces = _SPACES.match(text, place)
    return spaces.end() if spaces else place


def _unescape(string: str) -> str:
    return _ESCAPE.sub(
        lambda match: chr(int(match[1], 16)) if match[1] else _ESCAPES.get(match[2], match[2]),
        string,
    )
