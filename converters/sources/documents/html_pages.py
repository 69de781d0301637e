"""Web pages: the encoding that they declare, and their main text, found in a process of its own.

Pages are hostile or broken more often than other files, and what extracts their text may then take
any time and memory, or end its process. So a page has so much time and memory, and no more.
"""

import re
from codecs import lookup
from contextlib import suppress
from typing import Final

from ingot.converters.errors import require_package, translate_read_errors
from ingot.converters.output.worker_pool import (
    Inbox,
    Send,
    WorkerDiedError,
    give_back_process,
    limit_process,
    take_process,
)
from ingot.converters.sources.documents.headers import title_text
from ingot.converters.sources.formats.row_chunks import BrokenRow, row_excerpt

RAW: Final = "raw"  # the other value of `source.html` is `main`
MOST_PAGE: Final = 8 << 20  # characters of a page whose main text is looked for
_SECONDS: Final = 60  # of processor time for one page
_MEMORY: Final = 1 << 30

_DECLARED: Final = re.compile(
    rb"<meta\b[^>]{1,400}?charset\s{0,8}=\s{0,8}[\"']?\s{0,8}([\w:.-]{2,40})", re.IGNORECASE
)
_PRESCAN: Final = 1024  # bytes, as browsers do
_LABELS: Final = re.compile(
    r"utf-?8|windows-125\d|iso-8859-\d{1,2}|koi8-[ru]|euc-jp|iso-2022-jp|macintosh|ibm866"
)
# What browsers take these names for.
READ_AS: Final = {
    **dict.fromkeys(("ascii", "us-ascii", "latin1", "iso-8859-1", "iso8859-1"), "cp1252"),
    **dict.fromkeys(("gb2312", "gbk", "x-gbk", "gb_2312-80", "gb18030"), "gb18030"),
    **dict.fromkeys(("shift_jis", "shift-jis", "sjis", "x-sjis", "windows-31j"), "cp932"),
    **dict.fromkeys(("euc-kr", "ks_c_5601-1987", "korean", "windows-949"), "cp949"),
    **dict.fromkeys(("big5", "big5-hkscs", "x-x-big5"), "big5hkscs"),
    **dict.fromkeys(("tis-620", "iso-8859-11", "windows-874"), "cp874"),
    "iso-8859-9": "cp1254",
    "x-mac-cyrillic": "mac_cyrillic",
    "macintosh": "mac_roman",
}
_META_READ_AS: Final = {**READ_AS, **dict.fromkeys(("utf-16", "utf-16le", "utf-16be"), "utf-8")}


def declared_encoding(head: bytes) -> str | None:
    """The codec of the encoding that a page declares at its beginning; a mark of the order wins."""
    if head.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        return None
    found = _DECLARED.search(head[:_PRESCAN])
    label = found[1].decode("ascii", "replace").lower() if found else ""
    if label not in _META_READ_AS and not _LABELS.fullmatch(label):
        return None
    with suppress(LookupError):
        return lookup(_META_READ_AS.get(label, label)).name
    return None


_RAW_TITLE: Final = re.compile(r"<title\b[^>]{0,200}>([^<]{1,1000})</title", re.IGNORECASE)


def check_installed(where: str) -> None:
    """Raise SourceError where the package that finds the main text is not installed."""
    also = ", or state `source.html: raw` to read whole pages"
    require_package(where, "the main text of a web page", "trafilatura", "html", also)


def read_page(text: str, where: str, *, raw: bool) -> dict[str, str | None] | BrokenRow:
    """The main text of a page without links, or the page, its title and declared language.

    The main text is broken where the page is too large or takes too long.
    """
    if raw:
        found = _RAW_TITLE.search(text, 0, 64 << 10)
        return {"text": text, "title": title_text(found and found[1])}
    if len(text) > MOST_PAGE:
        problem = f"a web page of more than {MOST_PAGE >> 20} Mi characters: state source.html: raw"
        return BrokenRow(problem, row_excerpt(text))
    with translate_read_errors(where):
        process = take_process(_serve_pages)
    process.send(text)
    try:
        reply: dict[str, str | None] | str = process.receive()
    except WorkerDiedError:
        process.end()
        problem = f"its main text needs more than {_SECONDS} s or {_MEMORY >> 30} GiB"
        return BrokenRow(f"{problem}, or ends the process", row_excerpt(text))
    give_back_process(_serve_pages, process)
    return BrokenRow(reply, row_excerpt(text)) if isinstance(reply, str) else reply


def _serve_pages(inbox: Inbox, send: Send) -> int:
    for text in inbox:
        limit_process(memory=_MEMORY, seconds=_SECONDS)
        try:
            send(_find_main_text(text))
        except Exception as error:  # noqa: BLE001 - of a page that the packages do not stand
            send(f"no main text can be found: {type(error).__name__}")
    return 0


def _find_main_text(text: str) -> dict[str, str | None]:
    from lxml import html
    from trafilatura import extract

    parser = html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
    tree = html.document_fromstring(text.encode("utf-8", "replace"), parser=parser)
    title, language = title_text(tree.findtext(".//title")), title_text(tree.get("lang"))
    found = extract(tree, include_comments=False, include_links=False, include_tables=True)
    return {"text": found or "", "title": title, "language": language}
