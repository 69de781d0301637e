"""Ids to documents, compared with the same rules on plain lists, one document at a time."""

from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.documents import (
    NEW_DOCUMENT,
    NEW_SEQUENCE,
    DocumentRules,
    ShapedDocuments,
    TokenizedTexts,
    cast_ids,
    shape_documents,
)

Token = tuple[int, int]  # an id, and whether it is trained on
Sequence = list[Token]


@dataclass(frozen=True)
class Given:
    """A document before it is shaped: texts with what each is to the one before it."""

    texts: list[tuple[int, list[Token], bool]]  # kind, tokens, failed
    end: bool  # its end is trained on


def grouped(document: Given) -> list[Sequence]:
    return [list(tokens) for _, tokens, _ in document.texts if tokens]


def framed(sequences: list[Sequence], end: bool, rules: DocumentRules) -> list[Sequence]:
    if not sequences:
        return []
    first, *rest = sequences
    whole = [[*((i, 0) for i in rules.bos), *first], *rest]
    whole[-1] = [*whole[-1], *((i, int(end)) for i in rules.eos)]
    return whole


def cut(sequences: list[Sequence], most: int) -> list[Sequence]:
    """The first `most` tokens of all sequences."""
    kept = []
    for sequence in sequences:
        kept.append(sequence[:most])
        most -= len(kept[-1])
    return [sequence for sequence in kept if sequence]


def limited(
    sequences: list[Sequence], end: bool, rules: DocumentRules, tally: Counter[str]
) -> tuple[list[Sequence], bool] | None:
    total = sum(map(len, sequences))
    most = rules.max_tokens
    if rules.min_tokens is not None and total < rules.min_tokens:
        tally["short"] += 1
        return None
    if most is None:
        return sequences, end
    if rules.long_docs == "split":
        tally["split"] += any(len(sequence) > most for sequence in sequences)
        pieces = [s[i : i + most] for s in sequences for i in range(0, len(s), most)]
        return pieces, end
    if total <= most:
        return sequences, end
    if rules.long_docs == "filter":
        tally["long"] += 1
        return None
    tally["truncated"] += 1
    return cut(sequences, most), False


def closed(sequences: list[Sequence], end: bool, rules: DocumentRules) -> list[Sequence]:
    if rules.eod is None or (not sequences and rules.empty_docs != "eod"):
        return sequences
    if not sequences:
        return [[(rules.eod, int(end))]]
    if rules.chat and sequences[-1][-1][0] == rules.eod:
        return sequences
    return [*sequences[:-1], [*sequences[-1], (rules.eod, int(end))]]


def count_doubled(sequences: list[Sequence], rules: DocumentRules, tally: Counter[str]) -> None:
    ids = [number for sequence in sequences for number, _ in sequence]
    if not ids:
        return
    closing = [*rules.eos, *([] if rules.eod is None or rules.chat else [rules.eod])]
    tally["two_bos"] += bool(rules.bos) and ids[0] == rules.bos[-1]
    end = [ids[-1], *closing]
    tally["two_eos"] += any(one == following for one, following in pairwise(end))


def model(
    documents: list[Given], rules: DocumentRules
) -> tuple[list[list[Sequence]], Counter[str]]:
    tally: Counter[str] = Counter()
    done = []
    for document in documents:
        if any(failed for _, _, failed in document.texts):
            continue
        count_doubled(grouped(document), rules, tally)
        within = limited(framed(grouped(document), document.end, rules), document.end, rules, tally)
        if within is None:
            continue
        tally["empty"] += not within[0]
        if within[0] or rules.empty_docs != "drop":
            done.append(closed(*within, rules))
    return done, +tally


def texts_of(documents: list[Given], *, masks: bool) -> TokenizedTexts:
    flat = [text for document in documents for text in document.texts]
    tokens = [token for _, tokens, _ in flat for token in tokens]
    kinds = np.array([kind for kind, _, _ in flat], np.uint8)
    failed = np.array([failed for _, _, failed in flat], np.bool_)
    return TokenizedTexts(
        ids=np.array([i for i, _ in tokens], np.uint32),
        lengths=np.array([len(own) for _, own, _ in flat], np.int64),
        kinds=kinds if kinds.any() else None,
        mask=np.array([trained for _, trained in tokens], np.uint8) if masks else None,
        ends=np.array([document.end for document in documents], np.bool_) if masks else None,
        failed=failed if failed.any() else None,
    )


def lists(documents: ShapedDocuments, *, masks: bool) -> list[list[Sequence]]:
    mask = documents.mask if masks else np.zeros(len(documents.tokens), np.uint8)
    assert mask is not None
    assert len(mask) == len(documents.tokens)
    tokens = list(zip(documents.tokens.tolist(), mask.tolist(), strict=True))
    ends = [0, *np.cumsum(documents.lengths).tolist()]
    sequences = [tokens[start:end] for start, end in pairwise(ends)]
    assert ends[-1] == len(tokens)
    borders = [0, *np.cumsum(documents.sizes).tolist()]
    assert borders[-1] == len(sequences)
    return [sequences[start:end] for start, end in pairwise(borders)]


IDS = st.integers(0, 5)
TOKENS = st.lists(st.tuples(IDS, st.integers(0, 1)), max_size=7)
FAILED = st.sampled_from([False] * 9 + [True])


@st.composite
def some_document(draw: st.DrawFn) -> Given:
    later = st.tuples(st.just(NEW_SEQUENCE), TOKENS, FAILED)
    first = (NEW_DOCUMENT, draw(TOKENS), draw(FAILED))
    rest = draw(st.one_of(st.just([]), st.lists(later, max_size=4)))
    return Given(texts=[first, *rest], end=draw(st.booleans()))


@st.composite
def some_rules(draw: st.DrawFn) -> DocumentRules:
    eod = draw(st.none() | IDS)
    least = draw(st.none() | st.integers(0, 6))
    return DocumentRules(
        dtype=draw(st.sampled_from(["uint16", "int32"])),
        bos=tuple(draw(st.lists(IDS, max_size=2))),
        eos=tuple(draw(st.lists(IDS, max_size=2))),
        eod=eod,
        empty_docs=draw(st.sampled_from(["index", "drop"] + ["eod"] * (eod is not None))),
        min_tokens=least,
        max_tokens=draw(st.none() | st.integers(max(1, least or 0), 9)),
        long_docs=draw(st.sampled_from(["filter", "split", "truncate"])),
        chat=draw(st.booleans()),
    )


@given(documents=st.lists(some_document(), max_size=6), rules=some_rules(), masks=st.booleans())
def test_documents_are_those_of_the_rules_on_lists(
    documents: list[Given], rules: DocumentRules, masks: bool
) -> None:
    if not masks:
        documents = [
            replace(one, texts=[(k, [(i, 0) for i, _ in own], f) for k, own, f in one.texts])
            for one in documents
        ]
        documents = [replace(one, end=False) for one in documents]
    shaped = shape_documents(texts_of(documents, masks=masks), rules)
    expected, tally = model(documents, rules)
    assert lists(shaped, masks=masks) == expected
    assert shaped.tally == tally
    assert (shaped.mask is None) is not masks
    assert shaped.tokens.dtype == np.dtype({"uint16": "<u2", "int32": "<i4"}[rules.dtype])


@pytest.mark.more
@given(documents=st.lists(some_document(), max_size=8), rules=some_rules(), place=st.integers(0, 8))
def test_batches_of_documents_do_not_matter(
    documents: list[Given], rules: DocumentRules, place: int
) -> None:
    whole = shape_documents(texts_of(documents, masks=True), rules)
    parts = [
        shape_documents(texts_of(some, masks=True), rules)
        for some in (documents[:place], documents[place:])
    ]
    together = [one for part in parts for one in lists(part, masks=True)]
    assert together == lists(whole, masks=True)
    assert sum((Counter(part.tally) for part in parts), Counter()) == Counter(whole.tally)


@pytest.mark.parametrize(
    ("dtype", "largest"), [("uint16", 2**16 - 1), ("int32", 2**31 - 1)], ids=str
)
def test_an_id_that_does_not_fit_is_an_error(dtype: Any, largest: int) -> None:
    ids = np.array([0, largest], np.uint32)
    assert cast_ids(ids, dtype).tolist() == [0, largest]
    with pytest.raises(ConversionError, match=rf"id {largest + 1} does not fit {dtype}"):
        cast_ids(ids + 1, dtype)
