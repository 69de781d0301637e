"""One text of a JSON object that is still being written, read as far as it is certain.

For a person who watches: what a reply says is read again when it is whole.
"""

from collections.abc import Callable
from string import hexdigits

_OPENING = ("<think>", "<thinking>")
_CLOSING = ("</think>", "</thinking>")
_LONGEST = max(len(tag) for tag in _CLOSING)
_SPACE = " \t\r\n\ufeff"
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "/": "/"}
_LONE = "\ufffd"

_Step = Callable[[str], "_Step"]


class Following:
    """Takes an object's text as it comes; gives the new characters of the string under one key.

    Only a key of the object itself counts, not one deeper inside. Prose, fences and thoughts
    (`<think>`) before the object are left out, and so are objects without the key. Where the text
    is no JSON nothing more is given; nothing is raised. Half of a surrogate pair that has no other
    half is given as U+FFFD. A second value of the key is not read.

    Args:
        key: of the object.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self._step: _Step = self._outside
        self._tail = ""
        self._text = _Text()
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
            self._text, self._name = _Text(), ""
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
            self._text = _Text()
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
            self._text = _Text()
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


class _Text:
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
