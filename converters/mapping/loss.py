"""What a mapping leaves behind: files that give nothing, text that reaches no record, media."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from ingot.converters.json_yaml import OMIT
from ingot.converters.mapping.rows.executor import Record
from ingot.converters.mapping.signs import is_media_name
from ingot.converters.rows import Json

FEWEST_ROWS = 3  # of a file that is expected to give a record
_RUNNING = 20  # characters of a text that may be worth training on
_CAPTION = 200  # characters of a document that may be nothing but what an image or an audio says


@dataclass(frozen=True, kw_only=True, slots=True)
class Loss:
    """What does not reach the records of a sample."""

    files: tuple[tuple[str, int, int], ...] = ()  # with their sampled rows, and records of these
    text_chars: int = 0  # of the longer texts in the sampled rows, each text once
    captions: Annotated[int, OMIT] = (
        0  # rows of a short text beside an image, audio or video, where most are so
    )

    @property
    def silent_files(self) -> tuple[tuple[str, int], ...]:
        """Return files of which no row gives a record, where others give some, with their rows."""
        if not any(records for _, _, records in self.files):
            return ()
        return tuple((f, rows) for f, rows, made in self.files if rows >= FEWEST_ROWS and not made)


NO_LOSS = Loss()


def measure_loss(
    rows: dict[str, int],
    records: Counter[str],
    examples: Sequence[tuple[Json, Record]],
    values: Sequence[Json],
) -> Loss:
    """Measure what is left behind of sampled values; `rows` and `records` count them by file."""
    captions = sum(_is_caption(*example) for example in examples)
    return Loss(
        files=tuple((file, count, records[file]) for file, count in rows.items()),
        text_chars=sum(map(len, set(_texts(values)))),
        captions=captions if 2 * captions > len(examples) else 0,  # else short articles
    )


def _texts(values: Sequence[Json]) -> Iterator[str]:
    """The longer texts in some values, in no order."""
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if value.__class__ is str:
            if len(value) >= _RUNNING and (" " in value or not value.isascii()):
                yield value
        elif value.__class__ is dict:
            waiting += value.values()
        elif value.__class__ is list:
            waiting += value


def _is_caption(value: Json, record: Record) -> bool:
    """Whether a short document stands beside an image, an audio or a video."""
    short = 0 < len(record.get("text", "")) < _CAPTION
    return (
        short
        and isinstance(value, dict)
        and any(is_media_name("", one) for one in value.values() if isinstance(one, str))
    )
