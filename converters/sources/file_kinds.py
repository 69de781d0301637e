"""What files are by their names and first bytes: auxiliary files, and formats that are not read."""

import re
from collections.abc import Iterable, Sequence

from ingot.converters.sources.documents import kinds
from ingot.converters.sources.facts import LeftKind, LeftOut, NoData

LFS_POINTER = NoData("a Git LFS pointer: the file itself was not fetched", "unfetched")
LFS_MAGIC = b"version https://git-lfs.github.com/spec/"
_READ_ME = r"readme|liesmich|lisez-?moi|l[eé]eme|leggimi|leia-?me|leesmij|czytaj.{0,5}|прочти|说明"
_READ_MES = re.compile(rf"({_READ_ME})(\..*)?", re.IGNORECASE)
_NOTES = (
    rf"({_READ_ME}|licen[cs]e|copying|notice|citation|changelog|changes|authors|contributing"
    r"|contributors)(\..*)?"
)
_LOCKS = r"(package|tsconfig|composer)\.json|(package-lock|npm-shrinkwrap)\.json|go\.(mod|sum)"
_SIDE_FILE_NAMES = re.compile(
    rf"{_NOTES}|{_LOCKS}|dataset_infos?\.json|dataset_dict\.json|state\.json|croissant\.json|datapackage\.json"
    r"|_success|_metadata|_common_metadata|thumbs\.db|desktop\.ini|cache-.*\.arrow"
    r"|(sample_?)?submission\.csv"
    r"|(md5|sha1|sha256)sums?(\.txt)?|requirements.*\.txt|makefile|dockerfile",
    re.IGNORECASE,
)
_SIDE_FILE = NoData("auxiliary file", "note")
_HIDDEN_FILE = NoData("hidden", "hidden")
_SIDE_FILE_KINDS = {
    "document": " ".join(kinds.PROSE_ENDINGS),
    "style sheet": "css",
    "script": " ".join({"ipynb", *kinds.CODE_ENDINGS}),
    "settings": "yaml yml toml ini cfg lock",
    "checksum": "md5 sha1 sha256 crc",
    "shortcut": "url lnk webloc",
    "image": "png jpg jpeg gif bmp webp svg tif tiff heic",
    "sound": "mp3 wav flac ogg opus m4a",
    "video": "mp4 avi mkv mov webm",
}
_MEDIA = {"image": "an image", "sound": "a sound", "video": "a video"}
_LEFT_KINDS: dict[str, LeftKind] = {"document": "prose", **dict.fromkeys(_MEDIA, "media")}
_SIDE_FILE_ENDINGS = {
    ending: NoData(
        f"auxiliary file ({name})",
        _LEFT_KINDS.get(name, "aside"),
        form=name if name in _MEDIA else "",
        form_text=_MEDIA.get(name, ""),
    )
    for name, endings in _SIDE_FILE_KINDS.items()
    for ending in endings.split()
}
# Notes by name (`authors.en.json`) that are data where nothing else is.
_DATA_IN_NOTES = re.compile(
    rf"(?=.*\.(jsonl?|ndjson|jsonlines|csv|tsv|parquet|arrow)(\.(gz|gzip|zst|zstd|bz2|xz))?$){_NOTES}",
    re.IGNORECASE,
)
# Formats that are not read and have advice.
UNREAD = {
    form: NoData.unread(text, form=form)
    for form, text in (
        ("pdf", "a PDF document"),
        ("office", "an Office document"),
        ("epub", "an EPUB book"),
        ("rtf", "an RTF document"),
        (kinds.HTML, "an HTML page"),
        ("numpy", "a NumPy array"),
        ("hdf5", "an HDF5 file"),
    )
}
_UNREAD_ENDINGS = {
    ending: UNREAD[form]
    for form, endings in (
        ("pdf", "pdf"),
        ("office", "doc docx ppt pptx odt odp rtf"),
        (kinds.HTML, "html htm xhtml"),
    )
    for ending in endings.split()
}
BINARY = NoData("binary data", "binary")
DAMAGED_HINT = "fetch or copy them again, or move them away"
_DATA_NAME = re.compile(
    r"\.(jsonl?|ndjson|jsonlines|[ct]sv|tab|psv|txt|xls[xm]?|ods|duckdb|sqlite3?|zip|tar|tgz|gz|gzip|zst|zstd|bz2|xz)$",
    re.IGNORECASE,
)


def _media(why: str, form: str) -> NoData:
    return NoData(why, "media", form, form_text=_MEDIA[form])


# What a file is by its first bytes. A magic of plain letters has a control byte behind it in a file
# of its format, and none in a text that begins with these letters.
_MAGIC = [
    (re.compile(pattern, re.DOTALL), advice)
    for pattern, advice in (
        (rb"\x89PNG", _media("a PNG image", "image")),
        (rb"\xff\xd8\xff", _media("a JPEG image", "image")),
        (rb"GIF8[79]a.{0,5}[\x00-\x08\x0e-\x1f]", _media("a GIF image", "image")),
        (rb"\x7fELF|MZ.{0,12}[\x00-\x08\x0e-\x1f]", NoData("a program", "binary")),
        (rb"RIFF.{4}WEBP", _media("a WebP image", "image")),
        (rb"BM.{4}\x00{4}", _media("a BMP image", "image")),
        (rb"II\*\x00|MM\x00\*", _media("a TIFF image", "image")),
        (rb"RIFF.{4}WAVE|ID3[\x02-\x04]|fLaC\x00|OggS\x00", _media("a sound", "sound")),
        (rb".{4}ftyp|RIFF.{4}AVI |\x1aE\xdf\xa3", _media("a video", "video")),
        (rb"%PDF-\d", UNREAD["pdf"]),
        (rb"PK\x03\x04.{26}mimetypeapplication/epub", UNREAD["epub"]),
        (rb"\x93NUMPY", UNREAD["numpy"]),
        (rb"\x89HDF", UNREAD["hdf5"]),
        (rb"Rar!\x1a", NoData.unread("a RAR archive", ": unpack it")),
        (rb"7z\xbc\xaf", NoData.unread("a 7z archive", ": unpack it")),
        (
            rb"\x80[\x02-\x05]|\([dl]p\d\n|c[a-z_][\w.]{0,60}\n\w{1,60}\np\d\n",
            NoData("a pickle, which is never read", "unread", "pickle", form_text="a pickle"),
        ),
    )
]
_ANY_MAGIC = re.compile(b"|".join(magic.pattern for magic, _ in _MAGIC), re.DOTALL)
# What is text, and is not read as lines unless `format` says so.
MARKUP = [
    (re.compile(pattern, re.IGNORECASE), verdict)
    for pattern, verdict in (
        (rb"(<!--.*?-->\s*)?(<!doctype html|<html)", UNREAD[kinds.HTML]),
        (rb"<\?xml", UNREAD[kinds.HTML]),  # any other XML is read
        (rb"<!doctype ", NoData.unread("an SGML file")),
        (rb"\{\\rtf\d", UNREAD["rtf"]),
        (
            rb'\{\s*"cells"\s*:\s*\[\s*\{[^{}]*"cell_type"\s*:',
            NoData.unread("a Jupyter notebook"),
        ),
    )
]


_HIDDEN = frozenset({"__MACOSX", "__pycache__"})


def side_file_reason(name: str) -> NoData | None:
    """Return why a file of this name (in the source) cannot be data, None if it can be."""
    *folders, base = name.split("/")
    if name.startswith(".") or "/." in name or not _HIDDEN.isdisjoint(folders):
        return _HIDDEN_FILE
    document = base.removesuffix(".jsonl")  # of which it may be the row, as `README.md.jsonl`
    if _SIDE_FILE_NAMES.fullmatch(base) and (document == base or not kinds.kind_by_name(document)):
        return _SIDE_FILE
    ending = file_ending(base)
    return _SIDE_FILE_ENDINGS.get(ending) or _UNREAD_ENDINGS.get(ending)


_LICENCES = re.compile(
    rf"(licen[cs]es?|copying|notice|unlicense)([.-].*)?|.*\.(lock|sum)|{_LOCKS}", re.IGNORECASE
)
_STRUCTURED = re.compile(r"(nd)?json(l|lines)?|[ct]sv|tab|psv|parquet|arrow|feather")


def not_a_document(name: str) -> NoData | None:
    """Return why a file of this name is not a document of its folder, None if it can be."""
    base, verdict = kinds.bare_name(name), side_file_reason(name)
    if (verdict and verdict.kind == "hidden") or _LICENCES.fullmatch(base):
        return verdict or _SIDE_FILE
    if _STRUCTURED.fullmatch(file_ending(base)):
        return NoData("data, and no document")
    known = kinds.kind_by_name(base) or _READ_MES.fullmatch(base)
    return verdict if verdict and not known else None


def file_ending(name: str) -> str:
    """Return the letters behind the last dot of a file's name, small; "" without one."""
    return name.rpartition("/")[2].rpartition(".")[2].lower() if "." in name else ""


def may_be_data_alone(name: str) -> bool:
    """Return whether an auxiliary file is read if its folder or archive holds nothing else."""
    base = name.rpartition("/")[2]
    if file_ending(base) in ("toml", "yaml", "yml"):  # where they look like records
        return side_file_reason(name) is not None and not base.startswith(".")
    return bool(_DATA_IN_NOTES.fullmatch(base)) and side_file_reason(name) == _SIDE_FILE


def blank_verdict(*, whole: bool) -> NoData:
    """Return the verdict on a file without a sign, or whose beginning has none."""
    return NoData("blank" if whole else "blank at its beginning", "empty")


def damaged_text(files: Sequence[LeftOut]) -> str:
    """Return the first files that are empty, or named as data and hold none, with reasons."""
    lines = [
        f"{file.name}: {file.why}"
        for file in files
        if file.kind in ("empty", "unfetched", "binary")
    ]
    return "; ".join(lines[:3]) + (f"; and {len(lines) - 3:,} more" if len(lines) > 3 else "")


def unread_text(files: Sequence[LeftOut]) -> str:
    """Return the first of some files in formats that are not read, each with its format."""
    first = ", ".join(f"{file.name} is {file.form_text or file.why}" for file in files[:3])
    return first + (f", and {len(files) - 3:,} more" if len(files) > 3 else "")


FEWEST_CODE = 20  # files; fewer are tools beside data
_FEWEST_BESIDE_TEXT = 4  # documents
_TIMES_TEXT = 4  # of the bytes of plain text
_TIMES_OBJECT = 20  # of those of JSON objects: a board, settings


def may_hold_documents(
    read: Iterable[tuple[str, str, int]], left_out: Sequence[LeftOut], *, fewest_code: int = 1
) -> bool:
    """Return whether a place without structured data is one of documents.

    `read` are name, format and size of the files that were found to hold rows, lines of text among
    them. Documents are at least half of the bytes, or a quarter of the files; formats that are not
    read and hidden files count nowhere, and a README is a note. Beside plain text it takes much
    more: lines of text are data too, with notes and scripts beside them; still more beside
    objects of JSON, which may be about the documents.
    """
    if any(map(_is_lost_data, left_out)):
        return False
    documents: dict[str, int] = {}  # their bytes
    notes, objects, rest = 0, 0, []
    for name, form, size in read:
        if form in ("text", "csv") and _is_document(name):
            documents[name] = size
        elif form == "object":
            objects += size
        elif form != "text":
            return False
        else:
            notes += size
    for file in left_out:
        page = file.form == kinds.HTML or _is_document(file.name)
        if page and not_a_document(file.name) is None:
            documents[file.name] = file.bytes
        elif file.kind not in ("hidden", "note") and not file.is_unread:
            rest.append(file.bytes)
    size = sum(documents.values())
    all_code = all(map(kinds.is_code, documents))
    if objects and (
        all_code or len(documents) < _FEWEST_BESIDE_TEXT or size < _TIMES_OBJECT * objects
    ):
        return False
    fewest, fewest_code = (_FEWEST_BESIDE_TEXT, FEWEST_CODE) if notes else (1, fewest_code)
    return (
        len(documents) >= (fewest_code if all_code else fewest)
        and (not notes or size > _TIMES_TEXT * notes)
        and (size >= sum(rest) or 3 * len(documents) >= len(rest))
    )


def _is_lost_data(file: LeftOut) -> bool:
    """Whether a file that holds no rows was to hold some, or belongs to a table."""
    empty = file.kind in ("empty", "binary") and kinds.kind_by_name(file.name) is None
    return file.kind in ("unfetched", "table") or (empty and bool(_DATA_NAME.search(file.name)))


def _is_document(name: str) -> bool:
    """Whether a name is that of a document, and no note beside others such as a README."""
    kind, _ = kinds.kind_by_name(name) or (kinds.TEXT, "")
    return kind != kinds.TEXT and not _SIDE_FILE_NAMES.fullmatch(name.rpartition("/")[2])


# What to do with formats that are not read.
_ADVICE: dict[str, str] = {
    "pdf": "make text of PDF files with pdftotext or docling",
    **dict.fromkeys(("office", "epub", "rtf"), "make Markdown of documents with pandoc or docling"),
    "pickle": "a pickle runs code when it is read: save its data as Parquet",
    "numpy": "save arrays as Parquet or JSON Lines",
    "hdf5": "save tables of HDF5 files as Parquet",
    "image": "images hold no text: read them with OCR first, for example docling",
    kinds.HTML: "state `source.format: document` to read web pages, or leave them out",
    **dict.fromkeys(
        ("sound", "video"),
        "write down first what sounds and videos say, for example with Whisper",
    ),
    "table": "write the current version of a table as Parquet",
}
_OTHER_ADVICE = "convert such files to JSON, CSV, Parquet, Arrow or text first"


def unread_hint(forms: Iterable[str]) -> str:
    """Return what to do with files that are left out for their formats, of each kind once."""
    advice = dict.fromkeys(_ADVICE.get(form, _OTHER_ADVICE) for form in forms)
    return "; ".join(advice) or _OTHER_ADVICE


def describe_magic(head: bytes) -> NoData | None:
    """Return what a file is whose first bytes say that it holds neither rows nor text.

    None for others.
    """
    if not _ANY_MAGIC.match(head):
        return None
    return next(kind for magic, kind in _MAGIC if magic.match(head))
