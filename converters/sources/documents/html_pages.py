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
_UNKNOWN: Final = {"gb_2312-80": "gb18030", "cp31j": "cp932"}  # to Python
# What browsers read in place of a codec. ASCII says nothing of other bytes.
_READ_AS: Final = {
    **{"ascii": "utf-8", "iso8859-1": "cp1252", "iso8859-9": "cp1254"},
    **{"gb2312": "gb18030", "gbk": "gb18030", "big5": "big5hkscs"},
    **{"shift_jis": "cp932", "euc_kr": "cp949", "iso8859-11": "cp874", "tis-620": "cp874"},
}
# Codecs of Python that are no encodings of a text, or take the square of its length.
_NO_ENCODINGS: Final = ("punycode", "idna", "unicode-escape", "raw-unicode-escape", "utf-7")


def text_codec(label: str, *, exact: bool = False) -> str | None:
    """Return the codec of an encoding by any of its names, None for what is none.

    Unless `exact` it is the one that browsers read, which has more characters.
    """
    name = label.strip().lower().removeprefix("x-").removeprefix("x-").replace("windows-", "cp")
    with suppress(LookupError, ValueError):
        codec = lookup(_UNKNOWN.get(name, name)).name
        "".encode(codec)  # not with those that make bytes of bytes
        if codec not in _NO_ENCODINGS:
            return codec if exact else _READ_AS.get(codec, codec)
    return None


def declared_encoding(head: bytes) -> str | None:
    """Return the codec of the encoding that a page declares at its beginning.

    A byte order mark takes precedence.
    """
    if head.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        return None
    found = _DECLARED.search(head[:_PRESCAN])
    codec = text_codec(found[1].decode("ascii", "replace")) if found else None
    # Who can read the declaration reads no UTF-16.
    return "utf-8" if codec and codec.startswith(("utf-16", "utf-32")) else codec


_RAW_TITLE: Final = re.compile(r"<title\b[^>]{0,200}>([^<]{1,1000})</title", re.IGNORECASE)


def check_installed(where: str) -> None:
    """Raise SourceError where the package that finds the main text is not installed."""
    raw = ", or state `source.html: raw` to read whole pages"
    what = "the main text of a web page"
    require_package(where, what, "trafilatura", "html", other_hint=raw)


def read_page(text: str, where: str, *, raw: bool) -> dict[str, str | None] | BrokenRow:
    """Return the main text of a page without links, or the page, its title and declared language.

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
