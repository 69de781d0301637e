"""Answers to multiple choice: which option a letter, a number or a text names."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ingot.agent.proposing.columns import Column, parse_whole_number
from ingot.agent.proposing.names import alias_tables, truth_of
from ingot.agent.proposing.rules.answers.sides import SURE_SHARE, detect_language
from ingot.converters.mapping.language import add_pick
from ingot.converters.rows import Json

LETTERS = "ABCDEFGHIJ"


_VOID_SHARE = 0.25  # of a key's marks that may name no option


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a question.

    Attributes:
        shown: the value that renders them with letters, for the user's turn.
        bare: the value that gives their texts in order, None where a pick is not possible.
        keys: per row what an answer may name: the letters or labels shown, in order.
    """

    shown: Json
    bare: dict[str, Json] | None
    keys: tuple[tuple[str, ...], ...]
    texts: tuple[tuple[str, ...], ...]
    paths: frozenset[str]


def answer_reference(options: Options, answer: Column) -> str | None:
    """Return how an answer names an option: `key`, `place0`, `place1`, `text` or None."""
    rows = zip(answer.texts, options.texts, options.keys, strict=True)
    void = void_keys(options, answer)
    keyed = [(a.strip(), o, keys) for a, o, keys in rows if a.strip() and o and a not in void]
    if not keyed:
        return None
    pairs = [(a, o) for a, o, _ in keyed]
    bare = [re.sub(r"^[(\[（【]|[)\]）】.]$", "", a).upper() for a, _ in pairs]
    if all(a in map(str.upper, keys) for a, (_, _, keys) in zip(bare, keyed, strict=True)):
        return "key"
    last = LETTERS[: max(len(o) for _, o in pairs)][-1]
    if all(re.fullmatch(rf"[A-{last}]+|[A-{last}](?:[,、\s]+[A-{last}])*", a) for a in bare):
        return "key"
    numbers = [(parse_whole_number(a), len(o)) for a, o in pairs]
    places = [(place, size) for place, size in numbers if place is not None]
    if len(places) == len(pairs):
        if min(places)[0] >= 1 and max(places)[0] == max(size for _, size in places):
            return "place1"
        return "place0" if all(place < size for place, size in places) else None
    same = sum(any(a == text.strip() for text in o) for a, o in pairs)
    return "text" if same >= 0.8 * len(pairs) else None


def void_keys(options: Options, answer: Column) -> list[str]:
    """Return the few letters that name no option, such as those of annulled questions."""
    last = LETTERS[: max(map(len, options.keys), default=0)][-1:] or "A"
    named = re.compile(rf"[^\w]?[A-{last}](?:[,、\s]*[A-{last}])*[^\w]?", re.IGNORECASE)
    both = [(t, keys) for t, keys in zip(answer.texts, options.keys, strict=True) if t.strip()]
    void = [t for t, keys in both if t.strip() not in keys and not named.fullmatch(t.strip())]
    return sorted(set(void)) if len(void) <= _VOID_SHARE * len(both) else []


def other_keys(options: Options, answer: Column, columns: Sequence[Column]) -> list[Column]:
    """Return the other columns whose values also name an option."""
    single = [c for c in columns if c.path not in (answer.path, *options.paths) and not c.many]
    lettered = [c for c in single if c.nature in ("letter", "label") and c.distinct > 1]
    return [c for c in lettered if answer_reference(options, c) == "key"]


def spell_options_as_answer(options: Options, answer: Column) -> Options:
    """Return the options with small letters if the answers use small letters."""
    small = all(text.strip().islower() for text in answer.present)
    if not (small and isinstance(options.shown, dict) and options.shown.get("label") == "A. "):
        return options
    return replace(options, shown={**options.shown, "label": "a. "})


def answer_value(options: Options, answer: Column, reference: str) -> Json:
    """Return the assistant's text: the answer as it stands, or the option that a number names."""
    if reference in ("key", "text") or options.bare is None:
        return answer.path
    if reference == "place0":
        return add_pick(options.bare, answer.path)
    table = {str(place + 1): str(place) for place in range(max(map(len, options.keys)))}
    return add_pick(options.bare, {"path": answer.path, "map": table})


def truth_words(asked: Column, answer: Column) -> dict[str, str]:
    """Return the words for 1 and 0 as answers to statements, in the language of the statements."""
    texts = {text.strip() for text in answer.present}
    if len(texts) != 2 or None in map(truth_of, texts) or asked.looks("question") > 0.3:
        return {}
    code, share = detect_language(asked.present)
    words = alias_tables()["truth"].get(code) if share >= SURE_SHARE else None
    return {t: words[not truth_of(t)] for t in sorted(texts)} if words else {}
