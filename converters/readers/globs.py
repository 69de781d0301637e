"""The globs of `source.files`: which names they choose."""

import re
from collections.abc import Sequence
from functools import cache


def chosen(name: str, patterns: Sequence[str] | None) -> bool:
    """Whether a name (relative, with `/`) is chosen; the last pattern that matches decides.

    A pattern that begins with `!` excludes; if all do, everything else is chosen. As in gitignore a
    pattern without a slash matches in every folder, `*` stays inside a folder and `**` does not.
    """
    if patterns is None:
        return True
    verdict = all(pattern.startswith("!") for pattern in patterns)
    for pattern in patterns:
        if _compiled(pattern.removeprefix("!")).fullmatch(name):
            verdict = not pattern.startswith("!")
    return verdict


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    anywhere = "" if "/" in pattern.rstrip("/") else "(?:.*/)?"
    return re.compile(anywhere + _regex(pattern.removeprefix("./").removeprefix("/")), re.DOTALL)


_TOKEN = re.compile(r"\*\*/|\*\*|\*|\?|\[!?[^\]]+\]|.", re.DOTALL)
_MARKS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def _regex(pattern: str) -> str:
    if pattern.endswith("/"):
        pattern += "**"
    parts = []
    for token in _TOKEN.findall(pattern):
        if token in _MARKS:
            parts.append(_MARKS[token])
        elif len(token) > 2 and token.startswith("["):
            inner = token[1:-1].replace("\\", "\\\\").replace("[", "\\[")
            parts.append(f"[^{inner[1:]}]" if inner.startswith("!") else f"[{inner}]")
        else:
            parts.append(re.escape(token))
    return "".join(parts)
