"""Some of the texts of a run, encoded by the reference too, while it runs.

About 3 % of an engine's time goes into it, more at the beginning. Which texts are taken follows
from the texts and their order alone. A text too long for what may be spent is compared in part.
"""

import zlib
from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingot.converters.megatron.engines.engine import Encoded, Engine, EngineWrongError
from ingot.converters.megatron.engines.results import differing, ends, offsets, text_bytes

_SHARE_OF_TIME: Final = 0.03
# How many times as fast as the reference an engine is taken to be where they were not raced.
_USUAL_RATIO: Final = 20.0
_AT_THE_BEGINNING: Final = 96 << 10
_MOST_SAVED: Final = 512 << 10
_LEAST_PART: Final = 2 << 10


def share(rates: Mapping[str, float], engine: str, reference: str) -> float:
    """The share of the text to be compared, so that it takes `_SHARE_OF_TIME`."""
    ratio = _USUAL_RATIO
    if rates.get(engine) and rates.get(reference):
        ratio = max(1.0, rates[engine] / rates[reference])
    return _SHARE_OF_TIME / ratio


class Sampler:
    """Compares; one per engine instance.

    Args:
        engine: the engine without what routes texts past it.
        reference: the reference.
        part: the share of the text to compare, 0 to 1.
    """

    def __init__(self, engine: Engine, reference: Engine, part: float) -> None:
        self._engine = engine
        self._reference = reference
        self._part = part
        self._saved = float(_AT_THE_BEGINNING)

    def check(
        self, texts: pa.LargeStringArray, encoded: Encoded, own: npt.NDArray[np.int64]
    ) -> None:
        """Compare some of a batch.

        Args:
            texts: the batch.
            encoded: what came of it.
            own: positions of the texts that the engine itself encoded.

        Raises:
            EngineWrongError: a text has other ids with the reference.
        """
        sizes = np.diff(offsets(texts))
        self._saved = min(self._saved + self._part * int(sizes.sum()), _MOST_SAVED)
        if not len(own):
            return
        order = np.random.default_rng(_seed(texts)).permutation(own)
        taken = order[np.cumsum(sizes[order]) <= self._saved]
        self._saved -= float(sizes[taken].sum())
        if len(taken):
            self._compare(texts, encoded, np.sort(taken))
        elif self._saved >= _LEAST_PART:
            self._compare_part(texts[int(order[0])].as_py()[: int(self._saved) // 4])

    def _compare(
        self, texts: pa.LargeStringArray, encoded: Encoded, taken: npt.NDArray[np.int64]
    ) -> None:
        some = texts.take(pa.array(taken))
        starts = ends(encoded.lengths)
        rows = [encoded.ids[starts[at] : starts[at + 1]] for at in taken.tolist()]
        found = Encoded(ids=np.concatenate(rows), lengths=encoded.lengths[taken])
        self._raise_first(some, found)

    def _compare_part(self, text: str) -> None:
        self._saved -= len(text.encode())
        some = pa.array([text], pa.large_string())
        found = self._engine.encode(some)
        if not found.failed:
            self._raise_first(some, found)

    def _raise_first(self, texts: pa.LargeStringArray, found: Encoded) -> None:
        wrong = differing(self._reference.encode(texts), found)
        if wrong:
            raise EngineWrongError(self._engine.name, texts[wrong[0]].as_py())


def _seed(texts: pa.LargeStringArray) -> int:
    """A number that follows from the texts, cheaply: from their lengths and their first bytes."""
    return zlib.crc32(
        text_bytes(texts)[:4096].tobytes(), zlib.crc32(np.diff(offsets(texts)).tobytes())
    )
