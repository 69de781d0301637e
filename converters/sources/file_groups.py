"""Which files of a location belong together: groups of one shape, and the main one.

Of text files with a structured file of the same name beside them, one of both is the data.
"""

import codecs
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from ingot.converters.errors import SourceError
from ingot.converters.json_yaml import leaves
from ingot.converters.sources.facts import LeftOut, NoData, SourceFile, SourceSpec
from ingot.converters.sources.formats.delimited import column_names
from ingot.converters.sources.formats.json_documents import parse_json_document
from ingot.converters.sources.formats.line_kinds import LISTS, strange_text
from ingot.converters.sources.formats.text import read_utf8_blocks
from ingot.converters.sources.readers import TABLE_CONTAINERS
from ingot.converters.sources.storage.archives import TableMember, TarMember, ZipMember
from ingot.converters.sources.storage.compression import open_decompressed
from ingot.converters.sources.storage.listing import Place, literal_glob, matches_globs

_FAMILY = {"jsonl": "JSON", "json": "JSON"}
_BESIDE = ("JSON", "table")  # what may only say something about texts
_TABLES = ("csv", "parquet", "arrow", *TABLE_CONTAINERS)
_TABLE_NAME = re.compile(r"\.(csv|tsv|tab|psv|json|jsonl|ndjson)(\.\w{2,4})?$", re.IGNORECASE)
_SPLIT = re.compile(r"(?<![a-z])(?:train(?:ing)?|dev|test|valid(?:ation)?|val|eval)(?![a-z])")
# Plain text beside structured data is usually a list or a note about it, unless there is a lot.
_MOST_NOTES = 3
_WEIGHT_OF_NOTES = 0.25
_WEIGHT_OF_LISTS = 0.02
_MOST_SHARE = 0.75  # of the texts whose encoding is guessed
_DECODED_BYTES = 64 << 10
_SERIAL = re.compile(r"\d+")
_PLAIN = "text"  # the shape of running text


@dataclass(slots=True)
class _Group:
    """Files that are read together; `shape` is the union of theirs."""

    family: str
    shape: frozenset[str]
    files: list[SourceFile]
    shares: Mapping[str, float]  # by name, what tables have of the bytes of their container

    @property
    def weight(self) -> float:
        size = sum(self.shares.get(file.name) or max(1, file.bytes) for file in self.files)
        if self.family != "text":
            return size
        if _PLAIN not in self.shape and (self.shape & frozenset(LISTS) or strange_text(self.shape)):
            return size * _WEIGHT_OF_LISTS
        return size * (_WEIGHT_OF_NOTES if len(self.files) <= _MOST_NOTES else 1.0)

    def takes(self, file: SourceFile) -> bool:
        """Return whether a file has the same format and a shape that goes with the group's."""
        if _family(file) != self.family:
            return False
        shape = file.facts.shape
        if self.family == "text" and (_PLAIN in shape) != (_PLAIN in self.shape):
            return False
        fewer, common = min(len(shape), len(self.shape)), len(shape & self.shape)
        if fewer == 0 or 2 * common < fewer:
            return fewer == 0
        split = _split_pattern(file.name)
        if split is not None and split == _split_pattern(self.files[0].name):
            return True
        if file.facts.format in ("csv", "excel") and not file.facts.header:
            return shape == self.shape  # only their places tell columns apart
        if file.facts.format == "excel":
            return self._has_header_of(file)
        # Tables that share their keys only are others: books and verses, users and posts.
        return (
            file.facts.format not in _TABLES
            or 5 * common >= 4 * fewer
            or 5 * common >= 2 * len(shape | self.shape)
        )

    def _has_header_of(self, file: SourceFile) -> bool:
        """Whether a sheet has the header of the group: a few columns more or fewer at most.

        A log of changes and a list of topics have the ids of the catalogue beside them, too.
        """
        shape, every = file.facts.shape, file.facts.shape | self.shape
        common = len(shape & self.shape)
        inside = common in (len(shape), len(self.shape))
        return 4 * common >= 3 * len(every) or (inside and 2 * common > len(every))


def _split_pattern(name: str) -> str | None:
    """What the splits of one data set are called apart from the split (`train.tsv`, `test.tsv`)."""
    bare, splits = _SPLIT.subn("*", name.rpartition("/")[2].lower())
    return bare if splits else None


def _family(file: SourceFile) -> str:
    """The format; a table that is to be read as text (`format` is stated) stays a table."""
    if file.facts.format == "text" and _TABLE_NAME.search(file.name):
        return "table"
    return _FAMILY.get(file.facts.format, file.facts.format)


def select_main_group(
    files: Sequence[SourceFile], spec: SourceSpec
) -> tuple[tuple[SourceFile, ...], list[LeftOut]]:
    """Return the files of the shape with most bytes, and the others with the reason."""
    files, groups = _make_groups(files, spec)
    if not groups:
        return (), []
    main = max(groups, key=lambda group: group.weight)
    for texts in (group for group in groups if group.family == "text" and main.family in _BESIDE):
        main = texts if _are_texts_beside(texts.files, main.files) else main
    main_names = {file.name for file in main.files}
    if names_files(spec.files):
        main_names |= {file.name for file in files if _family(file) == main.family}
    others = [file for file in files if file.name not in main_names]
    shares = _table_shares(files)
    left_out = [_leave_out(file, "another shape than the main files", shares) for file in others]
    return tuple(file for file in files if file.name in main_names), left_out


def group_files(
    files: Sequence[SourceFile],
) -> tuple[list[tuple[SourceFile, ...]], list[LeftOut]]:
    """Return the files by shape, the heaviest shape first, each group in the order of the files.

    Plain text beside structured data that weighs more is a note about it and left out; so are
    members of an archive that have another shape than most of it: an archive is read as one. The
    tables of a workbook or database are not.
    """
    files, groups = _make_groups(files, SourceSpec())
    groups.sort(key=lambda group: -group.weight)
    chosen: list[dict[str, SourceFile]] = [{} for _ in groups]
    left_out: list[LeftOut] = []
    archive_groups: dict[str, int] = {}
    for number, group in enumerate(groups):
        for file in group.files:
            place = file.place
            archive = str(place.archive) if isinstance(place, ZipMember | TarMember) else ""
            elsewhere = archive and archive_groups.setdefault(archive, number) != number
            if elsewhere or (number and group.family == "text"):
                why = "another shape than the other files"
                left_out.append(_leave_out(file, why, group.shares))
            else:
                chosen[number][file.name] = file
    order = {file.name: place for place, file in enumerate(files)}
    tables = [tuple(sorted(group.values(), key=lambda file: order[file.name])) for group in chosen]
    return [group for group in tables if group], left_out


def _make_groups(
    files: Sequence[SourceFile], spec: SourceSpec
) -> tuple[list[SourceFile], list[_Group]]:
    """The files, read alike where they belong together, and their groups."""
    files = _unify_kinds(_unify_forms(_unify_headers(_unify_encodings(files), spec)))
    # A file of one object beside files of one object per line holds one line as well.
    lines = [file.facts.shape for file in files if file.facts.format == "jsonl"]
    files = [
        _change_facts(file, format="jsonl", layout="list")
        if file.facts.one_line and any(file.facts.shape & shape for shape in lines)
        else file
        for file in files
    ]
    groups: list[_Group] = []
    shares = _table_shares(files)
    order = sorted(files, key=lambda file: (-shares.get(file.name, file.bytes), file.name))
    for file in order:
        group = next((group for group in groups if group.takes(file)), None)
        if group is None:
            groups.append(_Group(_family(file), file.facts.shape, [file], shares))
        else:
            group.files.append(file)
            group.shape |= file.facts.shape
    return files, groups


def _table_shares(files: Sequence[SourceFile]) -> dict[str, float]:
    """The bytes of each table of a container, by its rows: those of the container are shared."""
    tables = [file for file in files if isinstance(file.place, TableMember)]
    rows: Counter[Place] = Counter()
    for file in tables:
        rows[cast(TableMember, file.place).archive] += 1 + (file.facts.rows or 0)
    return {
        file.name: max(1, file.bytes) * (1 + (file.facts.rows or 0)) / total
        for file in tables
        if (total := rows[cast(TableMember, file.place).archive])
    }


def _leave_out(file: SourceFile, why: str, shares: Mapping[str, float]) -> LeftOut:
    names = sorted(file.facts.shape)
    shown = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
    rows = "" if file.facts.rows is None else f", {file.facts.rows:,} rows"
    described = f"{file.facts.format}{f' with {shown}' if shown else ''}{rows}"
    size = round(shares.get(file.name, file.bytes))
    strange = strange_text(file.facts.shape) if file.facts.format == "text" else ""
    shape = NoData(f"{why}: {described}", "shape", file.facts.format, why)
    reason = NoData.unread(strange) if strange else shape
    return replace(LeftOut.of(file, reason), bytes=size)


def _change_facts(file: SourceFile, **facts: Any) -> SourceFile:  # noqa: ANN401
    return replace(file, facts=replace(file.facts, **facts))


def _unify_encodings(files: Sequence[SourceFile]) -> Sequence[SourceFile]:
    """Texts of a folder are in one encoding: a few bytes beyond ASCII do not show another one."""
    doubtful = [f for f in files if f.facts.format == "text" and "encoding" in f.facts.guessed]
    counts = Counter(file.facts.encoding for file in doubtful)
    usual, times = counts.most_common(1)[0] if counts else ("", 0)
    if len(counts) < 2 or times < _MOST_SHARE * len(doubtful):
        return files
    odd = {file.name for file in doubtful if file.facts.encoding != usual}
    return [
        _change_facts(file, encoding=usual)
        if file.name in odd and _is_decodable(file, usual)
        else file
        for file in files
    ]


def _unify_kinds(files: Sequence[SourceFile]) -> Sequence[SourceFile]:
    """Count all texts of a series as running text where most are: long transcripts look like logs.

    Names of a series differ in numbers only. What else a text looks like stays in its shape, for
    the gate that asks a person about it.
    """
    texts = {file.name: _SERIAL.sub("0", file.name) for file in files if _family(file) == "text"}
    strange = {f.name for f in files if f.name in texts and strange_text(f.facts.shape)}
    plain = Counter(series for name, series in texts.items() if name not in strange)
    times = Counter(texts.values())
    return [
        _change_facts(file, shape=file.facts.shape | {_PLAIN})
        if file.name in strange and 2 * plain[texts[file.name]] > times[texts[file.name]]
        else file
        for file in files
    ]


def _is_decodable(file: SourceFile, encoding: str) -> bool:
    with file.open_raw() as raw:
        data = open_decompressed(raw, file.name).read(_DECODED_BYTES)
    try:
        codecs.getincrementaldecoder(encoding)().decode(data)
    except UnicodeDecodeError:
        return False
    return True


def _unify_headers(files: Sequence[SourceFile], spec: SourceSpec) -> Sequence[SourceFile]:
    """Tables of one width have all a header or none: parts of one table begin differently."""
    if spec.columns is not None:
        return files
    tables = [file for file in files if file.facts.format == "csv"]
    times = Counter(file.facts.columns for file in tables)
    headerless = {len(file.facts.columns) for file in tables if not file.facts.header}
    return [
        _drop_header(file)
        if file.facts.format == "csv"
        and file.facts.header
        and times[file.facts.columns] == 1
        and len(file.facts.columns) in headerless
        else file
        for file in files
    ]


def _unify_forms(files: Sequence[SourceFile]) -> Sequence[SourceFile]:
    """An element of XML that is a list or an object in one file is one in all of them."""
    forms = [file.facts.forms for file in files if file.facts.forms]
    if len(forms) < 2:
        return files
    every = frozenset().union(*forms)
    return [
        _change_facts(file, forms=every) if file.facts.format == "xml" else file for file in files
    ]


def _drop_header(file: SourceFile) -> SourceFile:
    names = column_names([""] * len(file.facts.columns))
    guessed = file.facts.guessed | {"columns"}
    return _change_facts(file, header=False, columns=names, shape=frozenset(names), guessed=guessed)


def names_files(patterns: Sequence[str] | None) -> bool:
    """Return whether `source.files` names files, and does not only exclude some."""
    return any(not pattern.startswith("!") for pattern in patterns or ())


def guessed_spec(
    files: Sequence[SourceFile], spec: SourceSpec = SourceSpec(), other_names: Sequence[str] = ()
) -> SourceSpec:
    """Return the facts that a later run could guess otherwise, where all files agree on them.

    What is stated of the format or a query is one: without it the files would not be read so. So
    is which files are read: `other_names`, of another shape, may look alike once facts are stated.
    """
    facts = ("format", "encoding", "delimiter", "quote", "header_rows")
    agreed: dict[str, Any] = {fact: _agreed_fact(files, fact) for fact in facts}
    if all("columns" in file.facts.guessed for file in files):
        agreed["columns"] = _agreed_fact(files, "columns")
    agreed |= {"format": spec.format or agreed["format"], "query": spec.query}
    if files and other_names and spec.files is None and spec.query is None:
        agreed["files"] = _chosen_files([file.name for file in files], other_names)
    return SourceSpec(**agreed)


_MOST_NAMED = 200


def _chosen_files(read: Sequence[str], other_names: Sequence[str]) -> tuple[str, ...] | None:
    """The patterns that leave other files out, or name those that are read; None for too many."""
    excluding = tuple(f"!{_anchored_glob(name, read)}" for name in other_names[: _MOST_NAMED + 1])
    exact = all(matches_globs(name, excluding) for name in read)
    if exact and len(excluding) <= _MOST_NAMED:
        return excluding
    naming = tuple(_anchored_glob(name, other_names) for name in read[: _MOST_NAMED + 1])
    return naming if len(naming) <= _MOST_NAMED else None


def _anchored_glob(name: str, other_names: Sequence[str]) -> str:
    """A glob for one file, which begins with a slash where a file in a folder has its name."""
    same = any(other.endswith(f"/{name}") for other in other_names)
    return f"/{literal_glob(name)}" if same else literal_glob(name)


def _agreed_fact(files: Iterable[SourceFile], fact: str) -> Any:  # noqa: ANN401
    values = {getattr(file.facts, fact) for file in files}
    some = any(fact in file.facts.guessed for file in files)
    return values.pop() if some and len(values) == 1 else None


_FEWEST = 3  # pairs
_PAIRED = 0.8  # of the text files
_LOOKED_AT = 5
_MOST_BYTES = 1 << 20  # of a file that only says something about another one


def _are_texts_beside(texts: Sequence[SourceFile], notes: Sequence[SourceFile]) -> bool:
    """Whether each text has a file of the same name beside it that only says what it is.

    A file that holds a text of its own as long as the one beside it is the data itself.
    """
    named = {_bare_name(file): file for file in notes if file.bytes <= _MOST_BYTES}
    pairs = [(file, named[key]) for file in texts if (key := _bare_name(file)) in named]
    if len(pairs) < max(_FEWEST, _PAIRED * len(texts)):
        return False
    longer = [_longest_text(note) < 0.5 * text.bytes for text, note in pairs[:_LOOKED_AT]]
    return sum(longer) > _PAIRED * len(longer)


def _bare_name(file: SourceFile) -> tuple[str, str]:
    folder, _, name = file.name.rpartition("/")
    return folder.rpartition("/")[0] and folder, name.partition(".")[0].lower()


def _longest_text(file: SourceFile) -> int:
    """The characters of all texts of several words in a JSON file."""
    try:
        with file.place.open() as raw:
            stream = open_decompressed(raw, str(file.place))
            facts = file.facts
            parts = read_utf8_blocks(stream, str(file.place), facts.encoding, facts.newline)
            value, _ = parse_json_document(parts, _MOST_BYTES)
    except SourceError:
        return 0
    return sum(len(one) for one in leaves(value) if isinstance(one, str) and one.count(" ") > 1)
