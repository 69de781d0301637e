"""The text that HTML in a field shows: all of it, where of a page only the main text is taken.

It is read as pages are: by the same parser, in the same process, with as much time and memory.
"""

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from ingot.converters.errors import require_package
from ingot.converters.sources.text_kinds import EMBEDDED, EMBEDS

if TYPE_CHECKING:
    from lxml.etree import _Element

_TAG: Final = re.compile(r"</?[a-zA-Z][^<>]*>|<!--")
_SPACES: Final = re.compile(r"[ \t\r\n\f]+")
_URI: Final = re.compile(r"(?<![\w-])data:[\w.+-]{1,80}/[\w.+-]{1,80}[;,]")  # in an attribute
_UNSHOWN: Final = ("script", "style", "template", "title")
_PARAGRAPH: Final = "p"  # a blank line parts it from what is around it
_BLOCK_TAGS: Final = (
    "address article aside blockquote body center dd details dialog dir div dl dt fieldset "
    "figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr html legend li main menu nav "
    "ol option p pre section summary table tbody tfoot thead tr ul"
)
_BLOCKS: Final = frozenset(_BLOCK_TAGS.split())
_CELLS: Final = ("td", "th")
_PREFORMATTED: Final = ("pre", "textarea", "listing")


class ShownText(NamedTuple):
    """The text that HTML shows, and how many data URIs were taken out of it."""

    text: str
    data_uris: int


def check_reader(where: str) -> None:
    """Raise SourceError where the package that parses HTML is not installed."""
    require_package(where, "the text of HTML", "lxml", "html")


def may_hold_data(text: str) -> bool:
    """Return whether a data URI may stand in a text."""
    return "data:" in text


def shown_text(text: str) -> ShownText | str:
    """Return the text that HTML shows, or why none is found in it.

    Block tags become line breaks. A text without any tag keeps its line breaks and blanks.
    """
    if not ("<" in text or "&" in text or EMBEDS in text):
        return ShownText(text, 0)
    from ingot.converters.sources.documents.html_pages import MOST_PAGE, read_apart

    if len(text) > MOST_PAGE:
        return f"HTML of more than {MOST_PAGE >> 20} Mi characters"
    reply: ShownText | str = read_apart(_find_shown_text, text)
    return reply


def _find_shown_text(text: str) -> ShownText | str:
    from lxml.etree import ErrorTypes, ParserError

    from ingot.converters.sources.documents.html_pages import parse_page

    bare = not _TAG.search(text)
    if bare:  # line breaks are those of the text; the first one in a `pre` is not shown
        text = f"<pre>\n{text.replace('<', '&lt;')}</pre>"
    try:
        page = parse_page(text.replace("\0", "\ufffd"), whole=True)
    except ParserError:  # nothing but comments
        return ShownText("", 0)
    if any(one.type == ErrorTypes.ERR_RESOURCE_LIMIT for one in page.errors):
        return "tags that stand inside each other too often"
    shown = _Shown()
    shown.add(page.root)
    return ShownText("".join(shown.parts) if bare else shown.text(), shown.data_uris)


class _Shown:
    """What is shown so far, written as a browser gives the text of a page (`innerText`)."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.data_uris = 0
        self._breaks = 0  # line breaks, and whether a blank, before what comes next
        self._blank = False
        self._preformatted = 0  # elements that are open and keep their blanks

    def text(self) -> str:
        """Return the whole text; a no-break space is a blank, as in pages."""
        return "".join(self.parts).replace("\xa0", " ").strip()

    def add(self, root: "_Element") -> None:
        """Add what an element shows, however deep it is."""
        from lxml.etree import iterwalk

        walk = iterwalk(root, events=("start", "end"))
        for event, one in walk:
            if event == "start":
                self._open(one)
                if one.tag in _UNSHOWN:
                    walk.skip_subtree()
                else:
                    text = one.text or ""
                    self._write(text.removeprefix("\n") if one.tag in _PREFORMATTED else text)
            else:
                self._close(one)
                self._write(one.tail or "")

    def _open(self, one: "_Element") -> None:
        self.data_uris += sum(len(_URI.findall(value)) for value in one.attrib.values())
        self._part(one.tag)
        self._preformatted += one.tag in _PREFORMATTED
        if one.tag == "br":
            self._flush()
            self.parts.append("\n")
        elif one.tag in _CELLS and one.getprevious() is not None:
            self._breaks, self._blank = 0, False
            self.parts.append("\t")

    def _close(self, one: "_Element") -> None:
        self._preformatted -= one.tag in _PREFORMATTED
        self._part(one.tag)

    def _part(self, tag: str) -> None:
        """Let a block begin and end a line."""
        if tag in _BLOCKS:
            self._breaks = max(self._breaks, 2 if tag == _PARAGRAPH else 1)

    def _flush(self) -> None:
        if self.parts and self._breaks and self.parts[-1] != "\t":
            self.parts.append("\n" * self._breaks)
        elif self.parts and self._blank and self.parts[-1][-1] not in "\n\t":
            self.parts.append(" ")
        self._breaks, self._blank = 0, False

    def _write(self, text: str) -> None:
        if EMBEDS in text:
            text, count = EMBEDDED.subn("", text)
            self.data_uris += count
        if not self._preformatted:
            text = _SPACES.sub(" ", text)
            self._blank = self._blank or text.startswith(" ")
        words = text if self._preformatted else text.strip(" ")
        if words:
            self._flush()
            self.parts.append(words)
            self._blank = not self._preformatted and text.endswith(" ")
