"""The registry of recognizers: raw data that a target reads itself, recognized by its content."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ingot.converters.sources.recognizers.aliccp import ALICCP_HEAD, recognize_aliccp
from ingot.converters.sources.recognizers.criteo import CRITEO_HEAD, recognize_criteo
from ingot.converters.sources.recognizers.monolith import (
    MONOLITH_HEAD,
    MONOLITH_STREAM,
    recognize_monolith,
)


@dataclass(frozen=True, kw_only=True)
class Recognizer:
    """How raw data of one kind is recognized.

    Attributes:
        recognize: what it is by its beginning; None for any other file.
        binary: it is not text: no reader takes it, and the file is left out with `what` as reason.
    """

    what: str
    head_bytes: int
    recognize: Callable[[bytes], object | None]
    binary: bool = False


RECOGNIZERS: Final[dict[str, Recognizer]] = {
    "aliccp": Recognizer(
        what="a raw file of Ali-CCP", head_bytes=ALICCP_HEAD, recognize=recognize_aliccp
    ),
    "criteo": Recognizer(
        what="a raw Criteo log", head_bytes=CRITEO_HEAD, recognize=recognize_criteo
    ),
    "monolith": Recognizer(
        what=MONOLITH_STREAM, head_bytes=MONOLITH_HEAD, recognize=recognize_monolith, binary=True
    ),
}
