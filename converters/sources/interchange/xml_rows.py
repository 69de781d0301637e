"""XML files of any size: which elements are the rows, and what JSON value an element becomes.

An element is an object of its attributes (`@name`), its children and, where it has text of its own,
`#text`: all text inside it in the order of the document. An element that has neither attributes nor
children is its text. Whether an element is a list, an object or a text must not change from row to
row, so the head of the files decides for all of their rows (`FileFacts.forms`).
"""

import codecs
import html.entities
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, islice
from typing import BinaryIO, Final
from xml.etree import ElementTree
from xml.parsers import expat

from ingot.converters.errors import SourceError, truncated_error
from ingot.converters.paths import Key, Mark, Names, compile_path, join_path
from ingot.converters.rows import Json
from ingot.converters.sources.documents.html_pages import text_codec
from ingot.converters.sources.facts import FileFacts, RootCandidate, SourceFile, SourceSpec
from ingot.converters.sources.formats.detection import FilePeek
from ingot.converters.sources.formats.json_rows import compile_root
from ingot.converters.sources.formats.row_chunks import MAX_DEPTH, BrokenRow, RowChunk, row_excerpt
from ingot.converters.sources.formats.text import detect_encoding, read_blocks
from ingot.converters.sources.storage.compression import open_decompressed
from ingot.converters.sources.storage.listing import Entry, file_stem

MAX_ROW: Final = 32 << 20  # characters of a row, each element and attribute counted as 64 more
_ELEMENT_COST: Final = 64
_MAX_TOKEN: Final = 8 << 20  # a tag or comment, which the parser holds whole
_MAX_OPEN: Final = 10_000  # elements that are open at the same time
_HEAD: Final = 4 << 20  # that forms and roots are found in
_MOST_PATHS: Final = 10_000  # that are told apart in the head
_MAX_PATH: Final = 10_000  # characters of the names down to an element of the head
_MAX_NAME: Final = 1_000
_MOST_CANDIDATES: Final = 20
# Errors of a document that only ends too early: nothing, an open tag, half a character, open CDATA.
_CUT_OFF: Final = (3, 5, 6, 20)
_NOT_TEXT: Final = "bytes that are no text in the file's encoding"
_UNDECODABLE: Final = "\ufdd0"  # stands for such bytes: no character, and XML may hold it
_DECLARED = re.compile(rb"\s{0,99}<\?xml\s[^>]{0,200}?encoding\s{0,9}=\s{0,9}[\"']([\w.:-]{1,40})")
_LITERAL = "(?:\"[^\"]*+\"|'[^']*+')"
_DOCTYPE = re.compile(
    r"\A((?:\s++|<!--(?:(?!-->).)*+-->|<\?(?:(?!\?>).)*+\?>)*+)"
    rf"<!DOCTYPE\s++([^\s\[>]++)\s*+(?:(?:PUBLIC\s++{_LITERAL}|SYSTEM)\s*+(?:{_LITERAL}\s*+)?)?(\[?)",
    re.DOTALL,
)
_OPENS = re.compile(r"\s*+<(?:[A-Za-z_:\u0080-\uffff]|\?xml\s|!--|!DOCTYPE\s)")


@cache
def _named_characters() -> str:
    """Declare the characters that HTML names, which DTDs declare that are not read."""
    return "".join(
        f'<!ENTITY {name[:-1]} "{"".join(f"&#{ord(sign)};" for sign in text)}">'
        for name, text in html.entities.html5.items()
        if name.endswith(";") and name not in ("amp;", "lt;", "gt;", "quot;", "apos;")
    )


def _declare_characters(match: re.Match[str]) -> str:
    return f"{match[1]}<!DOCTYPE {match[2]} [{_named_characters()}{'' if match[3] else ']'}"


def _refuse_entity(name: str, is_parameter: bool, *_: object) -> None:
    if is_parameter or f"{name};" not in html.entities.html5:
        raise ValueError("it declares entities of its own, which are not expanded")


class _XmlParser:
    """Expat on decoded text: no DTD is fetched, no entity declared, no token of any size held."""

    def __init__(self, encoding: str) -> None:
        self.expat = expat.ParserCreate("utf-8")
        self.expat.buffer_text = True
        self.expat.specified_attributes = True
        self.expat.EntityDeclHandler = _refuse_entity
        self._decoder = codecs.getincrementaldecoder(encoding)("ingot.undecodable")
        self._fed = 0

    def feed(self, block: bytes, *, final: bool = False) -> None:
        """Parse the next bytes. Raises ValueError and expat.ExpatError."""
        text = self._decoder.decode(block, final).replace("\udcff", _UNDECODABLE)
        if not self._fed:  # a DTD elsewhere is replaced by the characters it may name
            text = _DOCTYPE.sub(_declare_characters, text.removeprefix("\ufeff"))
        data = text.encode()
        self._fed += len(data)
        self.expat.Parse(data, final)
        if self._fed - self.expat.CurrentByteIndex > _MAX_TOKEN:
            raise ValueError(f"a tag or comment of more than {_MAX_TOKEN >> 20} MiB")


@dataclass(slots=True)
class _Head:
    """The elements of the beginning of a file by path (`/feed/entry`)."""

    counts: Counter[str] = field(default_factory=Counter)
    sizes: Counter[str] = field(default_factory=Counter)  # in bytes
    forms: set[str] = field(default_factory=set)  # as in `FileFacts`
    sound: bool = True
    whole: bool = False  # the document ends in it


def _scan_head(data: bytes, encoding: str) -> _Head:
    """Find what elements the beginning of a file has."""
    head, parser = _Head(), _XmlParser(encoding)
    # Of what is open: its path, where it begins, and the names in it. The first is the document.
    stack: list[tuple[str, int, set[str]]] = [("", 0, set())]

    def start(name: str, attributes: dict[str, str]) -> None:
        above, _, names = stack[-1]
        path = f"{above}/{name}"
        if len(path) > _MAX_PATH:
            raise ValueError("nested too deep")
        stack.append((path, parser.expat.CurrentByteIndex, set()))
        if path in head.counts or len(head.counts) < _MOST_PATHS:
            head.counts[path] += 1
            head.forms.add(f"{above}{{}}")
            if name in names:
                head.forms.add(f"{path}[]")
            if not all(map(_is_syntax, attributes)):
                head.forms.add(f"{path}{{}}")
            names.add(name)

    def end(_: str) -> None:
        path, began, _names = stack.pop()
        if path in head.counts:
            head.sizes[path] += max(0, parser.expat.CurrentByteIndex - began)

    parser.expat.StartElementHandler, parser.expat.EndElementHandler = start, end
    try:
        parser.feed(data, final=len(data) < _HEAD)
        head.whole = len(stack) == 1
    except (expat.ExpatError, ValueError):
        head.sound = False
    while len(stack) > 1:  # what goes on behind the head
        end("")
    head.forms.discard("{}")  # of the document itself
    return head


def _is_syntax(attribute: str) -> bool:
    return attribute in ("xmlns", "xml:space") or attribute.startswith("xmlns:")


def _xml_encoding(head: bytes, stated: str | None) -> str:
    """Return the encoding that the byte order mark or the declaration says; else UTF-8."""
    if b"\0" in head[:4] or head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = detect_encoding([head], whole=False)
        return encoding.name if encoding else "utf-8"
    declared = _DECLARED.match(head.removeprefix(codecs.BOM_UTF8))
    codec = text_codec(stated or (declared[1].decode() if declared else ""), exact=True) or "utf-8"
    return "utf-8" if codec.startswith(("utf-16", "utf-32")) else codec  # it can be read so far


def xml_facts(entry: Entry, seen: FilePeek, spec: SourceSpec) -> FileFacts | None:
    """Return the facts of an XML file; a page of HTML is none."""
    if spec.format not in (None, "xml"):
        return None
    encoding = _xml_encoding(seen.head, spec.encoding)
    text = seen.head[:4096].decode(encoding, "replace").removeprefix("\ufeff")
    kind = _DOCTYPE.match(text)
    if not _OPENS.match(text) or (kind and kind[2].lower() == "html"):
        return None
    head = _scan_head(seen.head if seen.whole else _read_head(entry), encoding)
    stated = spec.format or "<?xml" in text[:100]
    outer = next(iter(head.counts), "")[1:]
    if outer.rpartition(":")[2].lower() == "html" or not (stated or outer):
        return None
    # Texts have tags too: what does not say that it is XML has to be sound and have elements.
    named = re.search(r"\.(xml|rss|atom|tmx|rdf)\b", entry.name, re.IGNORECASE)
    if not (stated or named) and not (head.sound and len(head.counts) > 1):
        return None
    return FileFacts(
        format="xml",
        layout="object",
        encoding=encoding,
        compression=seen.compression,
        shape=frozenset(path for path in head.counts if path.count("/") <= 3),
        forms=frozenset(head.forms),
    )


def _read_head(entry: Entry) -> bytes:
    where = str(entry.place)
    with entry.place.open() as raw:
        blocks = read_blocks(open_decompressed(raw, where), where)
        return b"".join(islice(blocks, _HEAD >> 20))


def xml_roots(file: SourceFile, files: int) -> tuple[RootCandidate, ...]:
    """Return where rows may lie: first the element that repeats with most bytes.

    Where there are more than two files, of which the largest is small, each is a document: `$`.
    """
    head = _scan_head(_read_head(file), file.facts.encoding)
    lists = [path for path in head.counts if f"{path}[]" in head.forms]
    roots = [
        RootCandidate(
            path=_root_path(path, head),
            rows=head.counts[path] if head.whole else None,
            why="an element that repeats",
        )
        for path in sorted(lists, key=lambda path: (-head.sizes[path], path))[:_MOST_CANDIDATES]
    ]
    whole = RootCandidate(path="$", rows=1, why="the file as one row")
    return (whole, *roots) if files > 2 and head.whole else (*roots, whole)


def _root_path(path: str, head: _Head) -> str:
    segments: list[str] = []
    above = ""
    for name in path[1:].split("/"):
        above = f"{above}/{name}"
        segments += [name, "[*]"] if f"{above}[]" in head.forms else [name]
    return join_path(*segments)


def _root_names(root: str, where: str) -> list[str]:
    """Return the names of the elements down to the rows; none for the file. Raises SourceError."""
    compile_root(root, where)
    names: list[str] = []
    for step in compile_path(root).steps:
        if isinstance(step, Names | Key):
            names += step.names if isinstance(step, Names) else [step.name]
        elif step != Mark("[*]"):
            hint = "name the elements down to the rows, as in feed.entry[*]"
            raise SourceError(where, f"root {root} is not a path of elements", hint)
    return names


class _RowReader:
    """Makes rows of the events of the parser."""

    def __init__(self, parser: expat.XMLParserType, root: list[str], forms: frozenset[str]) -> None:
        self.rows: list[Json] = []
        self.found = False
        self.fault: BrokenRow | None = None  # of the row that is open
        self._root, self._forms = root, forms
        self._names: list[str] = []  # of the elements that are open
        self._row_depth = 0  # how many of them begin with the row's own, 0 outside
        self._row: ElementTree.TreeBuilder | None = None  # that is open, none where it is broken
        self._cost = 0
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._names.append(name)
        if len(self._names) > _MAX_OPEN or len(name) > _MAX_NAME:
            limits = f"{_MAX_OPEN:,} elements in one another, or a name of {_MAX_NAME:,} characters"
            raise ValueError(f"more than {limits}")
        if not self._row_depth and self._names == (self._root or [name]):
            self._row_depth, self.found = len(self._names), True
            self._cost, self._row = 0, ElementTree.TreeBuilder()
        if self._row is None:
            return
        self._row.start(name, attributes)
        if len(self._names) - self._row_depth >= MAX_DEPTH:
            self._break(f"nested more than {MAX_DEPTH} levels deep")
        self._charge(_ELEMENT_COST * (1 + len(attributes)), "".join(attributes.values()))

    def _text(self, text: str) -> None:
        if self._row is not None:
            self._row.data(text)
            self._charge(0, text)

    def _charge(self, cost: int, text: str) -> None:
        """Break a row that becomes too large, or has a text that cannot be decoded."""
        self._cost += cost + len(text)
        if self._cost > MAX_ROW:
            self._break(f"an element of more than {MAX_ROW >> 20} MiB")
        if _UNDECODABLE in text:
            self._break(_NOT_TEXT, text.replace(_UNDECODABLE, "\ufffd"))

    def _break(self, detail: str, shown: str = "") -> None:
        shown = shown or "/" + "/".join(self._names[: self._row_depth])
        self.fault, self._row = self.fault or BrokenRow(detail, row_excerpt(shown)), None

    def _end(self, name: str) -> None:
        if self._row is not None:
            self._row.end(name)
        if len(self._names) == self._row_depth:
            path = "/" + "/".join(self._names)
            value = self._row and self._value(self._row.close(), path, keep_space=False)
            self.rows.append(self.fault or (value if self._root else {name: value}))
            self.fault, self._row, self._row_depth = None, None, 0
        self._names.pop()

    def _value(self, element: "ElementTree.Element", path: str, *, keep_space: bool) -> Json:
        space = element.get("xml:space")
        keep_space = space == "preserve" if space else keep_space
        value: dict[str, Json] = {
            f"@{key}": text for key, text in element.items() if not _is_syntax(key)
        }
        for child in element:
            name, below = child.tag, f"{path}/{child.tag}"
            inner = self._value(child, below, keep_space=keep_space)
            if name not in value:
                value[name] = [inner] if f"{below}[]" in self._forms else inner
            elif isinstance(value[name], list):
                value[name].append(inner)
            else:
                value[name] = [value[name], inner]
        texts = [element.text or "", *(child.tail or "" for child in element)]
        has_text = bool("".join(texts).strip())
        text = "".join(element.itertext()) if has_text or not value else ""
        self._charge(len(text) if value else 0, "")  # it is there again in what is around it
        text = text if keep_space else text.strip()
        if not value and f"{path}{{}}" not in self._forms:
            return text or None
        return {**value, "#text": text} if text and has_text else value


def read_xml(file: SourceFile, spec: SourceSpec, stream: BinaryIO) -> Iterator[RowChunk]:
    """Yield the rows of an XML file. Raises SourceError."""
    where, root = str(file.place), spec.root or "$"
    parser = _XmlParser(file.facts.encoding)
    reader = _RowReader(parser.expat, _root_names(root, where), file.facts.forms)
    keys = [file_stem(file.name)] if root == "$" else None
    for block in chain(read_blocks(stream, where), [b""]):
        damage = _parse_block(parser, block, where)
        if root == "$" and reader.fault is not None:  # the rest says nothing more
            yield RowChunk(values=[reader.fault], keys=keys)
            return
        if reader.rows:
            yield RowChunk(values=reader.rows, keys=keys)
            reader.rows = []
        if damage is not None:
            raise damage
    if not reader.found:
        raise SourceError(where, f"root {root} is not in the file", "check its spelling")


def _parse_block(parser: _XmlParser, block: bytes, where: str) -> SourceError | None:
    """Parse a block, none being the end; return what is wrong with the file there."""
    try:
        parser.feed(block, final=not block)
    except expat.ExpatError as error:
        if error.code in _CUT_OFF:
            return truncated_error(where, f"the XML ends inside an element, at line {error.lineno}")
        hint = "is the file complete? correct it there, or fetch it again"
        problem = f"no well-formed XML: {expat.ErrorString(error.code)}, at line {error.lineno}"
        return SourceError(where, problem, hint)
    except ValueError as error:
        problem = f"cannot read its XML: {error}, at line {parser.expat.CurrentLineNumber}"
        return SourceError(where, problem, "correct the file there")
    return None
