"""What lies at a source, before any mapping: its gates, and what people want to know of it."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from ingot.agent.judging.sample_gates import detail_text
from ingot.agent.judging.text_coverage import texts_inside
from ingot.agent.judging.trial import Trial
from ingot.agent.privacy import Safe, redact
from ingot.agent.proposing.columns import last_name
from ingot.agent.state import Gate, SafeLeftOut, SourceSummary, UnreadFiles, UnreadKind
from ingot.converters.errors import SourceError, count_text, translate_read_errors
from ingot.converters.mapping.language import Mapping, Value
from ingot.converters.mapping.lookup import Lookup
from ingot.converters.mapping.path_uses import path_uses
from ingot.converters.mapping.walk import walk
from ingot.converters.output.figures import format_share, format_whole_percent
from ingot.converters.paths import Key, Mark, Names, Path, compile_path
from ingot.converters.sources import Source, SourceFile, file_kinds
from ingot.converters.sources.documents.kinds import DOCUMENTS, ISO_639_1, unknown_ending
from ingot.converters.sources.facts import LeftKind, LeftOut, stored_bytes
from ingot.converters.sources.file_kinds import DAMAGED_HINT
from ingot.converters.sources.formats.line_kinds import strange_text
from ingot.converters.sources.sample import Sample
from ingot.converters.sources.storage.archives import keep_archive_open
from ingot.converters.sources.storage.compression import open_decompressed
from ingot.converters.sources.tables.table_folders import tables_read

MOST_STRANGE = 0.1  # of the bytes
_SHOWN, _FIRST_LINES, _LINE = 3, 2, 60
_KNOWN_ENDINGS = ("", "xml", "csv", "tsv", "tab", "psv")
_HEAD = 4_000  # characters, for the first lines of a file


def source_gates(source: Source) -> tuple[Gate, ...]:
    """Return the gates of the files of a source; none where a person says how they are read."""
    if source.spec.format in ("text", *DOCUMENTS):
        return ()
    with keep_archive_open():
        return (*_strange_texts(source), *_files_in_step(source), *_unclear_headers(source))


def _strange_texts(source: Source) -> Iterator[Gate]:
    """How much of the text is of a kind that nobody knows, or written for machines."""
    kinds: dict[str, list[SourceFile]] = defaultdict(list)
    for file in source.files:
        if file_kind := _strange_kind(file):
            kinds[file_kind].append(file)
    total = sum(file.bytes for file in source.files)
    strange = sum(file.bytes for group in kinds.values() for file in group)
    if not kinds or strange <= MOST_STRANGE * total:
        return
    details = [
        f"{count_text(len(files), 'file')} of {kind}, such as {files[0].name}: "
        f"{_first_lines(files[0])}"
        for kind, files in islice(kinds.items(), _SHOWN)
    ]
    yield Gate(
        name="kinds of text",
        state="person",
        figure=f"{format_share(strange, total)} of the bytes",
        limit=f"at most {format_whole_percent(MOST_STRANGE)} of an unknown kind or for machines",
        detail=detail_text(details),
    )


def _strange_kind(file: SourceFile) -> str:
    """What a file is that may be no text for people: by its lines, or XML by its name."""
    if file.facts.format in ("text", *DOCUMENTS):
        return strange_text(file.facts.shape)
    nameless = file.facts.format == "csv" and not file.facts.header
    is_doubtful = nameless or file.facts.format == "xml"
    ending = unknown_ending(file.name) if is_doubtful else ""
    description = "tables without names" if nameless else "XML"
    return "" if ending in _KNOWN_ENDINGS else f"{description} of an unknown kind (.{ending})"


def _first_lines(file: SourceFile) -> str:
    """The first lines of a file as one text."""
    try:
        with file.open_raw() as raw, translate_read_errors(str(file.place)):
            head = open_decompressed(raw, str(file.place)).read(_HEAD)
    except SourceError:  # whoever reads it says so
        return ""
    # Whole, before any of it is cut: half a key or a card looks like neither.
    lines = redact(head.decode(file.facts.encoding, "replace").lstrip("\ufeff")).splitlines()
    first = [line.strip()[:_LINE] for line in lines if line.strip()][:_FIRST_LINES]
    return " / ".join(map(repr, first))


def _unclear_headers(source: Source) -> Iterator[Gate]:
    """Tables whose header may be another row, and sheets that only their places join."""
    nameless = [one for one in source.files if one.facts.format == "excel" and not one.facts.header]
    joined = nameless if len(nameless) > 1 and source.spec.columns is None else []
    details = [f"{one.name}: {one.facts.unclear}" for one in source.files if one.facts.unclear]
    if joined:
        names = " and ".join(one.name for one in joined[:_SHOWN])
        details.append(f"{names} have no header: their columns are joined by their places")
    if details:
        yield Gate(
            name="header",
            state="person",
            figure=f"unclear in {count_text(len(details), 'place')}",
            limit="clear names of columns",
            detail=detail_text([*details[:_SHOWN], "state source.header_rows, or: header row N"]),
        )


# --- files of which line n of each belongs together

_COUNTED = 64 << 20  # bytes of a file whose lines are counted
_FEWEST_LINES = 5
_CODE = re.compile(r"(?<![a-z])[a-z]{2}(?![a-z])")


def _files_in_step(source: Source) -> Iterator[Gate]:
    """Texts that differ in the ending or the language of their name, and have as many lines."""
    by_common_name: dict[str, list[SourceFile]] = defaultdict(list)
    for file in source.files:
        if file.facts.format == "text" and file.facts.layout == "list":
            by_common_name[_common_name(file.name)].append(file)
    parallel = [equal for group in by_common_name.values() if (equal := _equal_lines(group))]
    if not parallel:
        return
    details = (
        f"{' and '.join(one.name for one in files[:_SHOWN])} have {lines:,} lines each"
        for files, lines in parallel
    )
    yield Gate(
        name="files in step",
        state="person",
        figure=f"{sum(len(files) for files, _ in parallel)} files",
        limit="none: a row is a line of one file",
        detail=detail_text([*details, "a parallel text: join its files to rows first"]),
    )


def _common_name(name: str) -> str:
    """A name without what tells the sides of a parallel text: a language in it, or its ending."""
    folder, _, base = name.lower().rpartition("/")
    without_language = _CODE.sub(lambda match: "*" if match[0] in ISO_639_1 else match[0], base)
    stem, dot, ending = base.partition(".")
    is_plain = not dot or ending in ("txt", "text")
    return (
        f"{folder}/{without_language}"
        if is_plain or without_language != base
        else f"{folder}/{stem}.*"
    )


def _equal_lines(files: Sequence[SourceFile]) -> tuple[list[SourceFile], int] | None:
    """Those of some files that have as many lines as the first one, where there are several."""
    if len(files) < 2 or len({file.name for file in files}) < 2:
        return None
    counts = [_count_lines(file) for file in files]
    commonest = max(counts, key=counts.count)
    equal = [file for file, count in zip(files, counts, strict=True) if count == commonest]
    return (equal, commonest) if commonest >= _FEWEST_LINES and len(equal) > 1 else None


def _count_lines(file: SourceFile) -> int:
    """The lines of a file, 0 if it is too large to count them."""
    lines = read = 0
    with file.open_raw() as raw, translate_read_errors(str(file.place)):
        stream = open_decompressed(raw, str(file.place))
        while block := stream.read(1 << 20):
            read += len(block)
            if read > _COUNTED:
                return 0
            lines += block.count(b"\n")
            last = block[-1:]
    return lines + (read > 0 and last != b"\n")


# --- lists of rows in one file

MOST_EQUAL = 0.1  # of the rows, where lists hold rows of one kind
MOST_OUTSIDE = 1 / 3  # of the rows: lists of other rows often hold what these refer to
_Steps = list[str]


def list_gates(trial: Trial) -> tuple[Gate, ...]:
    """Return how many rows of a file lie in lists that a mapping does not read."""
    source = trial.source
    lists = {one.path: one.rows for one in source.roots if _is_list(one.path)}
    if len(lists) < 2 or source.spec.orient:
        return ()
    root = source.spec.root or "$"
    used = [_steps_of(compile_path(root))] if root != "$" else list(_used_steps(trial.mapping))
    unread = [path for path in lists if not any(_leads_to_list(path, one) for one in used)]
    rows, total = (sum(lists[path] or 0 for path in paths) for paths in (unread, lists))
    equal = any(one.path.endswith("*[*]") for one in source.roots)
    limit = MOST_EQUAL if equal else MOST_OUTSIDE
    if not unread or (rows <= limit * total and None not in map(lists.get, unread)):
        return ()
    share = format_share(rows, total) if total else "an unknown part"
    detail = f"{share} of the rows are in lists that are not read: {', '.join(unread[:_SHOWN])}"
    gate = Gate(
        name="lists of rows",
        state="person",
        figure=f"{share} of the rows are not read",
        limit=f"at most {format_whole_percent(limit)}",
        detail=detail_text([detail]),
    )
    return (gate,)


def _is_list(path: str) -> bool:
    """Whether a root is that of one list of a file, by its name."""
    steps = compile_path(path).steps if path != "$" else ()
    return sum(isinstance(step, Mark) for step in steps) == 1 and steps[-1] == Mark("[*]")


def _used_steps(mapping: Mapping) -> Iterator[_Steps]:
    for use in path_uses(mapping):
        outer_paths = [path for one in use.scope if isinstance(one, tuple) for path in one]
        if not isinstance(use.path, Lookup):
            yield [step for path in (*outer_paths, use.path) for step in _steps_of(path)]


def _steps_of(path: Path) -> _Steps:
    """The keys of a path, and its marks; a place in a list stands for the list."""
    keys: _Steps = []
    for step in path.steps:
        if isinstance(step, Names):
            keys += step.names
        else:
            keys.append(
                step.name
                if isinstance(step, Key)
                else step.mark
                if isinstance(step, Mark)
                else "[*]"
            )
    return keys


def _leads_to_list(path: str, used: _Steps) -> bool:
    """Whether a path that is used leads to a list, or through it."""
    pairs = zip(_steps_of(compile_path(path)), used, strict=False)
    return bool(used) and all(one in (step, "*") for step, one in pairs)


# --- markup in the texts that a mapping takes

MOST_HTML = 0.05  # of the rows
_HTML = re.compile(
    r"</(?:[abipu]|br|h[1-6]|em|strong|font|span|div|code|pre|blockquote|[uo]l|li|table|t[dhr])>"
    r"|<(?:br|hr|img|p)\b[^<>]{0,999}>|&(?:nbsp|lt|gt|amp|quot|#\d{1,6});",
    re.IGNORECASE,
)
_TEXT_PART = re.compile(r"/(?:text|content|system)(?:/|$)")


def html_gates(trial: Trial) -> Iterator[Gate]:
    """In how many sampled rows a field that becomes a text holds HTML, and which fields do."""
    uses = path_uses(trial.mapping)
    texts = [one.path for one in uses if _TEXT_PART.search(one.pointer)]
    paths = [one.text for one in texts if isinstance(one, Path)]
    extracted = [
        one.path.text for one in walk(trial.mapping, Value) if one.path and one.text_of_html
    ]
    used_names, marked = {*map(last_name, paths)} - {*map(last_name, extracted)}, Counter[str]()
    for row in trial.sample.rows:
        row_texts = texts_inside(row.value)
        marked.update({path for path, text in row_texts if path and _HTML.search(text)})
    with_html = [path for path, _ in marked.most_common() if last_name(path) in used_names]
    rows, row_count = marked[with_html[0]] if with_html else 0, len(trial.sample.rows)
    if rows <= MOST_HTML * row_count:
        return
    details = [f"{path} ({marked[path]:,} rows)" for path in with_html[:_SHOWN]]
    yield Gate(
        name="HTML in texts",
        state="warn",
        figure=f"{format_share(rows, row_count)} of the rows: {detail_text(with_html[:_SHOWN])}",
        limit=f"at most {format_whole_percent(MOST_HTML)}",
        detail=detail_text([f"tags stay in the texts of {', '.join(details)}"]),
    )


# --- rows of several kinds that an id joins

_FOREIGN_KEY = re.compile(r"\w+_(?:ids?|key|uid|uuid)|[a-z]+I[dD]s?")


def row_gates(sample: Sample) -> tuple[Gate, ...]:
    """Return the gates of sampled rows: files of several kinds whose rows an id joins."""
    shapes: dict[str, set[str]] = defaultdict(set)
    values: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for row in sample.rows:
        if isinstance(row.value, dict):
            shapes[row.file] |= row.value.keys()
            for key in filter(_FOREIGN_KEY.fullmatch, row.value):
                values[row.file][key].update([str(row.value[key])] if row.value[key] else ())
    joined = next(_joined_files(shapes, values), None)
    if joined is None:
        return ()
    key, first, second = joined
    detail = f"rows of {first} and of {second} are of several kinds, which {key} joins"
    hint = "join them first, or convert the files of one kind"
    return (
        Gate(
            name="kinds of rows",
            state="person",
            figure=f"joined by {detail_text([key])}",
            limit="one",
            detail=detail_text([detail, hint]),
        ),
    )


def _joined_files(
    shapes: dict[str, set[str]], values: dict[str, dict[str, set[str]]]
) -> Iterator[tuple[str, str, str]]:
    """A key, and two files: the second has ids of its own beside the first's."""
    for one, keys in shapes.items():
        for other, other_keys in shapes.items():
            own_ids = {key for key in other_keys - keys if _FOREIGN_KEY.fullmatch(key)}
            for key in sorted(values[one].keys() & values[other].keys()) if own_ids else ():
                if values[one][key] & values[other][key]:
                    yield key, one, other


# --- what people want to know of a source

_MOST_TOLD = 20  # files


def summarize_source(source: Source, gates: tuple[Gate, ...] | None = None) -> SourceSummary:
    """What people want to know about a source; its gates where they are known."""
    tables = tables_read(file.place for file in source.files)
    return SourceSummary(
        name=redact(source.name),
        files=len(source.files),
        bytes=stored_bytes(source.files),
        left_out=tuple(map(redacted_left_out, source.left_out[:_MOST_TOLD])),
        left_out_count=len(source.left_out),
        unread=_summarize_unread(source, _UNREAD),
        unconverted=_summarize_unread(source, _UNCONVERTED),
        other_bytes=_other_bytes(source),
        tables=tuple(redact(one.text(source.name)) for one in tables[:_MOST_TOLD]),
        read=tuple(map(_file_text, source.files[:_MOST_TOLD])) if _are_files_shown(source) else (),
        gates=source_gates(source) if gates is None else gates,
    )


def _are_files_shown(source: Source) -> bool:
    """Whether it is worth a word which files are read: several, or a part of what is there."""
    first = next(iter(source.files), None)
    has_structure = first is not None and (first.facts.rows is not None or first.facts.header_rows)
    chosen = any(one.kind in ("shape", "unselected") for one in source.left_out)
    return bool(chosen or has_structure or len(source.files) > 1)


def _file_text(file: SourceFile) -> Safe:
    """A file, its rows or bytes, and where its header is."""
    facts = file.facts
    size = f"{file.bytes:,} bytes" if facts.rows is None else count_text(facts.rows, "row")
    rows = " and ".join(map(str, facts.header_rows))
    header = f", header in row {rows}" if facts.preamble and rows else ""
    return redact(f"{file.name} ({size}{header})")


def redacted_left_out(left_out: LeftOut) -> SafeLeftOut:
    """A file that is not read, as it may be named."""
    name, why, reason = redact(left_out.name), redact(left_out.why), redact(left_out.reason)
    return SafeLeftOut(replace(left_out, name=name, why=why, reason=reason))


_UNREAD: Final[Sequence[LeftKind]] = ("unread", "table")
_UNCONVERTED: Final[Sequence[LeftKind]] = (*_UNREAD, "media", "binary")
_TIMES_DATA = 20  # of the bytes that are read: so much more in documents are no notes about them


def _other_bytes(source: Source) -> int:
    """The bytes of data of another shape, and of documents that outweigh what is read by far."""
    shapes = sum(one.bytes for one in source.left_out if one.kind == "shape")
    prose = sum(one.bytes for one in source.left_out if one.kind == "prose")
    outweighs = prose > _TIMES_DATA * sum(file.bytes for file in source.files)
    return shapes + prose * outweighs


def _summarize_unread(source: Source, kinds: Sequence[LeftKind]) -> UnreadFiles | None:
    """The files of some kinds, beside all that look like data; None without them."""
    read = {file.name.rpartition(".")[0] for file in source.files}
    unread = [  # a page beside its own text says nothing more
        one
        for one in source.left_out
        if one.kind in kinds and one.name.rpartition(".")[0] not in read
    ]
    if not unread:
        return None
    unread_bytes = sum(one.bytes for one in unread)
    sizes: dict[str, list[int]] = {}
    for one in unread:
        sizes.setdefault(one.form_text or one.why, []).append(one.bytes)
    forms = [
        UnreadKind(redact(form), len(form_sizes), sum(form_sizes))
        for form, form_sizes in sizes.items()
    ]
    other_shape_bytes = sum(one.bytes for one in source.left_out if one.kind == "shape")
    return UnreadFiles(
        files=len(unread),
        bytes=unread_bytes,
        of_bytes=unread_bytes + other_shape_bytes + sum(file.bytes for file in source.files),
        first=redact(file_kinds.unread_text(unread)),
        kinds=tuple(sorted(forms, key=lambda form: (-form.bytes, form.name))),
        hint=redact(file_kinds.unread_hint(one.form for one in unread)),
    )


def unreadable_reason(left_out: Sequence[LeftOut]) -> tuple[str, str] | None:
    """Return what is wrong with a folder of damaged files and unread formats, and what to do."""
    if unread := [one for one in left_out if one.kind in (*_UNREAD, "media")]:
        problem = f"no file in it can be read: {file_kinds.unread_text(unread)}"
        return problem, file_kinds.unread_hint(one.form for one in unread)
    damaged = file_kinds.damaged_text(left_out)
    return (f"no file in it holds data: {redact(damaged)}", DAMAGED_HINT) if damaged else None
