"""Where a pre-tokenizer, or the model behind it, is sure to keep two neighbours apart."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, TypeAlias

from ingot.converters.megatron.cutting.normalizers import read_pattern
from ingot.converters.megatron.cutting.parsing import UnprovableError
from ingot.converters.megatron.cutting.regex import (
    Pattern,
    regex_pattern,
)

# `cut`: every text is split between x and y. `open`: it may not be, but what happens on either
# side does not depend on the other. `bound`: nothing is known.
Verdict: TypeAlias = Literal["cut", "open", "bound"]
Judge: TypeAlias = Callable[[str, str], Verdict]

METASPACE: Final = "▁"
_BYTE_LEVEL: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# These look at two neighbours, and at nothing else, to split between them.
_PAIRWISE: Final = frozenset(
    {
        "BertPreTokenizer",
        "Whitespace",
        "WhitespaceSplit",
        "Digits",
        "CharDelimiterSplit",
        "UnicodeScripts",
        "Punctuation",
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Splitting:
    """A pre-tokenizer.

    Attributes:
        prefixed: a space is put before a text, and perhaps behind added tokens and splits.
        stages: one judge per stage, in order.
        space: what the model reads for a space.
    """

    prefixed: bool
    stages: list[Judge]
    space: str


def read_pre_tokenizer(document: dict[str, Any] | None) -> Splitting:
    """Analyse the `pre_tokenizer` of a tokenizer.json.

    Raises:
        UnprovableError: a kind that is not known here.
    """
    stages = list(_flat(document))
    if any(stage["type"] == "Metaspace" for stage in stages[:-1]):
        raise UnprovableError("the pre-tokenizer Metaspace before another one")
    metaspace = bool(stages) and stages[-1]["type"] == "Metaspace"
    return Splitting(
        prefixed=any(map(_is_prefixed, stages)),
        stages=[_judge(stage, at == 0) for at, stage in enumerate(stages)],
        space=str(stages[-1]["replacement"]) if metaspace else " ",
    )


def _is_prefixed(document: dict[str, Any]) -> bool:
    if document["type"] == "Metaspace":
        return _scheme(document) != "never"
    return document["type"] == "ByteLevel" and bool(document["add_prefix_space"])


def _flat(document: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    if document is None:
        return
    if document["type"] != "Sequence":
        yield document
        return
    for inner in document["pretokenizers"]:
        yield from _flat(inner)


def _judge(document: dict[str, Any], is_first: bool) -> Judge:
    kind = document["type"]
    if kind == "ByteLevel":
        return _byte_level(document, is_first)
    if kind == "Metaspace":
        return _metaspace(document, is_first)
    if kind == "Split":
        return _split(document)
    if kind in _PAIRWISE and not str(document.get("behavior")).startswith("MergedWith"):
        return partial(_pairwise, _pre_tokenizer(document))
    raise UnprovableError(f"the pre-tokenizer {kind}")


def _pre_tokenizer(document: dict[str, Any]) -> Callable[[str], list[tuple[str, Any]]]:
    from tokenizers import Tokenizer

    model = {"type": "WordLevel", "vocab": {}, "unk_token": ""}
    whole = {"version": "1.0", "added_tokens": [], "pre_tokenizer": document, "model": model}
    split: Callable[[str], list[tuple[str, Any]]] = Tokenizer.from_str(
        json.dumps(whole)
    ).pre_tokenizer.pre_tokenize_str
    return split


def _pairwise(split: Callable[[str], list[tuple[str, Any]]], x: str, y: str) -> Verdict:
    joined = any(first < 1 < last for _, (first, last) in split(x + y))
    return "open" if joined else "cut"


def _byte_level(document: dict[str, Any], is_first: bool) -> Judge:
    """Where it is not the first, it may or may not put a space before y, unless y is one."""
    if not document.get("use_regex", True):
        return lambda _x, _y: "bound"
    pattern = regex_pattern(_BYTE_LEVEL)
    unsure = document["add_prefix_space"] and not is_first

    def judge(x: str, y: str) -> Verdict:
        return "bound" if unsure and y != " " else _isolated(pattern, x, y)

    return judge


def _scheme(document: dict[str, Any]) -> str:
    legacy = "always" if document.get("add_prefix_space", True) else "never"
    return str(document.get("prepend_scheme", legacy))


def _metaspace(document: dict[str, Any], is_first: bool) -> Judge:
    """It splits before every replaced space; the model is asked where it does not split."""
    mark = document["replacement"]
    found: Verdict = "cut" if document.get("split", True) else "open"
    unsure = not is_first and _scheme(document) == "always"

    def judge(_: str, y: str) -> Verdict:
        if y in (" ", mark):
            return found
        return "bound" if unsure else "open"

    return judge


def _split(document: dict[str, Any]) -> Judge:
    pattern, behavior = read_pattern(document["pattern"]), document["behavior"]
    if behavior in ("Isolated", "Removed"):
        return partial(_isolated, pattern)
    if behavior == "Contiguous":
        return partial(_contiguous, pattern)
    if document["invert"]:
        raise UnprovableError(f"the pre-tokenizer Split with {behavior} and invert")
    return partial(_merged, pattern, behavior == "MergedWithPrevious")


def _isolated(pattern: Pattern, x: str, y: str) -> Verdict:
    """No match goes across, and one side is never in what lies between two matches."""
    if pattern.crosses(x, y):
        return "bound"
    return "cut" if pattern.alone(x) or pattern.alone(y) else "open"


def _contiguous(pattern: Pattern, x: str, y: str) -> Verdict:
    return "bound" if pattern.crosses(x, y) else "open"


def _merged(pattern: Pattern, previous: bool, x: str, y: str) -> Verdict:
    """A match takes the gap before it (`previous`) or behind it, but never another match."""
    apart = not pattern.crosses(x, y) and pattern.alone(x if previous else y)
    return "cut" if apart else "bound"


def read_model(document: Mapping[str, Any], space: str) -> Judge:
    """Where a BPE model keeps neighbours apart in one long pre-token; others are not known to.

    No entry of the vocabulary holds x directly followed by y, so no merge joins them. Neither fuses
    with unknown neighbours: both are entries themselves, or become bytes that nothing merges.
    """
    if "merges" not in document or _unusual(document):
        return lambda _x, _y: "bound"
    vocabulary = document["vocab"]
    pairs, single = bigrams(vocabulary), {entry for entry in vocabulary if len(entry) == 1}
    all_known = _has_bytes(document)

    def judge(x: str, y: str) -> Verdict:
        x, y = x.replace(" ", space), y.replace(" ", space)
        known = all_known or (x in single and y in single)
        return "cut" if known and x + y not in pairs else "bound"

    return judge


def _unusual(document: Mapping[str, Any]) -> bool:
    return any(
        document.get(name)
        for name in ("ignore_merges", "continuing_subword_prefix", "end_of_word_suffix")
    )


def _has_bytes(document: Mapping[str, Any]) -> bool:
    """Does every unknown character become bytes, none of which is part of a merge?"""
    names = {f"<0x{number:02X}>" for number in range(256)}
    if not document.get("byte_fallback") or not names <= document["vocab"].keys():
        return False
    pairs = (pair.split(" ") if isinstance(pair, str) else pair for pair in document["merges"])
    return not any(part in names for pair in pairs for part in pair)


def bigrams(entries: Iterable[str]) -> set[str]:
    """All pairs of neighbours inside the entries."""
    return {entry[at : at + 2] for entry in entries for at in range(len(entry) - 1)}
