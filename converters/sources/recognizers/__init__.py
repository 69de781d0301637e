"""The registry of recognizers: raw data that a target reads itself, recognized by its content."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ingot.converters.sources.recognizers.criteo import CRITEO_HEAD, recognize_criteo
from ingot.converters.sources.recognizers.monolith import (
    MONOLITH_HEAD,
    MONOLITH_STREAM,
    recognize_monolith,
)

# Ali-CCP has no header: `sample_id,click,purchase,common_feature_index,feature_num,feature_list` in
# the skeleton, `common_feature_index,feature_num,feature_list` in the common features. A list holds
# tokens `field \x02 id \x03 value`, joined by `\x01`.
SKELETON: Final = "skeleton"
COMMON: Final = "common"
ALICCP_HEAD: Final = 64 << 10
"""Bytes that are enough to judge a file by."""
_LINES = 200
_SHARE = 0.8  # of the lines: some have no tokens, or broken ones
_TOKEN = rb"[^\x01\x02\x03,\n]+\x02[^\x01\x03\n]*\x03[^\x01\n]+"
_KINDS: Final = {
    SKELETON: re.compile(rb"[^,\x01-\x03]*,[01],[01],[^,\x01-\x03]*,\d+," + _TOKEN),
    COMMON: re.compile(rb"[^,\x01-\x03]+,\d+," + _TOKEN),
}


def recognize_aliccp(head: bytes) -> str | None:
    """Which raw file of Ali-CCP begins so, None for any other file."""
    lines = [line for line in head.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip()]
    judged = lines[:-1] if len(lines) > 1 else lines
    return next((kind for kind in _KINDS if _is_aliccp_kind(kind, judged[:_LINES])), None)


def _is_aliccp_kind(kind: str, lines: Sequence[bytes]) -> bool:
    held = sum(bool(_KINDS[kind].match(line)) for line in lines)
    return held > 0 and held >= _SHARE * len(lines)


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
