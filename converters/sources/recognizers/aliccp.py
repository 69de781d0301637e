r"""Raw files of Ali-CCP, told by the beginning of their content and never by their names.

Lines have no header: `sample_id,click,purchase,common_feature_index,feature_num,feature_list` in
the skeleton, `common_feature_index,feature_num,feature_list` in the common features. A list holds
tokens `field \x02 id \x03 value`, joined by `\x01`.
"""

import re
from collections.abc import Sequence
from typing import Final

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
    """Return which raw file of Ali-CCP begins so, None for any other file."""
    lines = [line for line in head.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip()]
    judged = lines[:-1] if len(lines) > 1 else lines
    return next((kind for kind in _KINDS if _is_aliccp_kind(kind, judged[:_LINES])), None)


def _is_aliccp_kind(kind: str, lines: Sequence[bytes]) -> bool:
    hits = sum(bool(_KINDS[kind].match(line)) for line in lines)
    return hits > 0 and hits >= _SHARE * len(lines)
