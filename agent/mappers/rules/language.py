"""Which language texts are in: by script where a script tells, else by py3langid."""

import re
from collections import Counter
from collections.abc import Sequence

from ingot.converters.text_kinds import script_counts

_BY_SCRIPT = {
    "hangul": "ko",
    "kana": "ja",
    "han": "zh",
    "thai": "th",
    "greek": "el",
    "hebrew": "he",
    "tamil": "ta",
}
_MARKUP = re.compile(r"```.*?```|https?://\S+|<[^>]{1,80}>|\\[a-zA-Z]+|[{}$_^\\]", re.DOTALL)
CODE_SHARE = 0.5


def _one(text: str) -> str | None:
    """The language of one text, None where it is too short or carries no letters."""
    from py3langid import classify

    bare = _MARKUP.sub(" ", text)[:1500]
    scripts = script_counts(bare)
    letters = sum(scripts.values())
    if letters < 4:
        return None
    if scripts["kana"] > 0.1 * letters:
        return "ja"
    for script, code in _BY_SCRIPT.items():
        share = scripts[script] * (2 if script == "han" else 1)
        if share > 0.5 * (letters + scripts[script]):
            return code
    if letters < 20:
        return None
    return str(classify(bare)[0])


def detect(texts: Sequence[str]) -> tuple[str | None, float]:
    """The language that most texts share, weighted by length, and its share.

    Args:
        texts: what will be trained on; short ones are read together.

    Returns:
        An ISO 639-1 code and its share of the characters; the code is None where there is no text.
    """
    votes: Counter[str] = Counter()
    short: list[str] = []
    for text in texts[:60]:
        if len(text) < 80:
            short.append(text)
            continue
        if code := _one(text):
            votes[code] += min(len(text), 1500)
    for start in range(0, len(short), 12):
        together = "\n".join(short[start : start + 12])
        if code := _one(together):
            votes[code] += len(together)
    if not votes:
        return None, 0.0
    code, weight = votes.most_common(1)[0]
    return code, weight / sum(votes.values())
