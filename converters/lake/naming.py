"""Names of data sets: flat, safe as a file's name on any system, the same in every run."""

import hashlib
import re
from typing import Final

JOINT: Final = "--"
_ODD = re.compile(r"[^\w.+=@ -]")
_MOST_BYTES: Final = 120
_HASH: Final = 8
# Names that some file system or tool takes for something else.
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?|\.+|", re.IGNORECASE)
_ENDINGS = (".proposal", ".sample", ".json")


def name_of(*parts: str) -> str:
    """One name of several parts (folders, what tells data sets of one folder apart).

    Where nothing had to be changed the parts can be read from it; else it ends with a hash of them,
    so that different parts never give the same name.
    """
    plain = JOINT.join(parts)
    clean = _cut(re.sub(r"\s+", " ", _ODD.sub("_", plain)).strip(" .-"))
    faithful = clean == plain and not any(JOINT in part for part in parts)
    if faithful and not _RESERVED.fullmatch(clean) and not clean.lower().endswith(_ENDINGS):
        return clean
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
    return f"{clean or 'set'}-{digest[:_HASH]}"


def _cut(text: str) -> str:
    return text.encode("utf-8", "ignore")[:_MOST_BYTES].decode("utf-8", "ignore").strip(" .-")
