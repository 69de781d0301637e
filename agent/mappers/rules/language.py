"""Which language most of some texts are in, and whether the sides of conversations differ."""

import re
from collections import Counter
from collections.abc import Sequence

from ingot.converters.text_kinds import script_counts, words_in
from ingot.converters.text_language import READ, recognized

_PHRASE = re.compile(r"\w\s*[.!?…]\s*$")
SURE = 0.7


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
        if code := recognized(text):
            votes[code] += min(len(text), READ)
    for start in range(0, len(short), 12):
        together = "\n".join(short[start : start + 12])
        if code := recognized(together):
            votes[code] += len(together)
    if not votes:
        return None, 0.0
    code, weight = votes.most_common(1)[0]
    return code, weight / sum(votes.values())


def differ(sides: Sequence[Sequence[str]]) -> bool:
    """Whether the sides of conversations are in different languages.

    A side of names, numbers or labels is in no language of its own.
    """
    known = set()
    for texts in sides:
        code, share = detect(texts) if _telling(texts) else (None, 0.0)
        if code and share >= SURE:
            known.add(code)
    return len(known) > 1


def _telling(texts: Sequence[str]) -> bool:
    """Whether texts are phrases: several words, or the end of a sentence, or another script."""
    sample = [text for text in texts[:60] if text.strip()]
    phrases = sum(words_in(text) >= 4 or bool(_PHRASE.search(text)) for text in sample)
    letters = script_counts("\n".join(sample))
    return phrases > 0.4 * len(sample) or letters["latin"] < 0.5 * sum(letters.values())
