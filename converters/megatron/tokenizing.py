"""A shard through an engine: ids, loss masks, documents as they are written, rejects."""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingot.converters.megatron.chats.masks import Mask, Masker
from ingot.converters.megatron.cutting.skipping import without_skipped
from ingot.converters.megatron.engines.engine import Encoded, Engine
from ingot.converters.megatron.shaping import NEW_DOCUMENT, Rules, Texts, shape
from ingot.converters.megatron.shards import Shard, rejected
from ingot.converters.megatron.writing import Tokenized

NOT_TOKENIZED: Final = "not_tokenized"


def untouched(shard: Shard) -> Tokenized:
    """A shard without texts."""
    return Tokenized(shard=shard, rejects=shard.rejects, tally=shard.tally)


def tokenize(
    shard: Shard, file: str, engine: Engine, masker: Masker | None, rules: Rules
) -> Tokenized:
    """Tokenize a shard.

    Args:
        shard: with texts.
        file: name of the file, for rejects.
        engine: tokenizes.
        masker: makes loss masks; None = none are wanted.
        rules: of documents.
    """
    encoded = engine.encode(shard.texts)
    mask = _mask(shard, encoded, masker, engine.name)
    if shard.skips is not None:
        encoded, mask = without_skipped(encoded, mask, shard.skips)
    sizes = _sizes(shard, encoded)
    failed = tuple(
        rejected(file, int(shard.rows[place]), NOT_TOKENIZED, problem)
        for place, problem in encoded.failed
    )
    if shard.long:
        return Tokenized(
            shard=shard,
            encoded=encoded,
            rejects=shard.rejects,
            failed=failed,
            tally={**shard.tally, **sizes},
            tokens=len(encoded.ids),
            engine=engine.name,
        )
    documents = shape(_texts(shard, encoded, mask), rules)
    once = tuple({reject.row: reject for reject in reversed(failed)}.values())[::-1]
    return Tokenized(
        shard=shard,
        documents=documents,
        rejects=tuple(sorted((*shard.rejects, *once), key=lambda reject: reject.row)),
        tally={
            **shard.tally,
            **sizes,
            "rejected": shard.tally.get("rejected", 0) + len(once),
        },
        tokens=len(documents.tokens),
        engine=engine.name,
    )


def _sizes(shard: Shard, encoded: Encoded) -> dict[str, int]:
    """Characters and bytes of the texts that were tokenized."""
    good = shard.texts
    if encoded.failed:
        kept = np.ones(len(good), np.bool_)
        kept[[place for place, _ in encoded.failed]] = False
        good = good.filter(pa.array(kept))
    return {
        "characters": pc.sum(pc.utf8_length(good)).as_py() or 0,
        "text_bytes": pc.sum(pc.binary_length(good)).as_py() or 0,
    }


def _mask(shard: Shard, encoded: Encoded, masker: Masker | None, engine: str) -> Mask | None:
    if masker is None or shard.spans is None:
        return None
    return masker.mask(shard.texts.to_pylist(), shard.spans, encoded, engine=engine)


def _texts(shard: Shard, encoded: Encoded, mask: Mask | None) -> Texts:
    failed = None
    if encoded.failed:
        failed = np.zeros(len(shard.texts), np.bool_)
        failed[[place for place, _ in encoded.failed]] = True
    return Texts(
        ids=encoded.ids,
        lengths=encoded.lengths,
        kinds=shard.kinds,
        mask=mask,
        ends=None if mask is None else _trained_ends(shard.texts.to_pylist(), shard),
        failed=failed,
    )


def _trained_ends(texts: list[str], shard: Shard) -> npt.NDArray[np.bool_]:
    """Per conversation, whether nothing but white space follows what is trained on."""
    assert shard.spans is not None
    ends = np.array(
        [
            any(span.trained and not text[span.end :].strip() for span in spans)
            for text, spans in zip(texts, shard.spans, strict=True)
        ],
        np.bool_,
    )
    if shard.kinds is None:
        return ends
    last = np.append(shard.kinds[1:] == NEW_DOCUMENT, True)
    closing: npt.NDArray[np.bool_] = ends[last]
    return closing
