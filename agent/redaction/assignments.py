"""Secrets known by the name before them: `password=...`, `"api_key": "..."`, keys of objects."""

import re
from collections.abc import Iterator

# Exact names, with whatever stands before `_`, `-`, `.` or a capital: DB_PASSWORD, dbPassword.
# `token`, `key` and `auth` alone are everyday words of language data.
_NAMES = (
    r"pass[_-]?(?:word|wd|phrase|code)s?|pwd|secret"
    r"|(?:client|app|api|consumer|signing|shared|jwt|webhook)[_-]?secret"
    r"|secret[_-]?(?:access[_-]?)?key|(?:api|access|private|auth|encryption|master|signing|account)"
    r"[_-]?keys?|(?:access|auth|refresh|session|id|bearer|api|bot|csrf|oauth)[_-]?token"
    r"|(?:connection|conn)[_-]?string|passwort|kennwort|contraseña|contrasena|senha|пароль"
    r"|密码|密碼|口令|パスワード|비밀번호"
)
_BOUNDARY = r"(?:(?<![A-Za-z])|(?<=[a-z])(?=[A-Z]))"
# No name is without one of these; case is folded, as `ſ` and `K` are letters of names too.
_STEMS = (
    *("pass", "pwd", "secret", "key", "token", "str", "kennwort", "contrase", "senha"),
    *("пароль", "密码", "密碼", "口令", "パスワード", "비밀번호"),
)
_KEY = re.compile(rf"{_BOUNDARY}(?i:{_NAMES})\Z")
_LONGEST_NAME = 40
_ASSIGNED = re.compile(
    rf"(?<!</){_BOUNDARY}(?i:{_NAMES})(?:\\*+[\"'`])?+\]?+[ \t]{{0,4}}+"
    r"(?P<sign>=>|:=|==?|:|是|为|為|>|(?i:\b(?:is|was)\b)|(?<=[ ]))"
    r"[ \t]{0,4}+(?P<open>\\*+[\"'`])?+"
)
_BARE = re.compile(r"[!#-&*+./0-9:=?@A-Z^_a-z|~-]{3,200}+")
_NO_VALUE = re.compile(
    r"[*.#?•-]+|[xX]{3,}|[A-Z]+(?:_[A-Z]+)+"
    r"|\[[a-z ]{2,14}\]|<.*>|\{.*\}|\$\w+|\$[({].*|%\(?\w*\)?s?"
    r"|(?i:str|string|text|null|none|nil|true|false|undefined|required|optional|password|secret)"
    # code: a call, an index, an attribute, a name
    r"|[A-Za-z_][\w.]*[(\[].*|(?:os|self|this|process|config|settings|args|env|request|req)\..*"
)
_TELLING = re.compile(r"\d|[!-/:-@^`{|}~]|[a-z][A-Z]")
_LONGEST_VALUE = 400
_ENDS = re.compile(r"[\n\r\"']")


def is_secret_name(name: str) -> bool:
    """Whether values under this key are secrets whatever they look like."""
    return _KEY.search(name[-_LONGEST_NAME:]) is not None


def assignments(text: str) -> Iterator[tuple[int, int]]:
    """Values that stand behind the name of a secret; `text` keeps its backslashes."""
    folded = text.casefold()
    if not any(stem in folded for stem in _STEMS):  # many times as fast as the pattern
        return
    done = 0
    for match in _ASSIGNED.finditer(text):
        if match.start() < done:
            continue
        start = match.end()
        quote = match["open"]
        end = _closing(text, start, quote) if quote else _bare_end(text, start, match["sign"])
        if end > start and not _NO_VALUE.fullmatch(text[start:end]):
            done = end
            yield start, end


def _closing(text: str, start: int, quote: str) -> int:
    """Where a quoted value ends: at the same quote behind as many backslashes, or with its line."""
    most = start + _LONGEST_VALUE
    end = text.find(quote, start, most)
    while end > start and text[end - 1] == "\\":
        end = text.find(quote, end + len(quote), most)
    if end >= 0:
        return end
    stop = _ENDS.search(text, start, most)
    return stop.start() if stop else min(most, len(text))


def _bare_end(text: str, start: int, sign: str) -> int:
    """Where a value without quotes ends; `start` where it is more likely a word of a sentence."""
    found = _BARE.match(text, start)
    if found is None:
        return start
    value = found[0].rstrip(".:?!")
    sure = "=" in sign and text[start - 1] == "="
    if len(value) >= 3 and (sure or (len(value) >= 4 and _TELLING.search(value))):
        return start + len(value)
    return start
