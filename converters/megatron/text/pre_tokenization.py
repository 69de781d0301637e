"""Find where the normalizer and the pre-tokenizer of a tokenizer.json keep two neighbours apart."""

import json
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial, reduce
from itertools import pairwise
from typing import Any, Final, Literal, TypeAlias

from ingot.converters.megatron.text.regex_syntax import (
    RegexPattern,
    UnprovableError,
    literal_pattern,
    regex_pattern,
)

# Conjoining Hangul; Thai and Lao, whose AM vowels join the cluster before them; compatibility
# and halfwidth Hangul, which decompose into conjoining ones.
_JOINING: Final = (
    (0x0E00, 0x0EFF),
    (0x1100, 0x11FF),
    (0x3130, 0x318F),
    (0xA960, 0xA97F),
    (0xD7B0, 0xD7FF),
    (0xFFA0, 0xFFDC),
)


@lru_cache(maxsize=1 << 16)
def is_plain(char: str) -> bool:
    """Does nothing before this character compose, reorder or cluster with it?

    Neither with what comes behind it, if that is plain too. Only characters that every version of
    Unicode since 3.2 puts in the same category: a library's tables may be older or newer.
    """
    if char < "\x80":
        return char.isprintable() or char in "\t\n"
    category = unicodedata.category(char)
    if category[0] in "MC" or unicodedata.ucd_3_2_0.category(char) != category:
        return False
    if any(first <= ord(char) <= last for first, last in _JOINING):
        return False
    return starts_apart(unicodedata.normalize("NFKD", char))


def starts_apart(text: str) -> bool:
    """Does the text begin with a character that composes with none before it?"""
    return unicodedata.category(text[0])[0] != "M" and unicodedata.combining(text[0]) == 0


# Elements left and right of the place, nearest first: what became of one character each.
TextSides: TypeAlias = tuple[list[str], list[str]]
_NormalizerStage: TypeAlias = Callable[[TextSides], TextSides | None]

# These make of every character, between plain ones, what they make of it alone.
_CHARACTER_NORMALIZERS: Final = (
    *("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "Precompiled"),
    *("BertNormalizer", "ByteLevel"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class NormalizerFacts:
    """A normalizer."""

    reach: int  # characters that have to be known on each side of a place
    prefixed: bool  # something is put before a text, and behind every added token in it
    # what becomes of one character, where `apply` finds both sides independent
    alone: Callable[[str], str]
    # the elements around a place before and after, nearest first; `None` where both sides are not
    # sure to be independent
    apply: _NormalizerStage


def read_normalizer(document: dict[str, Any] | None) -> NormalizerFacts:
    """Analyse the `normalizer` of a tokenizer.json."""
    everything = list(_flatten_sequence(document, "normalizers"))
    stages = [stage for stage in everything if stage["type"] != "Prepend"]
    applied = [_make_stage(stage) for stage in stages]
    return NormalizerFacts(
        reach=2 + sum(stage["type"] == "Replace" for stage in stages),
        prefixed=len(stages) < len(everything),
        alone=lru_cache(maxsize=1 << 16)(_character_normalizer(stages)),
        apply=partial(_apply_stages, applied),
    )


def _flatten_sequence(document: dict[str, Any] | None, key: str) -> Iterator[dict[str, Any]]:
    """The stages in order; a sequence has its own under `key`."""
    if document is None:
        return
    if document["type"] != "Sequence":
        yield document
        return
    for inner in document[key]:
        yield from _flatten_sequence(inner, key)


def _character_normalizer(documents: list[dict[str, Any]]) -> Callable[[str], str]:
    changing = [make_normalizer(document) for document in documents if document["type"] != "Strip"]
    return lambda char: reduce(lambda made, normalize: normalize(made), changing, char)


def _apply_stages(stages: list[_NormalizerStage], sides: TextSides) -> TextSides | None:
    for stage in stages:
        after = stage(sides)
        if after is None or not all(after[0]) or not all(after[1]):
            return None
        sides = after
    return sides if sides[0] and sides[1] else None


def _make_stage(document: dict[str, Any]) -> _NormalizerStage:
    kind = document["type"]
    if kind in _CHARACTER_NORMALIZERS:
        return partial(_normalize_characters, make_normalizer(document))
    if kind == "Replace":
        return partial(
            _replace_pattern, read_pattern(document["pattern"]), make_normalizer(document)
        )
    if kind == "Strip":
        return _strip_sides
    raise UnprovableError(f"the normalizer {kind}")


def read_pattern(document: dict[str, str]) -> RegexPattern:
    """Analyse a `pattern` of a tokenizer.json: a text or a regular expression."""
    if "String" in document:
        return literal_pattern(document["String"])
    return regex_pattern(document["Regex"])


def make_normalizer(document: dict[str, Any]) -> Callable[[str], str]:
    """What the library's normalizer of this description makes of a short text."""
    return lru_cache(maxsize=1 << 16)(_load_part("normalizer", document).normalize_str)


def _load_part(name: str, document: dict[str, Any]) -> Any:  # noqa: ANN401
    """The library's `normalizer` or `pre_tokenizer` of a description."""
    from tokenizers import Tokenizer

    model = {"type": "WordLevel", "vocab": {}, "unk_token": ""}
    whole = {"version": "1.0", "added_tokens": [], name: document, "model": model}
    return getattr(Tokenizer.from_str(json.dumps(whole)), name)


def _normalize_characters(normalize: Callable[[str], str], sides: TextSides) -> TextSides | None:
    left, right = ([normalize(element) for element in side] for side in sides)
    apart = all(map(starts_apart, filter(None, left + right)))
    return (left, right) if apart else None


def _replace_pattern(
    pattern: RegexPattern, normalize: Callable[[str], str], sides: TextSides
) -> TextSides | None:
    """No match crosses from one element to the next; the outermost may be in one unseen."""
    row = [*reversed(sides[0]), *sides[1]]
    if any(pattern.crosses(x[-1], y[0]) for x, y in pairwise(row)):
        return None
    left, right = ([normalize(element) for element in side[:-1]] for side in sides)
    return left, right


def _strip_sides(sides: TextSides) -> TextSides | None:
    """Nothing is stripped at a place that has no white space on either side."""
    blank = sides[0][0][-1].isspace() or sides[1][0][0].isspace()
    return None if blank else sides


# `cut`: every text is split between x and y. `open`: it may not be, but what happens on either
# side does not depend on the other. `bound`: nothing is known.
SplitVerdict: TypeAlias = Literal["cut", "open", "bound"]
SplitJudge: TypeAlias = Callable[[str, str], SplitVerdict]

METASPACE: Final = "▁"
_BYTE_LEVEL: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# These look at two neighbours, and at nothing else, to split between them.
_PAIRWISE: Final = (
    *("BertPreTokenizer", "Whitespace", "WhitespaceSplit", "Digits", "CharDelimiterSplit"),
    *("UnicodeScripts", "Punctuation"),
)


_UNUSUAL: Final = ("ignore_merges", "continuing_subword_prefix", "end_of_word_suffix")  # of a model


@dataclass(frozen=True, kw_only=True, slots=True)
class PreTokenizerFacts:
    """A pre-tokenizer."""

    prefixed: bool  # a space is put before a text, and perhaps behind added tokens and splits
    stages: list[SplitJudge]  # one judge per stage, in order
    space: str  # what the model reads for a space


def read_pre_tokenizer(document: dict[str, Any] | None) -> PreTokenizerFacts:
    """Analyse the `pre_tokenizer` of a tokenizer.json."""
    stages = list(_flatten_sequence(document, "pretokenizers"))
    if any(stage["type"] == "Metaspace" for stage in stages[:-1]):
        raise UnprovableError("the pre-tokenizer Metaspace before another one")
    metaspace = bool(stages) and stages[-1]["type"] == "Metaspace"
    return PreTokenizerFacts(
        prefixed=any(map(_is_prefixed, stages)),
        stages=[_make_judge(stage, at == 0) for at, stage in enumerate(stages)],
        space=str(stages[-1]["replacement"]) if metaspace else " ",
    )


def _is_prefixed(document: dict[str, Any]) -> bool:
    if document["type"] == "Metaspace":
        return _prepend_scheme(document) != "never"
    return document["type"] == "ByteLevel" and bool(document["add_prefix_space"])


def _make_judge(document: dict[str, Any], is_first: bool) -> SplitJudge:
    kind = document["type"]
    if kind == "ByteLevel":
        return _byte_level_judge(document, is_first)
    if kind == "Metaspace":
        return _metaspace_judge(document, is_first)
    if kind == "Split":
        return _split_judge(document)
    if kind in _PAIRWISE and not str(document.get("behavior")).startswith("MergedWith"):
        return partial(_judge_pairwise, _load_part("pre_tokenizer", document).pre_tokenize_str)
    raise UnprovableError(f"the pre-tokenizer {kind}")


def _judge_pairwise(split: Callable[[str], list[tuple[str, Any]]], x: str, y: str) -> SplitVerdict:
    joined = any(first < 1 < last for _, (first, last) in split(x + y))
    return "open" if joined else "cut"


def _byte_level_judge(document: dict[str, Any], is_first: bool) -> SplitJudge:
    """Where it is not the first, it may or may not put a space before y, unless y is one."""
    if not document.get("use_regex", True):
        return lambda _x, _y: "bound"
    pattern = regex_pattern(_BYTE_LEVEL)
    unsure = document["add_prefix_space"] and not is_first

    def judge(x: str, y: str) -> SplitVerdict:
        return "bound" if unsure and y != " " else _judge_isolated(pattern, x, y)

    return judge


def _prepend_scheme(document: dict[str, Any]) -> str:
    legacy = "always" if document.get("add_prefix_space", True) else "never"
    return str(document.get("prepend_scheme", legacy))


def _metaspace_judge(document: dict[str, Any], is_first: bool) -> SplitJudge:
    """It splits before every replaced space; the model is asked where it does not split."""
    mark = document["replacement"]
    found: SplitVerdict = "cut" if document.get("split", True) else "open"
    unsure = not is_first and _prepend_scheme(document) == "always"

    def judge(_: str, y: str) -> SplitVerdict:
        if y in (" ", mark):
            return found
        return "bound" if unsure else "open"

    return judge


def _split_judge(document: dict[str, Any]) -> SplitJudge:
    pattern, behavior = read_pattern(document["pattern"]), document["behavior"]
    if behavior in ("Isolated", "Removed"):
        return partial(_judge_isolated, pattern)
    if behavior == "Contiguous":
        return lambda x, y: "bound" if pattern.crosses(x, y) else "open"
    if document["invert"]:
        raise UnprovableError(f"the pre-tokenizer Split with {behavior} and invert")
    return partial(_judge_merged, pattern, behavior == "MergedWithPrevious")


def _judge_isolated(pattern: RegexPattern, x: str, y: str) -> SplitVerdict:
    """No match goes across, and one side is never in what lies between two matches."""
    if pattern.crosses(x, y):
        return "bound"
    return "cut" if pattern.alone(x) or pattern.alone(y) else "open"


def _judge_merged(pattern: RegexPattern, previous: bool, x: str, y: str) -> SplitVerdict:
    """A match takes the gap before it (`previous`) or behind it, but never another match."""
    apart = not pattern.crosses(x, y) and pattern.alone(x if previous else y)
    return "cut" if apart else "bound"


def read_model(document: Mapping[str, Any], space: str) -> SplitJudge:
    """Where a BPE model keeps neighbours apart in one long pre-token; others are not known to.

    No entry of the vocabulary holds x directly followed by y, so no merge joins them. Neither fuses
    with unknown neighbours: both are entries themselves, or become bytes that nothing merges.
    """
    if "merges" not in document or any(map(document.get, _UNUSUAL)):
        return lambda _x, _y: "bound"
    vocabulary = document["vocab"]
    pairs, single = collect_bigrams(vocabulary), {entry for entry in vocabulary if len(entry) == 1}
    all_known = _has_bytes(document)

    def judge(x: str, y: str) -> SplitVerdict:
        x, y = x.replace(" ", space), y.replace(" ", space)
        known = all_known or (x in single and y in single)
        return "cut" if known and x + y not in pairs else "bound"

    return judge


def _has_bytes(document: Mapping[str, Any]) -> bool:
    """Does every unknown character become bytes, none of which is part of a merge?"""
    names = {f"<0x{number:02X}>" for number in range(256)}
    if not document.get("byte_fallback") or not names <= document["vocab"].keys():
        return False
    pairs = (pair.split(" ") if isinstance(pair, str) else pair for pair in document["merges"])
    return not any(part in names for pair in pairs for part in pair)


def collect_bigrams(entries: Iterable[str]) -> set[str]:
    """All pairs of neighbours inside the entries."""
    return {entry[at : at + 2] for entry in entries for at in range(len(entry) - 1)}
