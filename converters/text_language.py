"""Which language a text is in: by script where a script tells, else by py3langid."""

import re
from typing import Final

from ingot.converters.text_kinds import script_counts

READ: Final = 1500  # characters of a text that are looked at

_BY_SCRIPT: Final = {
    "hangul": "ko",
    "kana": "ja",
    "han": "zh",
    "thai": "th",
    "greek": "el",
    "hebrew": "he",
    "tamil": "ta",
}
_MARKUP = re.compile(r"```.*?```|https?://\S+|<[^>]{1,80}>|\\[a-zA-Z]+|[{}$_^\\]", re.DOTALL)


def recognized(text: str) -> str | None:
    """The ISO 639-1 code of a text's language, None where it is too short or has no letters."""
    from py3langid import classify

    bare = _MARKUP.sub(" ", text)[:READ]
    scripts = script_counts(bare)
    letters = sum(scripts.values())
    if letters < 4:
        return None
    if scripts["kana"] > 0.1 * letters:
        return "ja"
    for script, code in _BY_SCRIPT.items():
        weight = 2 if script == "han" else 1  # a sign of Han says as much as two letters
        if weight * scripts[script] > 0.5 * (letters + (weight - 1) * scripts[script]):
            return code
    if letters < 20:
        return None
    code = str(classify(bare)[0])
    return code if len(code) == 2 else None  # rare ones are mostly letters that are no language
