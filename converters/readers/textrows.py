"""Rows of a text file: `{"text": line}` for every line that is not blank, or the whole file."""

from collections.abc import Iterator

from ingot.converters.readers.lines import line_blocks
from ingot.converters.readers.stretch import MAX_ROW_BYTES, Broken, Stretch, found
from ingot.converters.rows import Json

_NOT_TEXT = "bytes that are no text in the file's encoding"


def text_lines(parts: Iterator[bytes]) -> Iterator[Stretch]:
    """One row per line that is not blank, without its line end."""
    for lines in line_blocks(parts):
        yield Stretch(values=[_row(line) for line in lines if line is None or line.strip()])


def _row(line: bytes | None) -> Json:
    if line is None:
        return Broken(f"line of more than {MAX_ROW_BYTES >> 20} MiB", "")
    return _text(line.removesuffix(b"\r"))


def _text(data: bytes) -> Json:
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError as error:
        return Broken(f"{_NOT_TEXT}, at byte {error.start}", found(data))


def whole_text(parts: Iterator[bytes], stem: str) -> Iterator[Stretch]:
    """The whole file as one row with the key `stem`; a blank file has no row."""
    data: list[bytes] = []
    size = 0
    for part in parts:
        size += len(part)
        if size > MAX_ROW_BYTES:
            problem = f"file of more than {MAX_ROW_BYTES >> 20} MiB as one row"
            yield Stretch(values=[Broken(problem, found(data[0]))], keys=[stem])
            return
        data.append(part)
    whole = b"".join(data)
    if whole.strip():
        yield Stretch(values=[_text(whole)], keys=[stem])
