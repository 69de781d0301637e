"""Split a document into its chapters, each with its heading."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from ingot.converters.sources.documents import kinds
from ingot.converters.sources.documents.headers import FENCED, MD_HEADING, rst_titles, title_text


class _Heading(NamedTuple):
    start: int
    level: int
    title: str | None


def split_chapters(text: str, kind: str) -> Iterator[dict[str, str | int | None]]:
    """Yield `text`, `chapter` and `chapter_number` of each chapter, from its heading on.

    A chapter begins at a heading of the highest level that has more than one. What stands before
    the first one is a row without these fields, and so is a document without chapters.
    """
    found = list(_FINDERS[kind](text)) if kind in _FINDERS else []
    counts = Counter(one.level for one in found)
    level = min((level for level, count in counts.items() if count > 1), default=None)
    chapters = [one for one in found if one.level == level]
    bounds = [0, *(one.start for one in chapters), len(text)]
    for number, (start, end) in enumerate(pairwise(bounds)):
        body = text[start:end].rstrip()
        if number:
            title = chapters[number - 1].title
            yield {"text": body, "chapter": title, "chapter_number": number}
        elif body or not chapters:
            yield {"text": body}


def _markdown_headings(text: str) -> Iterator[_Heading]:
    blanked = FENCED.sub(lambda block: " " * len(block[0]), text)
    for one in MD_HEADING.finditer(blanked):
        line = one[0].lstrip()
        under = 1 if line.endswith("=") else 2
        level = len(line) - len(line.lstrip("#")) if line.startswith("#") else under
        yield _Heading(one.start(), level, title_text(one[2] or one[1].rstrip().rstrip("#")))


def _rst_headings(text: str) -> Iterator[_Heading]:
    signs: list[str] = []  # the first one is that of the highest level
    for one in rst_titles(text):
        if one[3] not in signs:
            signs.append(one[3])
        yield _Heading(one.start(), signs.index(one[3]), title_text(one[1]))


_LATEX: Final = re.compile(r"^[ \t]{0,99}\\(part|chapter|section)\*?\{([^{}\n]{0,300})\}", re.M)
# A line of its own between blank ones: "CHAPTER IV. The Mill", "Kapitel 4", "第四章 磨坊".
_TEXT: Final = re.compile(
    r"(?:\A|\n[ \t]{0,99}\n)[ \t]{0,99}("
    r"(?:chapter|chapitre|kapitel|cap[ií]tulo|capitolo|глава)[ \t]{1,9}\w[^\n]{0,150}"
    r"|第[\d〇零一二三四五六七八九十百千]{1,9}[章回][^\n]{0,60}"
    r"|(?:prologue|epilogue|preface|foreword|introduction|afterword|prolog|epilog)\.?"
    r")(?=[ \t]{0,99}\n[ \t]{0,99}\n)",
    re.I,
)


def _latex_headings(text: str) -> Iterator[_Heading]:
    for one in _LATEX.finditer(text):
        level = ("chapter", "section", "part").index(one[1])
        yield _Heading(one.start(), level, title_text(one[2]))


def _text_headings(text: str) -> Iterator[_Heading]:
    for one in _TEXT.finditer(text):
        yield _Heading(one.start(1), 1, title_text(one[1]))


_FINDERS: Final[dict[str, Callable[[str], Iterator[_Heading]]]] = {
    kinds.MARKDOWN: _markdown_headings,
    kinds.RST: _rst_headings,
    kinds.LATEX: _latex_headings,
    kinds.TEXT: _text_headings,
}
