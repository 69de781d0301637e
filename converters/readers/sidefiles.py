"""Files that lie beside data and are none: told by name, or by bytes that are no text."""

import re

_NAMES = re.compile(
    r"(readme|licen[cs]e|copying|notice|citation|changelog|changes|authors|contributing|contributors)(\..*)?"
    r"|dataset_infos?\.json|dataset_dict\.json|state\.json|croissant\.json|datapackage\.json"
    r"|_success|_metadata|_common_metadata|thumbs\.db|desktop\.ini|cache-.*\.arrow"
    r"|(sample_?)?submission\.csv"
    r"|(md5|sha1|sha256)sums?(\.txt)?|requirements.*\.txt|makefile|dockerfile",
    re.IGNORECASE,
)
_KINDS = {
    "document": "md markdown rst pdf doc docx xls xlsx ppt pptx",
    "web page": "html htm css",
    "script": "py ipynb sh js ts r bat pl c cpp h java go rs",
    "settings": "yaml yml toml ini cfg lock",
    "checksum": "md5 sha1 sha256 crc",
    "shortcut": "url lnk webloc",
    "image": "png jpg jpeg gif bmp webp svg",
    "sound": "mp3 wav flac",
    "video": "mp4 avi mkv",
}
_KIND_OF = {ending: kind for kind, endings in _KINDS.items() for ending in endings.split()}
BINARY = "binary data"
_MAGIC = (
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF", "a PDF document"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"\x89HDF", "an HDF5 file"),
    (b"SQLite format 3", "an SQLite database"),
    (b"Rar!", "a RAR archive, which is not read: unpack it"),
    (b"7z\xbc\xaf", "a 7z archive, which is not read: unpack it"),
    (b"ORC", "an ORC file, which is not read"),
    (b"Obj\x01", "an Avro file, which is not read"),
    (b"\x80\x02", "a pickle, which is never read"),
    (b"\x80\x03", "a pickle, which is never read"),
    (b"\x80\x04", "a pickle, which is never read"),
    (b"\x80\x05", "a pickle, which is never read"),
)


def _is_hidden(folder: str) -> bool:
    return folder.startswith(".") or folder in ("__MACOSX", "__pycache__")


def side_file(name: str) -> str | None:
    """Why a file of this name (relative to the source) is no data, or None where it may be."""
    *folders, base = name.split("/")
    if base.startswith(".") or any(_is_hidden(part) for part in folders):
        return "hidden"
    if _NAMES.fullmatch(base):
        return "side file"
    kind = _KIND_OF.get(base.rpartition(".")[2].lower()) if "." in base else None
    return None if kind is None else f"side file ({kind})"


def binary_kind(head: bytes) -> str:
    """What a file that is no text is, in words."""
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), BINARY)
