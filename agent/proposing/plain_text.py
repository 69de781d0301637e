"""Files of plain text: whether a row is a line, or a file as a whole.

Blank lines part the paragraphs of a book as they part records, so names, headings and speech in
quotes decide with them; where these do not agree, the proposal says so and is for a person.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Literal

from ingot.agent.proposing.columns import parse_whole_number
from ingot.agent.proposing.readings import Draft, Reading, plain_reading
from ingot.converters.sources import Source
from ingot.converters.sources.documents.kinds import DOCUMENTS, is_settings
from ingot.converters.sources.facts import SourceSpec
from ingot.converters.sources.formats.line_kinds import LISTS
from ingot.converters.sources.sample import Sample, draw_sample
from ingot.converters.sources.text_kinds import count_words

_FILES = 6  # from so many short files on each is a text of its own
_HEADS = 20  # lines at the beginning that may say how a file is made
_LINES = 80  # of a short file
_BLOCKS = 5
_IN_BLOCKS = 0.45  # the most that a line may claim where texts are blocks of lines
_SPLITS = re.compile(r"(?:^|[\W_])(?:train|valid|validation|val|dev|test)(?:ing)?(?:$|[\W_\d])")
_BLANK = re.compile(r"\n[^\S\n]*\n")
_NO_LETTERS = re.compile(r"[\W\d_]+")
_CHAPTER = re.compile(
    r"chap|kapitel|cap[ií]t|chapitre|глава|rozdzia|\bch[\W\d_]|part[\W_]*[ivx]|\bact\b|scene|canto"
    r"|\bbook|\bvol|band|tome|第.{1,6}[章回节節卷篇]|卷|章|回"
)
_HEAD = 1 << 16  # characters of a file that are looked at
_PARAGRAPHS = 12
_PARAGRAPH_WORDS = 15
_SHARE = 0.8
_TITLE = 90  # characters
_SPEECH = 0.1  # of the paragraphs
_OPENING = frozenset("\"'“„‘«»「『—–-")
_UNCLEAR = "a line is a text; or each file is one work, which `source.root` $ reads whole"
_STOPS = re.compile(r"[.!?。！？…\"'”’」』)）:：;；]$")


def plain_text_readings(
    source: Source, sample: Sample, lines: Reading
) -> tuple[Reading, list[Reading]]:
    """Return the rows with a score for plain lines, and readings of text files as one row each."""
    formats = {file.facts.format for file in source.files}
    if formats != {"text"} or source.spec.root or not sample.rows:
        return lines, []
    if any(file.facts.shape & frozenset(LISTS) for file in source.files):
        return replace(lines, factor=0.5 * lines.factor), []
    texts = [row.value.get("text", "") for row in sample.rows if isinstance(row.value, dict)]
    files = draw_sample(source.with_spec(replace(source.spec, format="text", root="$")))
    whole_texts = [row.value["text"] for row in files.rows]
    books = "no" if is_hard_wrapped(texts) else find_books(source, whole_texts)
    whole = is_hard_wrapped(texts) or _is_text_per_file(source, whole_texts) or books == "yes"
    most = _IN_BLOCKS if not whole and (_is_in_blocks(whole_texts) or books == "maybe") else 1.0
    facts = {**source.guessed.to_document(), "format": "text", "root": "$"}
    reading = plain_reading(files, facts, 1.1 if whole else 0.7, "each file is a record")
    if books == "maybe" and not whole:  # the mapping states what is in doubt
        lines = replace(lines, source={**facts, "root": "[*]"}, why=_UNCLEAR)
    elif not any(file.facts.shape & frozenset(LISTS) for file in source.files):
        lines = replace(lines, why="each line is a record")
    return replace(lines, most=most), [*_table_readings(source, texts), replace(reading, most=most)]


_SETTINGS_MOST = 0.5  # of YAML alone: it may hold data that a text of it hides


def document_draft(source: Source) -> Draft | None:
    """Return the draft of files that are one document each, as their formats say."""
    if not source.files or any(file.facts.format not in DOCUMENTS for file in source.files):
        return None
    whole = sum(file.bytes for file in source.files)
    settings = sum(file.bytes for file in source.files if is_settings(file.name))
    layouts = Counter(file.facts.layout for file in source.files)
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in layouts.most_common())
    return Draft(
        kind="pt",
        body={"text": "text"},
        score=0.99,
        why=f"each file is a document ({kinds})",
        used=frozenset({"text"}),
        most=_SETTINGS_MOST if 2 * settings > whole else 1.0,
    )


def _table_readings(source: Source, lines: Sequence[str]) -> list[Reading]:
    """Lines of cells below lines that begin with `#`: an export that says so how it is made."""
    heads = [line for line in lines[:_HEADS] if line.startswith("#")]
    rows = [line for line in lines if line.strip() and not line.startswith("#")]
    if not heads or not rows or not lines[0].startswith("#"):
        return []
    counts = {mark: Counter(row.count(mark) for row in rows).most_common(1)[0] for mark in "\t;|"}
    mark = max(counts, key=lambda sign: counts[sign][0] > 0 and counts[sign][1])
    width, alike = counts[mark]
    if not width or alike < _SHARE * len(rows):
        return []
    quoted = any(row.startswith('"') or f'{mark}"' in row for row in rows)
    names = _column_names(heads, mark, width + 1)
    facts = {"format": "csv", "delimiter": mark, "quote": '"' * quoted, "columns": names}
    spec = SourceSpec.from_document(facts)
    table = source.with_spec(replace(spec, files=source.spec.files))
    why = "cells below lines that begin with #"
    return [plain_reading(draw_sample(table), {**source.guessed.to_document(), **facts}, 1.0, why)]


def _column_names(heads: Sequence[str], mark: str, width: int) -> list[str]:
    """The names that lines like `#columns:a;b` or `#tags column:7` give to columns."""
    names = [f"c{place}" for place in range(width)]
    for head in heads:
        key, _, value = head[1:].partition(":")
        name, _, what = key.partition(" ")
        place = parse_whole_number(value) or 0
        if key == "columns" and value.count(mark) == width - 1:
            return value.split(mark)
        if what == "column" and 0 < place <= width and name not in names:
            names[place - 1] = name
    return names


def find_books(source: Source, texts: Sequence[str]) -> Literal["yes", "maybe", "no"]:
    """Return whether each file is one work or chapter, in paragraphs between blank lines.

    Headings of chapters say so whatever the files are called; a single file may hold several works.
    """
    blocks = [_head_blocks(text) for text in texts]
    stems = [file.name.rpartition("/")[2].partition(".")[0].lower() for file in source.files]
    splits = any(map(_SPLITS.search, stems))
    prose, headed, talks = (
        sum(map(holds, blocks)) >= _SHARE * len(blocks)
        for holds in (_are_paragraphs, _has_chapter, _is_told)
    )
    if not blocks or not prose or (splits and not headed):
        return "no"
    several, names = len(stems) > 1, _name_kind(stems)
    if several and talks and not splits and (names == "works" or headed):
        return "yes"
    return "maybe" if talks or (several and names != "parts") else "no"


def _head_blocks(text: str) -> list[str]:
    """What stands between blank lines at the beginning of a text, a cut last one left out."""
    blocks = [block.strip() for block in _BLANK.split(text[:_HEAD]) if block.strip()]
    return blocks[:-1] if len(text) > _HEAD else blocks


def _are_paragraphs(blocks: Sequence[str]) -> bool:
    """Whether blocks are paragraphs on one line each: running text, in sentences."""
    if len(blocks) < _PARAGRAPHS:
        return False
    one_line = sum("\n" not in block for block in blocks)
    ended = sum(bool(_STOPS.search(block)) for block in blocks)
    words = sum(map(count_words, blocks)) / len(blocks)
    return min(one_line, ended) > _SHARE * len(blocks) and words >= _PARAGRAPH_WORDS


def _name_kind(stems: Sequence[str]) -> Literal["works", "parts", "unclear"]:
    """Whether names are those of works or chapters, or number the parts of one collection."""
    words = [_NO_LETTERS.sub(" ", stem).strip() for stem in stems]
    if all(words) and len(set(words)) > _SHARE * len(words):
        return "works"
    if not any(words):
        return "unclear"
    return "works" if all(map(_CHAPTER.search, stems)) else "parts"


def _is_told(blocks: Sequence[str]) -> bool:
    """Whether a text begins with a title, has chapters, or paragraphs of speech."""
    speech = sum(block[0] in _OPENING for block in blocks) > _SPEECH * len(blocks)
    titled = any(_is_short(block) and not _STOPS.search(block) for block in blocks[:1])
    return speech or titled or _has_chapter(blocks)


def _has_chapter(blocks: Sequence[str]) -> bool:
    """Whether one of the first blocks is the heading of a chapter."""
    heads = [block.strip("#*=_ ").lower() for block in blocks[:_HEADS] if _is_short(block)]
    return any(map(_CHAPTER.match, heads))


def _is_short(block: str) -> bool:
    return len(block) <= _TITLE and "\n" not in block


def is_hard_wrapped(texts: Sequence[str]) -> bool:
    """Return whether lines are pieces of a running text: most stop in the middle of a sentence."""
    lines = [t.strip() for t in texts if t.strip()]
    if len(lines) < 4:
        return False
    open_end = sum(not _STOPS.search(t) for t in lines)
    low = sum(t[:1].islower() for t in lines)
    blank = 1 - len(lines) / len(texts)
    size = sorted(len(t) for t in lines)
    even = size[len(size) // 2] > 0.6 * size[int(0.95 * (len(size) - 1))]
    return (
        low > 0.2 * len(lines)
        or (blank > 0.15 and open_end < 0.9 * len(lines))
        or (open_end > 0.5 * len(lines) and even and size[-1] < 120 and blank > 0)
    )


def _is_text_per_file(source: Source, texts: Sequence[str]) -> bool:
    """Many short files with names of their own: articles, reviews, poems in a folder."""
    stems = [file.name.rsplit("/", 1)[-1].lower() for file in source.files]
    sizes = [len(text.split("\n")) for text in texts]
    named = not any(_SPLITS.search(stem) for stem in stems)
    return len(stems) >= _FILES and named and bool(sizes) and 2 <= median(sizes) <= _LINES


def _is_in_blocks(texts: Sequence[str]) -> bool:
    """Whether blank lines part blocks of several lines each, in files of many texts."""
    blocks = [block for text in texts[:20] for block in re.split(r"\n\s*\n", text[: 1 << 16])]
    several = sum(len(block.strip().split("\n")) > 1 for block in blocks)
    return len(blocks) >= _BLOCKS * max(1, len(texts)) and several > 0.7 * len(blocks)
