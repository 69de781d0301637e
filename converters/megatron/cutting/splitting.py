"""Where a pre-tokenizer, or the model behind it, is sure to keep two neighbours apart."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, Literal, TypeAlias

from ingot.converters.megatron.cutting.normalizers import read_pattern
from ingot.converters.megatron.cutting.regex import (
    Pattern,
    UnprovableError,
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


def read_pre_tokenizer(document: dict[str, Any] | None) -> list[Judge]:
    """Analyse the `pre_tokenizer` of a tokenizer.json: one judge per stage, in order.

    Raises:
        UnprovableError: a kind that is not known here.
    """
    stages = list(_flat(document))
    if any(stage["type"] == "Metaspace" for stage in stages[:-1]):
        raise UnprovableError("the pre-tokenizer Metaspace before another one")
    judges = [_judge(stage) for stage in stages]
    if any(stage["type"] == "Metaspace" and _scheme(stage) == "first" for stage in stages):
        judges.insert(0, _before_space)
    return judges


def _flat(document: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    if document is None:
        return
    if document["type"] != "Sequence":
        yield document
        return
    for inner in document["pretokenizers"]:
        yield from _flat(inner)


def _judge(document: dict[str, Any]) -> Judge:
    kind = document["type"]
    if kind == "ByteLevel":
        return _byte_level(document)
    if kind == "Metaspace":
        return _metaspace(document)
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


def _before_space(_: str, y: str) -> Verdict:
    """A piece that begins with a space gets no prefix, wherever it stands."""
    return "open" if y in (" ", METASPACE) else "bound"


def _byte_level(document: dict[str, Any]) -> Judge:
    if not document.get("use_regex", True):
        return lambda _x, _y: "bound"
    pattern = regex_pattern(_BYTE_LEVEL)
    prefixed = document["add_prefix_space"]

    def judge(x: str, y: str) -> Verdict:
        return "bound" if prefixed and y != " " else _isolated(pattern, x, y)

    return judge


def _scheme(document: dict[str, Any]) -> str:
    legacy = "always" if document.get("add_prefix_space", True) else "never"
    return str(document.get("prepend_scheme", legacy))


def _metaspace(document: dict[str, Any]) -> Judge:
    """It splits before every replaced space; the model is asked where it does not split."""
    mark = document["replacement"]
    found: Verdict = "cut" if document.get("split", True) else "open"

    def judge(_: str, y: str) -> Verdict:
        return found if y in (" ", mark) else "bound"

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


def space_mark(document: dict[str, Any] | None) -> str:
    """What the model reads for a space behind this pre-tokenizer."""
    stages = list(_flat(document))
    metaspace = bool(stages) and stages[-1]["type"] == "Metaspace"
    return str(stages[-1]["replacement"]) if metaspace else " "


def read_model(document: Mapping[str, Any], space: str) -> Judge:
    """Where a BPE model keeps neighbours apart in one long pre-token; others are not known to.

    No entry of the vocabulary holds x directly followed by y, so no merge joins them; both are
    entries themselves, so neither becomes bytes or fuses with unknown neighbours.
    """
    if "merges" not in document or _unusual(document):
        return lambda _x, _y: "bound"
    vocabulary = document["vocab"]
    pairs, single = bigrams(vocabulary), {entry for entry in vocabulary if len(entry) == 1}

    def judge(x: str, y: str) -> Verdict:
        x, y = x.replace(" ", space), y.replace(" ", space)
        known = x in single and y in single
        return "cut" if known and x + y not in pairs else "bound"

    return judge


def _unusual(document: Mapping[str, Any]) -> bool:
    return any(
        document.get(name)
        for name in ("ignore_merges", "continuing_subword_prefix", "end_of_word_suffix")
    )


def bigrams(entries: Iterable[str]) -> set[str]:
    """All pairs of neighbours inside the entries."""
    return {entry[at : at + 2] for entry in entries for at in range(len(entry) - 1)}
