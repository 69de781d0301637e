"""Where a file of a lake belongs: its folder, less what only divides one data set into parts."""

import re
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Final

from ingot.converters.errors import SourceError
from ingot.converters.readers.faults import reading
from ingot.converters.readers.storage import Entry, stem

TOP: Final = "."
_SPLITS = "train(ing)?|dev(elopment)?|test(ing)?|valid(ation)?|val|eval(uation)?"
_DATE = r"\d{4}[-_.]\d{2}([-_.]\d{2})?([-_T]\d{2}.*)?|(19|20)\d{6}"
# What divides a data set, wherever it stands below the root ...
_PART = re.compile(rf"({_SPLITS}|data|[^=]+=.*|{_DATE})", re.IGNORECASE)
# ... and what does below a folder of its own: in the root these may be the data sets' names.
_INNER_PART = re.compile(
    r"(default|shards?|parts?|\d{1,6}|(part|shard|chunk|split|batch|bucket|fold)s?[-_]?\d+.*)",
    re.IGNORECASE,
)
_CARDS = re.compile(
    r"dataset_infos?\.json|dataset_card\.\w+|croissant\.json|datapackage\.json", re.IGNORECASE
)
_README = re.compile(r"readme(\.md|\.markdown)?", re.IGNORECASE)
_FRONT = re.compile(rb"(\xef\xbb\xbf)?---[ \t]*\r?\n")
_WORDS = re.compile(rf"(?<![a-z])({_SPLITS}|part|shard|chunk|of)(?![a-z])|\d+", re.IGNORECASE)
_EDGES = " -_.,~+"


def is_card(entry: Entry) -> bool:
    """Whether a file says by name that it describes a data set."""
    base = entry.name.rpartition("/")[2]
    return bool(_CARDS.fullmatch(base) or _README.fullmatch(base))


def carded(entries: Iterable[Entry]) -> frozenset[str]:
    """The folders below the root that a card makes one data set.

    A README does so if it begins with front matter; one that cannot be read does not.
    """
    found = set()
    for entry in entries:
        folder, _, base = entry.name.rpartition("/")
        if folder and is_card(entry) and (_CARDS.fullmatch(base) or _has_front_matter(entry)):
            found.add(folder)
    return frozenset(found)


def _has_front_matter(entry: Entry) -> bool:
    try:
        with entry.place.open() as raw, reading(str(entry.place)):
            return bool(_FRONT.match(raw.read(64)))
    except SourceError:
        return False


def place_of(name: str, carded: frozenset[str]) -> str:
    """The place of a file: the nearest folder with a card, else its folder less its parts.

    Args:
        name: of the file, relative to the root, with `/`.
        carded: see there.
    """
    folders = name.split("/")[:-1]
    for depth in range(len(folders), 0, -1):
        if "/".join(folders[:depth]) in carded:
            return "/".join(folders[:depth])
    while folders and _divides(folders):
        folders.pop()
    return "/".join(folders) or TOP


def _divides(folders: Sequence[str]) -> bool:
    last = folders[-1]
    return bool(_PART.fullmatch(last) or (len(folders) > 1 and _INNER_PART.fullmatch(last)))


def common_stem(names: Sequence[str]) -> str:
    """What the names of files have in common, without numbers, splits and endings; "" = nothing."""
    stems = sorted(_bare(name) for name in names)
    pairs = zip(stems[0], stems[-1], strict=False)  # what these share, all share
    return "".join(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)).strip(_EDGES)


def _bare(name: str) -> str:
    return re.sub(r"[-_.]{2,}", "-", _WORDS.sub("", stem(name))).strip(_EDGES)
