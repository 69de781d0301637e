"""Delimiter, quote and header of a delimited file, guessed from the values at its head."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ingot.converters.sources.formats.delimited import (
    Dialect,
    begins_record,
    column_names,
    split_line,
)

RECORDS = 400
_JUDGED_LINES = 1000
_FEW_UNCLOSED = 0.01  # of the records: quoted fields without an end are damage, not text
_MAX_OPEN = 2_000  # lines after which a quoted field counts as one that never ends
_SINGLE = (",", "\t", ";", "|", "\x01", "^", "~")
# Signs that may be a delimiter of several characters; quotes and brackets are never in one.
_RUN = re.compile(r" ?[!#$%&*+,\-/:;<=>?@^_`|~\t\x01]{2,9} ?")
# Questions before a delimiter: the sign that ends them is theirs.
_END_OF_TEXT = re.compile(r" ?[?!:%]+[,\t;|\x01] ?")
_QUESTION_MARKS = ("?", "？")
# Every digit has one place to stand: a long run of them is read once.
_NUMBER = re.compile(r"[-+]?(?:\d[\d,]*+(?:\.\d++|(?<=\d))|\.\d++)(?:[eE][-+]?\d++)?%?")
_LONGEST_NUMBER = 64
_IDENTIFIER = re.compile(r"[^\W\d][\w .\-/()#:&?%]{0,39}")
_SENTENCE = re.compile(r"[.!?。！？，,；;]\s|[。！？，；]|[.!?]$")
_KNOWN_NAMES = frozenset(
    (  # noqa: SIM905 - a list of 70 literals is no easier to read
        "id text title label content question answer query response prompt completion input output "
        "url source target lang language date time timestamp name category class author body "
        "summary score user assistant instruction context document sentence review rating comment "
        "abstract article q a idx index key value type tag tags train sentiment message messages "
        "标题 题目 内容 正文 作者 朝代 问题 答案 回答 类别 标签 日期 时间 来源 摘要 编号 序号 科室"
    ).split()
)


@dataclass(frozen=True, kw_only=True, slots=True)
class TableLayout:
    """A file read as a table: dialect, header, column names and the least cells of a row."""

    dialect: Dialect
    header: bool
    columns: tuple[str, ...]
    fewest: int
    multiline: bool
    width: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Trial:
    """What a dialect makes of the head: its records and how many have the usual number of cells."""

    dialect: Dialect
    records: Sequence[Sequence[str]]
    width: int
    share: float


def guess_table(
    lines: Sequence[str],
    *,
    whole: bool,
    stated: bool,
    usual: str,
    delimiter: str | None = None,
    quote: str | None = None,
    columns: Sequence[str] | None = None,
) -> TableLayout | None:
    """Return how the head of a file is a table, or None if it reads like running text.

    A name breaks ties only: it speaks for the delimiters that are `usual` for it.
    """
    trials = [
        trial
        for mark in ([delimiter] if delimiter else _delimiter_candidates(lines))
        if (trial := _best_quote_trial(lines, mark, quote, whole)) is not None
    ]
    good = [
        trial
        for trial in trials
        if _is_table(trial, lines, stated or trial.dialect.delimiter in usual)
    ]
    if good:
        return _describe_layout(_best_trial(good), columns)
    if not (stated or usual):
        return None
    single = _best_quote_trial(lines, delimiter or usual[:1] or ",", quote, whole)
    layout = None if single is None else _describe_layout(single, columns)
    # Lines without one tab are a table of one column where they have a header.
    return layout if layout and (stated or "," in usual or layout.header) else None


_MOST_ABOVE = 20
_COMMENT = re.compile(r"#|//|%|--|;")
_NAMED_COMMENT = re.compile(r"#\w")  # may be the first name of a header


def lines_above(lines: Sequence[str], table: TableLayout | None) -> int:
    """Return how many of the first lines may stand above a header: blank, comments, other cells."""
    first = next((n for n, line in enumerate(lines[:_MOST_ABOVE]) if not line.strip()), 0)
    if first and not (table and table.header):  # a title, and a blank line
        return first + 1
    for number, line in enumerate(lines[:_MOST_ABOVE]):
        cells = split_line(line.removesuffix("\r"), table.dialect) if table else None
        fits = isinstance(cells, list) and table is not None and len(cells) == table.width
        if line.strip() and not _COMMENT.match(line) and (fits or table is None):
            return number
        if fits and _NAMED_COMMENT.match(line):
            return number
    return 0


def _best_trial(trials: Sequence[_Trial]) -> _Trial:
    """The most regular trial; several characters only where no single one does or it is in them."""
    single = [trial for trial in trials if len(trial.dialect.delimiter) == 1]
    best = max(single, key=_trial_rank) if single else None
    longer = [
        trial
        for trial in trials
        if trial not in single
        and (best is None or best.dialect.delimiter in trial.dialect.delimiter)
    ]
    return max(longer, key=_trial_rank) if longer else best or trials[0]


def _trial_rank(trial: _Trial) -> tuple[float, bool, int, int, int, str]:
    """Regular rows, a delimiter that stands beside quotes, wide rows; then the delimiter itself."""
    mark = trial.dialect.delimiter
    usual = -_SINGLE.index(mark) if mark in _SINGLE else 0
    share, apostrophes = round(trial.share, 2), trial.dialect.quote == "'"
    return share, apostrophes, trial.width, len(mark), usual, mark


def _delimiter_candidates(lines: Sequence[str]) -> list[str]:
    sample = [line for line in lines if line.strip()][:100]
    marks = [
        mark
        for mark in _SINGLE
        if (hits := sum(mark in line for line in sample))
        and (hits * 2 > len(sample) or _joins_lines(lines, mark))
    ]
    counts = Counter(run for line in sample for run in dict.fromkeys(_RUN.findall(line)))
    often = [run for run, count in counts.items() if count >= 0.9 * len(sample)]
    return marks + [run for run in often if _is_long_mark(run, sample)]


def _joins_lines(lines: Sequence[str], mark: str) -> bool:
    """Whether the mark delimits records most of whose lines lie inside quoted cells."""
    if not _quotes_close(lines, mark):
        return False
    records = list(_head_records(lines, Dialect(delimiter=mark), whole=False))
    several = sum(len(record) > 1 for record in records)
    return several * 2 > len(records) and any("\n" in cell for row in records for cell in row)


def _is_long_mark(run: str, sample: Sequence[str]) -> bool:
    """Whether the signs of a run are delimiters only as a whole."""
    signs = set(run.strip(" "))
    if "/" in signs or signs == {"_"}:  # an address, a label
        return False
    if _END_OF_TEXT.fullmatch(run):
        return False
    if any(signs <= {sign} for sign in ",\t-=") or len(run.strip(" ")) < 2:
        return False
    rest = "".join(line.replace(run, "") for line in sample)
    if "<" in signs and ">" not in signs and rest.count(">") >= len(sample):  # what it encloses
        return False
    return not any(sign in rest for sign in signs & set(_SINGLE[1:]))


def _best_quote_trial(
    lines: Sequence[str], delimiter: str, quote: str | None, whole: bool
) -> _Trial | None:
    def attempt(quote: str) -> _Trial | None:
        return _try_dialect(lines, Dialect(delimiter=delimiter, quote=quote), whole)

    if quote is not None:
        return attempt(quote)
    if _uses_apostrophes(lines, delimiter):
        return attempt("'")
    plain = attempt("")
    if _quotes_close(lines, delimiter, "'"):
        single = attempt("'")
        if single is not None and (plain is None or single.share > plain.share):
            return single
    if plain is not None and not any('"' in line for line in lines[:_JUDGED_LINES]):
        usual = Dialect(delimiter=delimiter, quote='"')
        return replace(plain, dialect=usual) if delimiter in ",;" else plain
    quoted = attempt('"')
    if plain is None or quoted is None:
        return quoted or plain
    if quoted.share > plain.share or (
        quoted.share >= plain.share - _FEW_UNCLOSED and _quotes_close(lines, delimiter)
    ):
        return quoted
    # Without any evidence: quoting belongs to commas and semicolons, hardly ever to tabs.
    begun = sum(cell.startswith('"') for record in plain.records for cell in record)
    # A cell that begins with a quote, and has another one in its line.
    cell = re.compile(rf'(?:^|{re.escape(delimiter)})"[^"]*"')
    closed = any(map(cell.search, lines[:_JUDGED_LINES]))
    few = begun <= _FEW_UNCLOSED * len(plain.records) and not closed
    return quoted if few and delimiter in ",;" else plain


def _uses_apostrophes(lines: Sequence[str], delimiter: str) -> bool:
    """Whether apostrophes are the quotes: in most lines a cell begins and ends with one."""
    judged = [line for line in lines[:_JUDGED_LINES] if line.strip()]
    mark = re.escape(delimiter)
    cell = re.compile(rf"(?:^|{mark})'(?:[^']|'')*'(?={mark}|\s*$)")
    hits = sum(bool(cell.search(line)) for line in judged)
    return hits > 0.8 * len(judged) and _quotes_close(lines, delimiter, "'")


def _quotes_close(lines: Sequence[str], delimiter: str, quote: str = '"') -> bool:
    """Whether cells that begin with a quote end where the next cell or line begins."""
    text = "\n".join(lines[:_JUDGED_LINES])
    if quote not in text:
        return False
    begin = rf"(?:^|(?<=\n)|(?<={re.escape(delimiter)}))"
    end = rf"(?={re.escape(delimiter)}|\r?\n|$)"
    cell = re.compile(rf"{begin}{quote}(?:[^{quote}]|{quote}{quote})*+{quote}({end})?")
    endings = [match.group(1) for match in cell.finditer(text)]
    closed = sum(ending is not None for ending in endings)
    return bool(closed) and closed >= 0.98 * len(endings)


def _try_dialect(lines: Sequence[str], dialect: Dialect, whole: bool) -> _Trial | None:
    records = list(_head_records(lines, dialect, whole))
    if not records:
        return None
    counts = Counter(len(record) for record in records)
    width, times = max(counts.items(), key=lambda item: (item[1], item[0]))
    first = len(records[0])
    if counts[first] >= 0.5 * times:
        width, times = first, counts[first]
    return _Trial(dialect=dialect, records=records, width=width, share=times / len(records))


def _head_records(lines: Sequence[str], dialect: Dialect, whole: bool) -> Iterator[list[str]]:
    """The first records of the head; one that never ends counts as a record of one cell."""
    started, since, number = None, 0, 0
    for line in lines:
        if started is None and not line.strip():
            continue
        line = line.removesuffix("\r")
        if started is not None and begins_record(line, dialect):
            yield ["unfinished"]
            started, since = None, 0
        cells = split_line(line, dialect, started)
        since += 1
        if isinstance(cells, list):
            started = None
        elif since <= _MAX_OPEN:
            started = cells
            continue
        else:
            cells, started = [line], None
        yield cells
        since = 0
        number += 1
        if number >= RECORDS:
            return
    if started is not None and whole:
        yield ["unfinished"]


def _is_table(trial: _Trial, lines: Sequence[str], stated: bool) -> bool:
    mark = trial.dialect.delimiter
    if trial.width < 2 or (len(mark) > 1 and len(trial.records[0]) != trial.width):
        return False
    if not any(record[0] for record in trial.records):  # a sign that lines begin with
        return False
    if stated:
        return trial.share >= 0.5
    if trial.share < 0.95 or len(trial.records) < 2:
        return False
    if mark in ("\t", "\x01") or len(mark) > 1:
        return True
    # Prose has commas too: a table shows itself by its header, its quotes or its numbers.
    return len(trial.records) >= 3 and (
        _header_points(trial) > 0
        or _quotes_close(lines, mark)
        or _numeric_columns(trial.records) > 0
    )


def _describe_layout(trial: _Trial, columns: Sequence[str] | None) -> TableLayout:
    header = columns is None and _header_points(trial) > 0
    width = len(trial.records[0]) if header else trial.width
    names = tuple(columns) if columns else None
    if names is None:
        names = column_names(trial.records[0] if header else [""] * width)
    return TableLayout(
        dialect=trial.dialect,
        header=header,
        columns=names,
        fewest=_fewest_cells(trial.records, len(names)),
        width=trial.width,
        multiline=any("\n" in cell for record in trial.records for cell in record),
    )


def _fewest_cells(records: Sequence[Sequence[str]], width: int) -> int:
    """The least number of cells that a tenth of the rows has: these just lack their last cells."""
    counts = Counter(len(record) for record in records)
    usual = [size for size, times in counts.items() if times * 10 >= len(records) and size < width]
    return max(1, min([*usual, width]))


def _is_number(cell: str) -> bool:
    text = cell.strip()
    return len(text) <= _LONGEST_NUMBER and bool(_NUMBER.fullmatch(text))


def _numeric_columns(records: Sequence[Sequence[str]]) -> int:
    body = [record for record in records[1:] if len(record) == len(records[0])]
    if not body:
        return 0
    columns = zip(*body, strict=True)
    return sum(
        all(_is_number(cell) for cell in column if cell) and any(column) for column in columns
    )


def _header_points(trial: _Trial) -> float:
    """Above 0 if the first record looks like names of columns rather than a row."""
    first, *rest = [record for record in trial.records if len(record) == trial.width] or [[]]
    if not first or first != trial.records[0]:
        return -1.0
    if any(_is_number(cell) for cell in first):
        return -10.0
    if len(first) == 1 and not rest:
        return -1.0
    names = sum(looks_like_name(cell) for cell in first)
    points = 2.0 * names / len(first) - 1.5 - (len(set(first)) < len(first))
    points += sum(cell.strip().lower() in _KNOWN_NAMES for cell in first)
    return points + sum(
        _column_points(cell, [row[i] for row in rest]) for i, cell in enumerate(first)
    )


def looks_like_name(cell: str) -> bool:
    """Return whether a cell is short and not a sentence; an empty first cell also counts."""
    text = cell.strip()
    return not text or (bool(_IDENTIFIER.fullmatch(text)) and not _SENTENCE.search(text))


def _column_points(cell: str, body: Sequence[str]) -> float:
    """How much a column's first value differs from the others the way a name does."""
    filled = [value for value in body if value]
    if not filled:
        return 0.0
    if all(_is_number(value) for value in filled):
        return 2.0
    if cell in filled:
        return -3.0
    questions = sum(value.rstrip().endswith(_QUESTION_MARKS) for value in filled)
    if cell.rstrip().endswith(_QUESTION_MARKS) and questions * 2 > len(filled):
        return -2.0
    lengths = sorted(len(value) for value in filled)
    middle = lengths[len(lengths) // 2]
    if middle > 3 * len(cell) and middle > 20 and looks_like_name(cell):
        return 1.0
    return -1.0 if len(cell) > 60 else 0.0


def header_points(records: Sequence[Sequence[str]]) -> float:
    """Return how much the first of some records of one width looks like a header: above 0."""
    width = len(records[0])
    dialect = Dialect(delimiter=",")
    return _header_points(_Trial(dialect=dialect, records=records, width=width, share=1.0))


def numbered_records(lines: Sequence[str], table: TableLayout) -> Iterator[tuple[int, list[str]]]:
    """Yield the first records with their lines, from 1, up to one of several lines or too wide."""
    for number, line in enumerate(lines[:RECORDS], start=1):
        cells = split_line(line.removesuffix("\r"), table.dialect)
        if not isinstance(cells, list) or len(cells) > table.width:
            return
        if any(cell.strip() for cell in cells):
            yield number, [*cells, *[""] * (table.width - len(cells))]
