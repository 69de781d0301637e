"""What files are by their names and first bytes: auxiliary files, and formats that are not read."""

import re
from collections.abc import Sequence
from dataclasses import replace

from ingot.converters.sources.facts import LeftOut

LFS_POINTER = "a Git LFS pointer: the file itself was not fetched"
LFS_MAGIC = b"version https://git-lfs.github.com/spec/"
_READ_ME = r"readme|liesmich|lisez-?moi|l[eé]eme|leggimi|leia-?me|leesmij|czytaj.{0,5}|прочти|说明"
_NOTES = (
    rf"({_READ_ME}|licen[cs]e|copying|notice|citation|changelog|changes|authors|contributing"
    r"|contributors)(\..*)?"
)
_SIDE_FILE_NAMES = re.compile(
    rf"{_NOTES}|dataset_infos?\.json|dataset_dict\.json|state\.json|croissant\.json|datapackage\.json"
    r"|_success|_metadata|_common_metadata|thumbs\.db|desktop\.ini|cache-.*\.arrow"
    r"|(sample_?)?submission\.csv"
    r"|(md5|sha1|sha256)sums?(\.txt)?|requirements.*\.txt|makefile|dockerfile",
    re.IGNORECASE,
)
_SIDE_FILE = "auxiliary file"
_SIDE_FILE_KINDS = {
    "document": "md markdown rst",
    "style sheet": "css",
    "script": "py ipynb sh js ts r bat pl c cpp h java go rs",
    "settings": "yaml yml toml ini cfg lock",
    "checksum": "md5 sha1 sha256 crc",
    "shortcut": "url lnk webloc",
    "image": "png jpg jpeg gif bmp webp svg",
    "sound": "mp3 wav flac",
    "video": "mp4 avi mkv",
}
_KIND_OF_ENDING = {
    ending: kind for kind, endings in _SIDE_FILE_KINDS.items() for ending in endings.split()
}
# Notes by name (`authors.en.json`) that are data where nothing else is.
_DATA_IN_NOTES = re.compile(
    rf"(?=.*\.(jsonl?|ndjson|jsonlines|csv|tsv|parquet|arrow)(\.(gz|gzip|zst|zstd|bz2|xz))?$){_NOTES}",
    re.IGNORECASE,
)
# Texts that are notes or tools beside data, and all there is where there is nothing else.
DOCUMENTS = {
    **dict.fromkeys(("md", "markdown"), "a Markdown document"),
    "rst": "a reStructuredText document",
}
_CODE = "source code"
TEXT_ENDINGS = {
    **dict.fromkeys(_SIDE_FILE_KINDS["script"].split(), _CODE),
    **DOCUMENTS,
    **dict.fromkeys(("yaml", "yml"), "a YAML file"),
    "ipynb": "a Jupyter notebook",
}
UNREAD = ", which is not read"
UNREAD_HINT = (
    "convert them to JSON, CSV, Parquet, Arrow or text first; of a table its current version"
)
_UNREAD = re.compile(r"(.+), which is (?:not|never) read")
_UNREAD_KINDS = {
    "a PDF document": "pdf",
    "an Office document": "doc docx ppt pptx odt odp rtf",
    "an HTML page": "html htm",
    "an ORC file": "orc",
    "an Avro file": "avro",
}
_UNREAD_ENDINGS = {
    ending: kind + UNREAD for kind, endings in _UNREAD_KINDS.items() for ending in endings.split()
}
BINARY = "binary data"
EMPTY = "empty"
BLANK = ("blank", "blank at its beginning")
DAMAGED_HINT = "fetch or copy them again, or move them away"
_DATA_NAME = re.compile(
    r"\.(jsonl?|ndjson|jsonlines|[ct]sv|tab|psv|txt|xls[xm]?|ods|duckdb|sqlite3?|zip|tar|tgz|gz|gzip|zst|zstd|bz2|xz)$",
    re.IGNORECASE,
)
# What a file is by its first bytes. A magic of plain letters has a control byte behind it in a file
# of its format, and none in a text that begins with these letters.
_MAGIC = [
    (re.compile(pattern, re.DOTALL), kind)
    for pattern, kind in (
        (rb"\x89PNG", "a PNG image"),
        (rb"\xff\xd8\xff", "a JPEG image"),
        (rb"GIF8[79]a.{0,5}[\x00-\x08\x0e-\x1f]", "a GIF image"),
        (rb"\x7fELF|MZ.{0,12}[\x00-\x08\x0e-\x1f]", "a program"),
        (rb"%PDF-\d", "a PDF document, which is not read"),
        (rb"PK\x03\x04.{26}mimetypeapplication/epub", "an EPUB book, which is not read"),
        (rb"\x93NUMPY", "a NumPy array, which is not read"),
        (rb"\x89HDF", "an HDF5 file, which is not read"),
        (rb"Rar!\x1a", "a RAR archive, which is not read: unpack it"),
        (rb"7z\xbc\xaf", "a 7z archive, which is not read: unpack it"),
        (rb"ORC.{0,12}[\x00-\x08\x0e-\x1f]", "an ORC file, which is not read"),
        (rb"Obj\x01", "an Avro file, which is not read"),
        (rb"\x80[\x02-\x05]", "a pickle, which is never read"),
    )
]
# What is text, and is not read as lines unless `format` says so.
MARKUP = [
    (re.compile(pattern, re.IGNORECASE), kind)
    for pattern, kind in (
        (rb"(<!--.*?-->\s*)?(<!doctype html|<html)", "an HTML page"),
        (rb"<\?xml|<!doctype ", "an XML file"),
        (rb"WARC/[\d.]+\s", "a WARC archive"),
        (rb"From \S+ [^\n]*\d{4}\r?\n[\w-]+: ", "a mailbox (mbox)"),
        (rb"\{\\rtf\d", "an RTF document"),
        (rb'\{\s*"cells"\s*:\s*\[\s*\{[^{}]*"cell_type"\s*:', "a Jupyter notebook"),
    )
]


def side_file_reason(name: str) -> str | None:
    """Why a file of this name (relative to the source) is no data, or None where it may be."""
    *folders, base = name.split("/")
    hidden = {"__MACOSX", "__pycache__"}.intersection(folders)
    if hidden or any(part.startswith(".") for part in (base, *folders)):
        return "hidden"
    if _SIDE_FILE_NAMES.fullmatch(base):
        return _SIDE_FILE
    ending = file_ending(base)
    kind = _KIND_OF_ENDING.get(ending)
    return _UNREAD_ENDINGS.get(ending) if kind is None else f"auxiliary file ({kind})"


def file_ending(name: str) -> str:
    """The letters behind the last dot of a file's name, small; "" without one."""
    return name.rpartition("/")[2].rpartition(".")[2].lower() if "." in name else ""


def may_be_data_alone(name: str) -> bool:
    """Whether an auxiliary file is looked into where its folder or archive holds nothing else."""
    base = name.rpartition("/")[2]
    return bool(_DATA_IN_NOTES.fullmatch(base)) and side_file_reason(name) == _SIDE_FILE


def unread_format(why: str) -> str:
    """The format that is not read, of the reason for which a file is left out; "" of others."""
    found = _UNREAD.match(why)
    return found[1] if found else ""


def unread_texts(files: Sequence[LeftOut], *, code: bool = True) -> list[LeftOut]:
    """Documents, YAML files and code that are most of what lies there, as formats not read."""
    found = [
        replace(one, why=f"{kind}{UNREAD}")
        for one in files
        if one.why.startswith(f"{_SIDE_FILE} (")
        and (kind := TEXT_ENDINGS.get(file_ending(one.name)))
        and (code or kind != _CODE)
    ]
    most = 2 * sum(one.bytes for one in found) > sum(one.bytes for one in files)
    return found if most else []


def damaged_text(files: Sequence[LeftOut]) -> str:
    """The first files that are empty, or named as data and hold none, each with its reason."""
    found = [
        f"{one.name}: {one.why}"
        for one in files
        if one.why in (EMPTY, *BLANK, LFS_POINTER)
        or (one.why == BINARY and _DATA_NAME.search(one.name))
    ]
    return "; ".join(found[:3]) + (f"; and {len(found) - 3:,} more" if len(found) > 3 else "")


def unread_text(files: Sequence[LeftOut]) -> str:
    """The first of some files in formats that are not read, each with its format."""
    first = ", ".join(f"{one.name} is {unread_format(one.why)}" for one in files[:3])
    return first + (f", and {len(files) - 3:,} more" if len(files) > 3 else "")


def describe_magic(head: bytes) -> str | None:
    """What a file is whose first bytes say that it holds neither rows nor text; None for others."""
    return next((kind for magic, kind in _MAGIC if magic.match(head)), None)
