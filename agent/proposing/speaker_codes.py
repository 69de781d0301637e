"""Tell the two sides of conversations whose speakers are known by codes only, by what they do."""

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ingot.agent.proposing.names import speaker_role
from ingot.converters.sources.text_kinds import is_question

Turn = tuple[str, ...]  # who speaks, and what is said
MOST_CODES = 8
_ANSWERED = 0.6  # of the turns of two sides follow one of the other side
_USUAL = 0.8  # of the conversations begin with the same side
_ASIDE = 0.1  # of the turns may be those of somebody else, where they say new things
_REPEATED = 0.6  # different texts among those that are notices
_GREETING = 20  # characters with which those who answer calls begin


@dataclass(frozen=True, kw_only=True)
class Sides:
    """What codes of speakers stand for.

    Attributes:
        roles: None for those who belong to neither side (notices, notes).
        answered: the share of the turns that follow one of the other side.
        agreed: who begins is also who asks.
    """

    roles: dict[str, str | None]
    answered: float
    agreed: bool


def find_sides(talks: Sequence[Sequence[Turn]]) -> Sides | None:
    """Return the codes of user and assistant, who alternate in nearly every conversation."""
    counts = Counter(code for talk in talks for code, *_ in talk)
    if not 2 <= len(counts) <= MOST_CODES or not all(code.strip() for code in counts):
        return None
    pair = max(itertools.combinations(counts, 2), key=lambda two: _count_changes(talks, two))
    pair_talks = [[turn for turn in talk if turn[0] in pair] for talk in talks]
    both = sum(len({code for code, *_ in talk}) == 2 for talk in pair_talks)
    follows = sum(max(0, len(talk) - 1) for talk in pair_talks)
    answered = _count_changes(talks, pair) / max(1, follows)
    rest = [code for code in counts if code not in pair]
    equal = sum(len({text for _, text, *_ in talk}) == 1 for talk in pair_talks if len(talk) > 1)
    if both < _USUAL * len(talks) or answered < _ANSWERED or 2 * equal > len(pair_talks):
        return None
    named = {"user", "assistant"} <= set(map(speaker_role, pair))  # no codes: others are somebody
    turns = 0 if named else counts.total()
    if not all(_stands_aside(code, talks, turns) for code in rest):
        return None
    told = _find_user([talk for talk in pair_talks if talk], pair)
    if told is None:
        return None
    user, agreed = told
    roles = {code: "user" if code == user else "assistant" for code in pair}
    return Sides(roles={**roles, **dict.fromkeys(rest)}, answered=answered, agreed=agreed)


def _count_changes(talks: Sequence[Sequence[Turn]], pair: Sequence[str]) -> int:
    code_talks = [[code for code, *_ in talk if code in pair] for talk in talks]
    return sum(a != b for codes in code_talks for a, b in itertools.pairwise(codes))


def _stands_aside(code: str, talks: Sequence[Sequence[Turn]], turns: int) -> bool:
    """Whether a code says the same again and again, or hardly anything."""
    texts = [text for talk in talks for who, text, *_ in talk if who == code]
    same = len(set(texts)) <= _REPEATED * len(texts) and not _stands_for_answer(code, talks)
    return same or len(texts) <= _ASIDE * turns or speaker_role(code) in ("system", "drop")


def _stands_for_answer(code: str, talks: Sequence[Sequence[Turn]]) -> bool:
    """Whether another speaker follows where an answer is expected."""
    places = [
        (talk[0][0], talk[at - 1][0], talk[at + 1][0] if at + 1 < len(talk) else talk[0][0])
        for talk in talks
        for at, turn in enumerate(talk)
        if turn[0] == code and at
    ]
    return 2 * sum(first == before == after for first, before, after in places) > len(places) > 0


def _find_user(talks: Sequence[Sequence[Turn]], pair: Sequence[str]) -> tuple[str, bool] | None:
    """Who begins and asks; who only greets, always the same, does not ask."""
    opener, count = Counter(talk[0][0] for talk in talks).most_common(1)[0]
    asks = {code: _asking_share(talks, code) for code in pair}
    asker = max(pair, key=lambda code: asks[code])
    clear = asks[asker] >= 2 * min(asks.values()) and asks[asker] > _ASIDE
    greets = len({talk[0][1][:_GREETING] for talk in talks}) <= _REPEATED * len(talks)
    if count < _USUAL * len(talks) or greets:
        return (asker, False) if clear else None
    return opener, clear and asker == opener


def _asking_share(talks: Sequence[Sequence[Turn]], code: str) -> float:
    texts = [text for talk in talks for who, text, *_ in talk if who == code]
    return sum(map(is_question, texts)) / max(1, len(texts))
