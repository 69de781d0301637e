"""What a mapping leaves behind: files that give nothing, text that reaches no record, media."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ingot.converters.mapping.rows.executor import Record
from ingot.converters.rows import Json
from ingot.converters.sources.profile import pick_evenly

FEWEST_ROWS = 3  # of a file that is expected to give a record
_ROWS = 60  # rows whose texts are looked at
_RUNNING = 20  # characters of a text that may be worth training on
_MEDIA_KINDS = re.compile(r"(?:input_)?(?:image|audio|video)(?:_url|_file)?")
_MEDIA_MARK = re.compile(
    r"<\|?(?:image|audio|video|img)(?:_pad|_\d+)?\|?>|!\[[^\]\n]{0,80}\]\((?:(?!!\[[^\]\n]{0,80}\]\()[^)\s])++\)"
)
_MEDIA_FILE = re.compile(
    r"^\S+\.(?:jpe?g|png|gif|webp|bmp|tiff?|wav|mp3|flac|ogg|m4a|mp4|avi|mov|webm|mkv)(?:\?\S*)?$"
    r"|^data:(?:image|audio|video)/",
    re.IGNORECASE | re.MULTILINE,
)
_DECORATION = re.compile(r"avatar|icon|logo|thumb|profile|badge|头像|アイコン", re.IGNORECASE)
_LONGEST_REFERENCE = 500  # characters of a path or an address; data are cut there
_CAPTION = 200  # characters of a document that may be nothing but what an image or an audio says


@dataclass(frozen=True, kw_only=True, slots=True)
class Loss:
    """What does not reach the records of a sample."""

    files: tuple[tuple[str, int, int], ...] = ()  # with their sampled rows, and records of these
    text_chars: int = 0  # of the longer texts in the sampled rows, each text once
    media_rows: int = 0  # with an image, audio or video beside their texts, or named in them
    looked_at: int = 0  # rows among which they were counted

    @property
    def silent_files(self) -> tuple[tuple[str, int], ...]:
        """Files of which no row gives a record, where others give some, with their rows."""
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
    some = list(pick_evenly(examples, _ROWS))
    told = [_holds_media(row, record) or _names_media(record) for row, record in some]
    if 2 * sum(_is_caption(*example) for example in some) > len(some):  # else short articles
        told = [one or _is_caption(*example) for one, example in zip(told, some, strict=True)]
    return Loss(
        files=tuple((file, count, records[file]) for file, count in rows.items()),
        text_chars=sum(map(len, set(_texts(values)))),
        media_rows=sum(told),
        looked_at=len(some),
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


def _holds_media(value: Json, record: Record) -> bool:
    """Whether an image, an audio or a video stands in a row, beside a conversation in any field."""
    found = _references(value, texts="messages" in record)
    return any(isinstance(one, dict) or _MEDIA_FILE.search(one) for one in found)


def _is_caption(value: Json, record: Record) -> bool:
    """Whether a short document stands beside an image, an audio or a video."""
    short = 0 < len(record.get("text", "")) < _CAPTION
    flat = (
        [one for one in value.values() if isinstance(one, str)] if isinstance(value, dict) else []
    )
    return short and any(map(_MEDIA_FILE.search, _references(flat, texts=True)))


def _references(value: Json, *, texts: bool) -> Iterator[Json]:
    """The blocks of a row that are media by their type; single words that may name a file."""
    looked_into = (dict, list, str) if texts else (dict, list)
    waiting: list[tuple[str, Json]] = [("", value)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict):
            kind = value.get("type")
            if isinstance(kind, str) and _MEDIA_KINDS.fullmatch(kind) and len(value) > 1:
                yield value
            waiting += [one for one in value.items() if one[1].__class__ in looked_into]
        elif isinstance(value, list):
            waiting += [(name, inside) for inside in value if inside.__class__ in looked_into]
        elif isinstance(value, str):
            words = value[:_LONGEST_REFERENCE].split(maxsplit=1)
            if len(words) == 1 and not _DECORATION.search(name):
                yield words[0]


def _names_media(record: Record) -> bool:
    """Whether the texts of a conversation point to an image, an audio or a video."""
    said = [message["content"][:4000] for message in record.get("messages", ())]
    return any(_MEDIA_MARK.search(text) or _MEDIA_FILE.search(text) for text in said)
