"""The one JSON object in what a model said, however it is wrapped or spelt.

The order is that of trust: plain JSON, JSON in a fence or amid prose, and only then JSON that is
badly spelt and can be repaired. What was cut off is never repaired, as half a mapping is a
plausible wrong one; nor is a text with two answers, since a repair would silently keep the last.
"""

import json
import re
from collections.abc import Callable, Iterator

from ingot.converters.rows import Json

Document = dict[str, Json]
Rank = Callable[[Document], int]

_MOST_TRIES = 300
LONGEST = 256 << 10  # characters; no mapping is longer
_THOUGHTS = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_FENCE = re.compile(r"```[a-zA-Z]*[ \t]*\r?\n?(.*?)```", re.DOTALL)
_ANSWER = re.compile(r"[{,]\s*[\"'“”]?(?:decision|messages)[\"'“”]?\s*:")


class Unreadable(ValueError):  # noqa: N818 - a state of a text
    """A text without exactly one object. Fields: expected, got."""

    def __init__(self, expected: str, got: str) -> None:
        super().__init__(expected, got)
        self.expected = expected
        self.got = got


class _SaidTwice(Exception):  # noqa: N818 - not a ValueError, which means "no JSON" here
    """An object in which one key has two values."""


def only_object(text: str, rank: Rank, *, cut_off: bool) -> tuple[Document, tuple[str, ...]]:
    """The only object of a text, and how it was found ("in a fence", "repaired").

    Args:
        text: what the model said.
        rank: 0 for an object that is no answer and taken for prose, more for likelier ones.
        cut_off: the server says that the text hit the length limit.

    Raises:
        Unreadable: no object, several, half of one, or one that says a thing twice.
    """
    try:
        found, how = _only_object(text, rank, cut_off=cut_off)
        json.dumps(found, ensure_ascii=False).encode()
        return found, how
    except UnicodeEncodeError:
        raise Unreadable("whole characters", "half of a surrogate pair") from None
    except _SaidTwice as error:
        raise Unreadable("every key once", f"{str(error)[:60]!r} twice") from None


def _only_object(text: str, rank: Rank, *, cut_off: bool) -> tuple[Document, tuple[str, ...]]:
    plain = _THOUGHTS.sub("", text).strip()
    if not plain:
        raise Unreadable("a JSON object", "an empty reply")
    if len(plain) > LONGEST:
        raise Unreadable(f"at most {LONGEST:,} characters", f"{len(plain):,} characters")
    how = ("after its thoughts",) if plain != text.strip() else ()
    whole = _parsed(plain)
    if isinstance(whole, dict) and rank(whole):
        return whole, how
    if whole is not None:
        raise Unreadable("one JSON object and nothing else", plain)
    return _amid(plain, rank, how, cut_off=cut_off)


def _amid(
    plain: str, rank: Rank, how: tuple[str, ...], *, cut_off: bool
) -> tuple[Document, tuple[str, ...]]:
    """The object amid other text, or the one that bad spelling hides."""
    met = [one for one in _objects(plain) if rank(one)]
    found = [one for one in met if rank(one) == max(map(rank, met))]
    if len(found) > 1:
        raise Unreadable("one JSON object and nothing else", f"{len(found)} objects")
    if found:
        where = "in a fence" if _FENCE.search(plain) else "amid other text"
        return found[0], (*how, where)
    if cut_off or _is_half(plain):
        raise Unreadable("a complete JSON object", "a reply cut off at its limit")
    if len(_ANSWER.findall(plain)) > 2:  # a decision and messages at most
        raise Unreadable("one JSON object and nothing else", "several objects")
    repaired = _repaired(plain)
    if not isinstance(repaired, dict) or not rank(repaired):
        raise Unreadable("one JSON object and nothing else", plain)
    return repaired, (*how, "repaired")


def _parsed(text: str) -> Json:
    """The text as strict JSON, None where it is none."""
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None


def _objects(text: str) -> Iterator[Document]:
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


def _is_half(text: str) -> bool:
    """Whether brackets stay open: servers do not always tell that they stopped."""
    fenced = _FENCE.findall(text)
    body = fenced[0] if len(fenced) == 1 else text
    return body.count("{") > body.count("}") or body.count("[") > body.count("]")


def _repaired(text: str) -> Json:
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


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _once(pairs: list[tuple[str, Json]]) -> Document:
    """An object none of whose keys occurs twice with two values."""
    made: Document = {}
    for key, value in pairs:
        if made.setdefault(key, value) != value:
            raise _SaidTwice(key)
    return made


_DECODER = json.JSONDecoder(parse_constant=_no_constant, object_pairs_hook=_once)
