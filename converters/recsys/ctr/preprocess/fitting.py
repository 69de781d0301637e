"""Join what the pieces of the input hold as if they were one, and fit vocabularies on it."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.errors import ConversionError
from ingot.converters.output.files import encode_json, output_errors
from ingot.converters.output.identity import STATS
from ingot.converters.recsys.ctr.contract import SPLITS, TRAIN, VALID, ids_of
from ingot.converters.recsys.ctr.featuremap import FeatureMap
from ingot.converters.recsys.ctr.preprocess.encoder import (
    TOKENS,
    Encoder,
    EntityStore,
    vocabulary_entry,
)
from ingot.converters.recsys.ctr.preprocess.inputs import InputPiece, Order
from ingot.converters.recsys.ctr.preprocess.row_collector import (
    COMMON_SPOOL,
    REJECTS,
    SAMPLES,
    RejectLog,
    RowCounts,
    Rows,
    count_repeats,
    read_spool,
)
from ingot.converters.recsys.ctr.preprocess.token_kernels import count_weighted
from ingot.converters.recsys.ctr.preprocess.vocabulary import (
    Interner,
    Known,
    Vocabulary,
    fit_vocabularies,
    save_vocabulary,
    vocabulary_table,
)
from ingot.converters.recsys.ctr.table.table_cells import Reject
from ingot.converters.recsys.unseen_tokens import refuse_misfits
from ingot.converters.rows import Json

CODES: Final = "codes.npz"
VOCAB_FOLDER: Final = "vocab"
STORE: Final = "entities"
ARRAYS: Final = ("ids", "ranks", "priorities")  # of an encoder
_Vocabularies = dict[tuple[int, str], Vocabulary]


@dataclass(frozen=True)
class ScannedPiece:
    """A piece of the input, the folder of what was found in it, and what that says."""

    folder: Path
    piece: InputPiece
    document: dict[str, Json]


class JoinedPieces:
    """What pieces of the input hold together, with codes of their own; rejects go to a folder."""

    def __init__(self, featuremap: FeatureMap, folder: Path) -> None:
        self.counts = RowCounts(featuremap)
        self.rejects = RejectLog(folder)
        self.codes: list[tuple[NDArray[np.int32], NDArray[np.int32]]] = []
        self.shifts: list[int] = []  # of each piece: what is added to the numbers of its rows
        self._fields = len([src for src, _ in featuremap.sources if src == 1])
        self._common: list[tuple[Path, NDArray[np.int32]]] = []
        self._read: Counter[str] = Counter()

    def add(self, scanned: ScannedPiece) -> None:
        """Take the next piece."""
        folder, piece, document = scanned.folder, scanned.piece, scanned.document
        self.codes.append(self.counts.join(folder / CODES, document))
        self._common.append((folder / COMMON_SPOOL, self.codes[-1][0]))
        before = self._read[piece.role]
        self.shifts.append(before - piece.first)
        self._read[piece.role] += document["lines"]
        if (folder / REJECTS).exists():
            shift = 0 if piece.files else before  # rows of a table are numbered file by file
            lines = (folder / REJECTS).read_text("utf-8").split("\n")[:-1]
            found = [Reject(**json.loads(line)) for line in lines]
            shifted = [replace(one, row=one.row + shift) for one in found]
            self.rejects.note(shifted, common=piece.role == "common")

    def common_rows(self) -> Iterator[Rows]:
        """Yield the lines of common features."""
        for path, codes in self._common:
            for rows in read_spool(path, self._fields):
                tokens = tuple(replace(one, codes=codes[one.codes]) for one in rows.tokens)
                yield replace(rows, tokens=tokens)

    def count_common(self) -> None:
        """Count the tokens of common features, as often as rows have these."""
        self.counts.entities.settle()
        weights, first = self.counts.weights(), 0
        for rows in self.common_rows():
            parts = weights[:, first : first + len(rows.rows)]
            first += len(rows.rows)
            for one in rows.tokens:
                for split, part in enumerate(parts):
                    occurrences = self.counts.occurrences(split)
                    count_weighted(one.offsets, one.codes, part, occurrences)


def fit_pieces(
    order: Order, known: Known | None, scanned: Sequence[ScannedPiece], draft: Path
) -> dict[str, Json]:
    """Join pieces and fit on them; writes what rows are encoded with, and stats.json without it."""
    featuremap, joined = order.featuremap, JoinedPieces(order.featuremap, draft)
    for one in scanned:
        joined.add(one)
    joined.count_common()
    _check_rows(order, joined, known)
    places, vocabularies = _rank_tokens(featuremap, joined.counts, known)
    vocab_stats = _compare(order, joined.counts, vocabularies, known)
    joined.counts.tokens = Interner()  # its texts are in the vocabularies now
    encoders = {}
    for feature in featuremap.features:
        fitted = vocabularies[feature.source]
        ids = ids_of(feature, featuremap, fitted.texts, fitted.ranks)
        encoders[feature.name] = Encoder(feature, ids, fitted.ranks, fitted.priorities)
    _save_vocabularies(draft / VOCAB_FOLDER, vocabularies, encoders, known)
    lines = _encode_common(featuremap, joined, encoders, places, draft / STORE)
    for at, (tokens, entities) in enumerate(joined.codes):
        np.savez(draft / f"{at}.npz", places=places[tokens], lines=lines[entities])
    for feature in featuremap.of_src(0):
        for name, array in zip(ARRAYS, encoders[feature.name].arrays, strict=True):
            np.save(draft / f"{feature.name}.{name}.npy", array)
    repeated = count_repeats([one.folder / SAMPLES for one in scanned])
    stats = _stats(joined, vocab_stats, repeated)
    (draft / STATS).write_bytes(encode_json(stats, sort_keys=False))
    shared = (one.name for one in featuremap.of_src(1))
    features = {name: encoders[name].sums.to_document() for name in shared}
    return {"shifts": joined.shifts, "features": features}


def _save_vocabularies(
    folder: Path, vocabularies: _Vocabularies, encoders: dict[str, Encoder], known: Known | None
) -> None:
    """Save the vocabulary of each feature: the fitted one, or the one that was given."""
    with output_errors(folder):
        folder.mkdir()
    for name, encoder in encoders.items():
        if known is None:
            table = vocabulary_table(vocabularies[encoder.feature.source], encoder.arrays[0])
        else:
            table = known.tables[name]
        save_vocabulary(folder / f"{name}.parquet", table)


def _check_rows(order: Order, joined: JoinedPieces, known: Known | None) -> None:
    counts, rejects = joined.counts, joined.rejects
    if not sum(counts.rows):
        if not counts.read:
            raise ConversionError(order.where, "the files hold no row", "are they the right files?")
        named = (f"{reason} {count}" for reason, count in rejects.rows.most_common(3))
        reasons = ", ".join(named) or "the funnel policy dropped all"
        problem = f"no row is left of {counts.read} read: {reasons}{rejects.first_lines()}"
        raise ConversionError(order.where, problem)
    if known is None and not counts.rows[TRAIN]:
        problem = "no row is in the train split, and vocabularies are fitted on it"
        hint = "raise `train_fraction`, or give a `vocab` folder"
        raise ConversionError(order.where, problem, hint)


def _rank_tokens(
    featuremap: FeatureMap, counts: RowCounts, known: Known | None
) -> tuple[NDArray[np.uint32], _Vocabularies]:
    """Rank the tokens of all rows; gives the place of each in its vocabulary."""
    saved = None
    if known is not None:
        by_feature = {one.source: one.name for one in reversed(featuremap.features)}
        saved = [known.tables[by_feature[source]] for source in featuremap.sources]
    train, valid = map(counts.occurrences, (TRAIN, VALID))
    new, fields = valid if known is None else train + valid, len(featuremap.sources)
    places, vocabularies = fit_vocabularies(counts.tokens, train, fields, saved, new)
    return places, dict(zip(featuremap.sources, vocabularies, strict=True))


def _compare(
    order: Order, counts: RowCounts, vocabularies: _Vocabularies, known: Known | None
) -> dict[str, dict[str, int]]:
    """See that the rows are like those of the vocabularies that another build made."""
    rows, problems, stats = sum(counts.rows), {}, {}
    for one in order.featuremap.features:
        vocabulary, more = vocabularies[one.source], dict[str, int]()
        if known is not None:
            more, problems[one.name] = known.compare(one, vocabulary, rows, counts.kinds)
        stats[one.name] = vocabulary_entry(one, vocabulary) | more
    if known is not None and not known.accept:
        refuse_misfits(order.where, problems)
    return stats


def _encode_common(
    featuremap: FeatureMap,
    joined: JoinedPieces,
    encoders: dict[str, Encoder],
    places: NDArray[np.uint32],
    folder: Path,
) -> NDArray[np.int64]:
    """Encode the common features into a folder; gives the line of each entity."""
    shared, sources = featuremap.of_src(1), [one for one in featuremap.sources if one[0] == 1]
    fields = [(encoders[one.name], sources.index(one.source)) for one in shared]
    with closing(EntityStore(folder, shared)) as store:
        return store.fill(fields, joined.counts, joined.common_rows(), places)


def _stats(
    joined: JoinedPieces, vocab: dict[str, dict[str, int]], repeated: int | None
) -> dict[str, Json]:
    """What stats.json says of all but the encoded rows."""
    counts, rejects = joined.counts, joined.rejects
    return {
        "rows": {
            "read": counts.read,
            **dict(zip(SPLITS, counts.rows, strict=True)),
            "rejected": rejects.rows.total(),
            "dropped": counts.dropped,
        },
        "rejects": dict(sorted(rejects.rows.items())),
        "common_rejects": dict(sorted(rejects.common.items())),
        "entities": counts.entity_counts(),
        "tokens": {name: counts.counts[name] for name in TOKENS},
        "samples": {"repeated": repeated},
        "splits": {},
        "vocab": vocab,
        "columns": dict(sorted(counts.kinds.items())),
    }
