"""XML files of any size: which elements are the rows, and what JSON value an element becomes.

An element is an object of its attributes (`@name`), its children and, where it has text of its own,
`#text`: all text inside it in the order of the document. An element that has neither attributes nor
children is its text. Whether an element is a list, an object or a text must not change from row to
row, so the head of the files decides for all of their rows (`FileFacts.forms`).
"""

import codecs
import html.entities
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, islice
from typing import Any, BinaryIO, Final
from xml.parsers import expat

from ingot.converters.errors import SourceError, truncated_error
from ingot.converters.paths import Key, Mark, Names, PathSyntaxError, compile_path, join_path
from ingot.converters.rows import Json
from ingot.converters.sources.facts import FileFacts, RootCandidate, SourceFile, SourceSpec
from ingot.converters.sources.formats.detection import FilePeek
from ingot.converters.sources.formats.row_chunks import MAX_DEPTH, BrokenRow, RowChunk, row_excerpt
from ingot.converters.sources.formats.text import read_blocks
from ingot.converters.sources.storage.compression import open_decompressed
from ingot.converters.sources.storage.listing import Entry, file_stem

MAX_ROW: Final = 32 << 20  # characters of a row, each element and attribute counted as 64 more
_ELEMENT_COST: Final = 64
_MAX_TOKEN: Final = 8 << 20  # a tag or comment, which the parser holds whole
_MAX_OPEN: Final = 10_000  # elements that are open at the same time
_HEAD: Final = 4 << 20  # that forms and roots are found in
_MOST_PATHS: Final = 10_000  # that are told apart in the head
_SHAPE_DEPTH: Final = 3
_MOST_CANDIDATES: Final = 20
_MANY_FILES: Final = 2  # more small files are a document each
# Errors of a document that only ends too early: nothing, an open tag, half a character, open CDATA.
_CUT_OFF: Final = (3, 5, 6, 20)
_NOT_TEXT: Final = "bytes that are no text in the file's encoding"
_UNDECODABLE: Final = "\ufdd0"  # no character, and XML may hold it
_DECLARED = re.compile(rb"\s{0,99}<\?xml\s[^>]{0,200}?encoding\s{0,9}=\s{0,9}[\"']([\w.:-]{1,40})")
_LITERAL = "(?:\"[^\"]*+\"|'[^']*+')"
_DOCTYPE = re.compile(
    r"((?:\s++|<!--(?:(?!-->).)*+-->|<\?(?:(?!\?>).)*+\?>)*+)"
    rf"<!DOCTYPE\s++([^\s\[>]++)\s*+(?:(?:PUBLIC\s++{_LITERAL}|SYSTEM)\s*+(?:{_LITERAL}\s*+)?)?",
    re.DOTALL,
)
_OPENS = re.compile(r"\s*+<(?:[A-Za-z_:\u0080-\uffff]|\?xml\s|!--|!DOCTYPE\s)")


@cache
def _named_characters() -> str:
    """Declare the characters that HTML names, which DTDs declare that are not read."""
    names = html.entities.html5.items()
    coded = {
        name[:-1]: "".join(f"&#{ord(one)};" for one in text)
        for name, text in sorted(names)
        if name.endswith(";") and name[:-1] not in ("amp", "lt", "gt", "quot", "apos")
    }
    return "".join(f'<!ENTITY {name} "{text}">' for name, text in coded.items())


def _refuse_entity(*_: object) -> None:
    raise ValueError("it declares entities of its own, which are not expanded")


class _XmlParser:
    """Expat on decoded text: no DTD is fetched, no entity declared, no token of any size held."""

    def __init__(self, encoding: str) -> None:
        self.expat = expat.ParserCreate()
        self.expat.buffer_text = True
        self.expat.specified_attributes = True
        self.damaged = False  # whether bytes were met that are no text in the encoding
        self._decoder = codecs.getincrementaldecoder(encoding)("ingot.undecodable")
        self._fed = 0
        self._begun = False

    def feed(self, data: bytes, *, final: bool = False) -> None:
        """Parse the next bytes. Raises ValueError and expat.ExpatError."""
        text = self._decoder.decode(data, final)
        if "\udcff" in text:
            self.damaged, text = True, text.replace("\udcff", _UNDECODABLE)
        if not self._begun and (text or final):
            self._begun = True
            text = self._begin(text.removeprefix("\ufeff"))
        self._parse(text, final)
        if self._fed - self.expat.CurrentByteIndex > _MAX_TOKEN:
            raise ValueError(f"a tag or comment of more than {_MAX_TOKEN >> 20} MiB")

    def _begin(self, text: str) -> str:
        """Parse the document type; a DTD elsewhere is replaced by the characters it may name."""
        if found := _DOCTYPE.match(text):
            opened = text[found.end() : found.end() + 1] == "["
            self._parse(f"{found[1]}<!DOCTYPE {found[2]} [{_named_characters()}")
            text = text[found.end() + 1 :] if opened else f"]{text[found.end() :]}"
        self.expat.EntityDeclHandler = _refuse_entity
        return text

    def _parse(self, text: str, final: bool = False) -> None:
        self._fed += len(text) if text.isascii() else len(text.encode())
        self.expat.Parse(text, final)


@dataclass(slots=True)
class _PathFacts:
    """What the head shows of the elements at one path."""

    count: int = 0
    bytes: int = 0
    repeats: bool = False
    composite: bool = False  # has attributes or children


@dataclass(slots=True)
class _Head:
    """The elements of the beginning of a file by path (`/feed/entry`)."""

    paths: dict[str, _PathFacts] = field(default_factory=lambda: defaultdict(_PathFacts))
    whole: bool = False  # the document ends in it
    sound: bool = True

    @property
    def forms(self) -> frozenset[str]:
        """The paths of lists, marked `[]`, and of objects, marked `{}`."""
        lists = {f"{path}[]" for path, facts in self.paths.items() if facts.repeats}
        return frozenset(lists | {f"{p}{{}}" for p, facts in self.paths.items() if facts.composite})

    @property
    def root(self) -> str:
        """The name of the outer element, "" where there is none."""
        return next(iter(self.paths), "")[1:]


def _scan_head(data: bytes, encoding: str, *, whole: bool) -> _Head:
    """Find what elements the beginning of a file has."""
    head, parser = _Head(), _XmlParser(encoding)
    stack: list[tuple[str, int, Counter[str]]] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        above, _, siblings = stack[-1] if stack else ("", 0, Counter[str]())
        path = f"{above}/{name}" if len(stack) <= MAX_DEPTH else ""
        siblings[name] += 1
        if len(stack) > _MAX_OPEN:
            raise ValueError("nested too deep")
        stack.append((path, parser.expat.CurrentByteIndex, Counter()))
        if path and (len(head.paths) < _MOST_PATHS or path in head.paths):
            facts = head.paths[path]
            facts.count += 1
            facts.repeats |= siblings[name] > 1
            facts.composite |= any(not _is_syntax(key) for key in attributes)
            if above in head.paths:
                head.paths[above].composite = True

    def end(_: str) -> None:
        path, began, _siblings = stack.pop()
        if path in head.paths:
            head.paths[path].bytes += parser.expat.CurrentByteIndex - began
        head.whole = not stack

    parser.expat.StartElementHandler, parser.expat.EndElementHandler = start, end
    try:
        parser.feed(data, final=whole)
    except (expat.ExpatError, ValueError):
        head.sound = False
    for path, began, _siblings in stack:  # what goes on behind the head
        if path in head.paths:
            head.paths[path].bytes += max(0, parser.expat.CurrentByteIndex - began)
    return head


def _is_syntax(attribute: str) -> bool:
    return attribute in ("xmlns", "xml:space") or attribute.startswith("xmlns:")


def _xml_encoding(head: bytes, stated: str | None) -> str:
    """Return the encoding that the byte order mark or the declaration says; else UTF-8."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if head[:4] in (b"<\0?\0", b"\0<\0?"):
        return "utf-16-le" if head[0] else "utf-16-be"
    found = _DECLARED.match(head.removeprefix(codecs.BOM_UTF8))
    name = stated or (found[1].decode("ascii", "replace") if found else "utf-8")
    try:
        codec = codecs.lookup(name)
        "".encode(name)
    except LookupError:
        return "utf-8"
    # Who can read the declaration reads no UTF-16.
    return "utf-8" if found and codec.name.startswith(("utf-16", "utf-32")) else codec.name


def xml_facts(entry: Entry, seen: FilePeek, spec: SourceSpec) -> FileFacts | None:
    """Return the facts of an XML file; a page of HTML is none."""
    stated = spec.format == "xml"
    if spec.format is not None and not stated:
        return None
    encoding = _xml_encoding(seen.head, spec.encoding)
    try:
        text = seen.head[:4096].decode(encoding, "ingot.undecodable").removeprefix("\ufeff")
    except UnicodeError:
        return None
    kind = _DOCTYPE.match(text)
    if not _OPENS.match(text) or (kind and kind[2].lower() == "html"):
        return None
    declared = b"<?xml" in seen.head[:100].replace(b"\0", b"")
    head = _scan_head(seen.head, encoding, whole=seen.whole)
    if head.root.rpartition(":")[2].lower() == "html" or not (stated or declared or head.root):
        return None
    # Texts have tags too: what does not say that it is XML has to be sound and have elements.
    named = re.search(r"\.(xml|rss|atom|tmx|rdf)\b", entry.name, re.IGNORECASE)
    if not (stated or declared or named) and not (head.sound and len(head.paths) > 1):
        return None
    if not seen.whole:
        data = _read_head(entry)
        head = _scan_head(data, encoding, whole=len(data) < _HEAD)
    shape = {path for path in head.paths if path.count("/") <= _SHAPE_DEPTH}
    return FileFacts(
        format="xml",
        layout="object",
        encoding=encoding,
        compression=seen.compression,
        shape=frozenset(shape),
        forms=head.forms,
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
    data = _read_head(file)
    head = _scan_head(data, file.facts.encoding, whole=len(data) < _HEAD)
    found = [(path, facts) for path, facts in head.paths.items() if facts.repeats]
    found.sort(key=lambda one: (-one[1].bytes, one[0]))
    roots = [
        RootCandidate(
            path=_root_path(path, head),
            rows=facts.count if head.whole else None,
            why="an element that repeats",
        )
        for path, facts in found[:_MOST_CANDIDATES]
    ]
    whole = RootCandidate(path="$", rows=1, why="the file as one row")
    documents = files > _MANY_FILES and head.whole
    return (whole, *roots) if documents else (*roots, whole)


def _root_path(path: str, head: _Head) -> str:
    segments: list[str] = []
    above = ""
    for name in path[1:].split("/"):
        above = f"{above}/{name}"
        segments += [name, "[*]"] if head.paths[above].repeats else [name]
    return join_path(*segments)


def _root_names(root: str, where: str) -> str:
    """Return the names of the elements down to the rows, joined by dots; "" for the file."""
    if root == "$":
        return ""
    try:
        steps = compile_path(root).steps
    except PathSyntaxError as error:
        raise SourceError(where, f"root {root!r}: {error.problem}") from error
    names: list[str] = []
    for step in steps:
        if isinstance(step, Names | Key):
            names += step.names if isinstance(step, Names) else [step.name]
        elif step != Mark("[*]"):
            hint = "name the elements down to the rows, as in feed.entry[*]"
            raise SourceError(where, f"root {root} is no path of elements", hint)
    return ".".join(names)


@dataclass(slots=True)
class _Element:
    """An element of a row that is open."""

    path: str
    keep_space: bool
    value: dict[str, Json] = field(default_factory=dict)
    parts: list[Any] = field(default_factory=list)  # texts, and such lists of children
    has_text: bool = False


class _RowReader:
    """Makes rows of the events of the parser."""

    def __init__(self, parser: _XmlParser, root: str, forms: frozenset[str]) -> None:
        self.rows: list[Json] = []
        self.found = False
        self._parser, self._root, self._forms = parser, root, forms
        self._names: list[str] = []  # of the elements around the rows
        self._stack: list[_Element] = []
        self._deeper = 0  # elements that are open in a row that is broken
        self._cost = 0
        self.fault: BrokenRow | None = None  # of the row that is open
        parser.expat.StartElementHandler = self._start
        parser.expat.EndElementHandler = self._end
        parser.expat.CharacterDataHandler = self._text

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if self.fault is not None:
            self._deeper += 1
        elif self._stack or self._begins_row(name):
            above = self._stack[-1] if self._stack else None
            path = f"{above.path}/{name}" if above else "/" + "/".join(self._names)
            keep = above is not None and above.keep_space
            element = _Element(path, keep)
            self._stack.append(element)
            if attributes:
                space = attributes.get("xml:space")
                element.keep_space = space == "preserve" if space else keep
                element.value = {
                    f"@{key}": text for key, text in attributes.items() if not _is_syntax(key)
                }
            self._charge(_ELEMENT_COST * (1 + len(attributes)) + sum(map(len, attributes.values())))
            if self._parser.damaged and any(_UNDECODABLE in t for t in attributes.values()):
                self._break(_NOT_TEXT)
        if len(self._stack) + self._deeper + len(self._names) > _MAX_OPEN:
            raise ValueError(f"more than {_MAX_OPEN:,} elements in one another")

    def _begins_row(self, name: str) -> bool:
        self._names.append(name)
        begins = ".".join(self._names) == self._root if self._root else True
        if begins:
            self.found, self._cost = True, 0
        return begins

    def _charge(self, cost: int) -> None:
        """Break a row that becomes too large or too deep."""
        self._cost += cost
        if self._cost > MAX_ROW:
            self._break(f"an element of more than {MAX_ROW >> 20} MiB")
        elif len(self._stack) > MAX_DEPTH:
            self._break(f"nested more than {MAX_DEPTH} levels deep")

    def _break(self, detail: str, text: str = "") -> None:
        if self._stack:
            shown = text.replace(_UNDECODABLE, "\ufffd") or self._stack[0].path
            self.fault = BrokenRow(detail, row_excerpt(shown))
            self._deeper = len(self._stack)
            self._stack = []

    def _text(self, text: str) -> None:
        if self._stack:
            element = self._stack[-1]
            element.parts.append(text)
            element.has_text = element.has_text or not text.isspace()
            self._cost += len(text)
            if self._cost > MAX_ROW:
                self._charge(0)
            if self._parser.damaged and _UNDECODABLE in text:
                self._break(_NOT_TEXT, text)

    def _end(self, _: str) -> None:
        if self.fault is not None:
            self._deeper -= 1
            if not self._deeper:
                self._finish_row(self.fault)
        elif self._stack:
            value = self._close()
            if not self._stack and self.fault is None:
                self._finish_row(value if self._root else {self._names[0]: value})
        else:
            self._names.pop()

    def _finish_row(self, row: Json) -> None:
        self.rows.append(row)
        self._names.pop()
        self.fault = None

    def _close(self) -> Json:
        """The value of the element that ends, which is put into the one around it."""
        element = self._stack.pop()
        text: str | None = None
        if element.has_text or (element.parts and not element.value):
            text = "".join(_texts_in(element.parts))
            self._charge(len(text) if element.value else 0)
            text = text if element.keep_space else text.strip()
        value: Json = element.value
        if not element.value and f"{element.path}{{}}" not in self._forms:
            value = text or None
        elif text and element.has_text:
            element.value["#text"] = text
        if self._stack:
            self._stack[-1].parts.append(element.parts)
            around, name = self._stack[-1].value, element.path.rpartition("/")[2]
            if name not in around:
                around[name] = [value] if f"{element.path}[]" in self._forms else value
            elif isinstance(around[name], list):
                around[name].append(value)
            else:
                around[name] = [around[name], value]
        return value


def _texts_in(parts: list[Any]) -> Iterator[str]:
    for one in parts:
        if isinstance(one, str):
            yield one
        else:
            yield from _texts_in(one)


def read_xml(file: SourceFile, spec: SourceSpec, stream: BinaryIO) -> Iterator[RowChunk]:
    """The rows of an XML file. Raises SourceError."""
    where, root = str(file.place), spec.root or "$"
    parser = _XmlParser(file.facts.encoding)
    reader = _RowReader(parser, _root_names(root, where), file.facts.forms)
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
