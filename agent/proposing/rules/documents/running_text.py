"""Draft documents from columns of running text, and recognize what only looks like running text."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from ingot.agent.proposing.columns import (
    Column,
    View,
    has_several,
    is_path_inside,
    judged_once,
    list_path,
    outer_names,
    text_of,
    values_at,
)
from ingot.agent.proposing.names import CLEAR, NAMED, PLAIN, name_group, name_strength, spell_name
from ingot.agent.proposing.proposal import Evidence
from ingot.agent.proposing.readings import Draft, has_documents, join_parts
from ingot.agent.proposing.rules.answers.sides import detect_language
from ingot.agent.proposing.rules.documents.current_rows import current_rows_condition
from ingot.agent.proposing.rules.documents.typed_blocks import find_typed_blocks, keep_elements
from ingot.agent.proposing.rules.text_copies import (
    ends_in_site_name,
    find_cut_text,
    holds_column,
    is_about_text,
    is_filled_template,
    is_marked_copy,
    restates,
)
from ingot.agent.proposing.speakers import TURN_NAMES
from ingot.converters.paths import Node
from ingot.converters.rows import Json, MappingDocument
from ingot.converters.sources.text_kinds import count_letters

_LETTERS = 0.35  # of all signs
_ENDLESS = 40  # characters without a blank that are no word
_PIECE = 24  # characters of a keyword
_KEYWORD_BREAK = re.compile(r"[_;|、；,] ?")
_SENTENCE_END = re.compile(r"[.!?](?:\s|$)|[。！？，]")
_SEPARATOR = re.compile(r"<[^<> ]{1,30}>|[^\w\s]{1,80}")
_WORD = re.compile(r"[^\W\d_]{4,}")
NOT_TEXT_SLOTS = name_group("slots_of_no_text")


def off_text_strength(column: Column) -> float:
    """Score how far the name says that a column is about the text instead of being text."""
    return max(column.named(kind) for kind in (*NOT_TEXT_SLOTS, "label"))


@judged_once
def may_be_text(column: Column) -> bool:
    """Return whether a column may be running text, by its values first and its name second."""
    if column.nature != "text" or column.constant or not _is_written_in_letters(column):
        return False
    if column.looks("json") > 0.5:
        return False  # what lies in it is read where it is parsed
    is_prose = (
        column.looks("sentence") >= 0.5 and column.words >= 8 and not _is_keyword_text(column)
    )
    never = max(column.named(kind) for kind in ("rejected", "example", "tools", "author"))
    if is_prose and never < 0.95 and not _is_token_list(column):
        return True
    about = max(column.named("body"), column.named("title")) < 0.95 <= off_text_strength(column)
    return not (about or _is_token_list(column) or _is_tag_list(column) or _is_keyword_text(column))


def _is_token_list(column: Column) -> bool:
    """A list of single words or signs: a tokenized text, or tags."""
    if not column.many:
        return False
    items = [v for row in column.values for v in row if isinstance(v, str)][:2000]
    plain = [i for i in items if i.strip()]
    single = sum(len(i) <= 3 or (len(i.split()) == 1 and i.isascii()) for i in plain)
    return bool(plain) and single > 0.85 * len(plain)


def _is_tag_list(column: Column) -> bool:
    if not column.many or _ended_share(column) > 0.8:
        return False  # pieces of sentences, such as those in bold, are no tags
    facts = column.facts
    return facts.looks.get("sentence", 0.0) < 0.1 and facts.looks.get("prose", 0.0) < 0.3


def _is_keyword_text(column: Column) -> bool:
    """Several short pieces between signs, and no sentence: keywords in one text."""
    texts = [text for text in column.present[:200] if not _SENTENCE_END.search(text)]
    pieces = [_KEYWORD_BREAK.split(text.strip()) for text in texts]
    short = [p for p in pieces if len(p) >= 3 and all(len(part) <= _PIECE for part in p)]
    return len(short) > 0.8 * len(column.present[:200])


def running_text_share(column: Column) -> float:
    """Return the share of the texts that are sentences or several words."""
    pieces = _ended_share(column) if column.path.count("[*]") > 1 else 0.0
    return max(column.looks("prose"), column.looks("sentence"), column.looks("code"), pieces)


@judged_once
def _ended_share(column: Column) -> float:
    """Share of the rows whose texts, put together, have the end of a sentence."""
    ended = sum(bool(_SENTENCE_END.search(text)) for text in column.present)
    return ended / max(1, len(column.present))


def _is_written_in_letters(column: Column) -> bool:
    """Whether it is written in letters and words: vectors, logs of numbers, genes are not."""
    texts = [text[:2000] for text in column.present[:100]]
    pieces = [piece for text in texts for piece in text.split()]
    signs = sum(map(len, pieces))
    endless = sum(len(piece) for piece in pieces if len(piece) > _ENDLESS and piece.isascii())
    return sum(map(count_letters, texts)) > _LETTERS * signs and endless < 0.6 * signs


@judged_once
def is_names_only(column: Column) -> bool:
    """Return whether the texts are names of people, films or goods: a few capitalized words."""
    words = [word for text in column.present[:200] for word in _WORD.findall(text)]
    capital = sum(word[0].isupper() and word[1:].islower() for word in words)
    return column.words < 8 and capital > 0.95 * len(words)


def is_separated(column: Column) -> bool:
    """Return whether lines such as `<|endoftext|>`, `%` or `-----` separate texts."""
    usual = Counter(text.strip() for text in column.present if _SEPARATOR.fullmatch(text.strip()))
    times = max(usual.values(), default=0)
    return times >= 3 and times >= 0.05 * len(column.present)


_MOST_PARTS = 40  # columns that are joined to one text
_LISTS_LOOKED_AT = 60  # rows
_UNCLEAR = 0.55  # the most where a part may be another text
_JSON_SHARE = 0.9
_CUT = 0.35  # the most that pieces of texts may claim
_NUMBERED = re.compile(r"(.*?\D)\d+[A-Za-z]?")


def _text_weight(column: Column) -> float:
    """How much text a column carries, a little more with a body's name."""
    varied = 1.0 if _is_varied(column) else 0.05
    return varied * column.chars * (1 + 0.5 * column.named("body")) * column.fill


@judged_once
def _is_varied(column: Column) -> bool:
    """Whether the texts of many rows differ: a licence, a signature, a notice come again."""
    return len(column.present) < 5 or column.distinct > 0.5 * len(column.present)


def is_prose_part(column: Column) -> bool:
    """Return whether a column is a title, or running text of the record itself."""
    if not may_be_text(column) or not _is_varied(column):
        return False
    title = column.named("title") >= CLEAR and _is_heading_column(column)
    prose = column.looks("prose") > 0.5 and column.words >= 4 and off_text_strength(column) < 0.8
    return title or (prose and not _names_a_thing(column))


def _is_described(column: Column) -> bool:
    return any(name_strength(name, "metadata") >= PLAIN for name in outer_names(column.path))


def _belongs_to_text(column: Column, body: Column) -> bool:
    """Whether a column belongs into the text: a title, or prose that the body does not hold."""
    if column.path == body.path or not may_be_text(column) or holds_column(body, column, 0.5):
        return False
    if not _is_varied(column) and column.named("title") < CLEAR:
        return False
    if holds_column(column, body, 0.8):
        return False
    if _is_described(column) and not _is_described(body):
        return False
    stem = _numbered_stem(column)
    sibling = len(spell_name(stem)) > 1 and stem == _numbered_stem(body)
    if _is_made_of_text(column, body) or (not sibling and restates(column, body)):
        return False
    again = column.nested and has_several(column)
    if again and all(len(set(map(text_of, row))) < 2 for row in column.values):
        return False  # what is said once of the whole is not said again at each part
    title = column.named("title") >= CLEAR and not column.many and _is_heading_column(column)
    title = title or _is_heading_of(column, body)
    lead = column.named("lead") >= NAMED and column.words >= 3
    known = max(map(column.named, ("body", "question", "answer", "context")))
    least = 1.5 if column.position == body.position - 1 else 3.5  # a heading is right before it
    is_distinct = column.distinct > 0.9 * len(column.present)
    if column.nameless and is_distinct and column.words >= least:
        return True
    prose = column.looks("prose") > 0.6 and column.words >= 6 and off_text_strength(column) < 0.8
    prose = prose and not _names_a_thing(column)
    return title or lead or prose or (known >= 0.95 and column.looks("prose") > 0.4)


def _is_made_of_text(column: Column, body: Column) -> bool:
    """A preview, a machine's summary, a note, or words that come in every row."""
    about = is_about_text(column, body) and not is_about_text(body, column)
    filled = is_filled_template(column) and not is_filled_template(body)
    return about or (filled and column.named("title") < NAMED) or ends_in_site_name(column)


def _is_heading_of(column: Column, body: Column) -> bool:
    """`review_title` of `review_text`: a heading by name, however short."""
    words, text = spell_name(column.name).split("_"), spell_name(body.name).split("_")
    return len(words) == 2 and words[1] == "title" and len(text) > 1 and words[0] == text[0]


def _names_a_thing(column: Column) -> bool:
    """`product_name`: what something is called, however long, is no text about it."""
    return spell_name(column.name).endswith("_name") and column.looks("sentence") < 0.5


def _distinct_columns(columns: Sequence[Column]) -> list[Column]:
    """Columns without those whose text another one holds (`title`, `page.title_full`)."""
    distinct: list[Column] = []
    for column in columns:
        if not any(holds_column(other, column, 0.8) for other in distinct):
            distinct = [c for c in distinct if not holds_column(column, c, 0.8)]
            distinct.append(column)
    return distinct


def _is_of_numbered_family(column: Column, joined_ones: Sequence[Column]) -> bool:
    """Whether it is one of a numbered family (`section_1`, `section_7A`) that is in the text."""
    stem = _numbered_stem(column)
    is_named = len(spell_name(stem)) > 1  # `F03` and `F04` are codes of fields, not sections
    family = [c for c in joined_ones if is_named and _numbered_stem(c) == stem]
    return len(family) >= 2 and column.nature in ("text", "label") and not column.many


def _numbered_stem(column: Column) -> str:
    match = _NUMBERED.fullmatch(column.path)
    return match.group(1) if match else ""


@judged_once
def _is_heading_column(column: Column) -> bool:
    """Headings are words; a single one is a heading too where every row has its own, of letters."""
    if column.words >= 1.5:
        return True
    spelt = sum(text.replace(" ", "").isalpha() for text in column.present)
    is_distinct = column.distinct > 0.9 * len(column.present)
    return is_distinct and spelt > 0.7 * len(column.present)


def _is_announcement(column: Column) -> bool:
    """Whether a text only announces another: without that there is nothing to read."""
    is_lead = column.named("lead") >= NAMED and column.looks("sentence") < 0.8
    return column.named("title") >= NAMED or is_lead or column.words < 6


def _part_order(column: Column, body: Column) -> tuple[int, int]:
    first = 0 if column.named("title") >= CLEAR else 1 if column.named("opening") >= CLEAR else 2
    return 2 if column.path == body.path else first, column.position


def _body_quality(body: Column) -> float:
    """How far a column is running text worth reading on, 0..1."""
    named = max(body.named("body"), body.named("lead"), 0.6 * body.named("title"))
    length = min(1.0, body.words / 12)
    varied = min(1.0, body.distinct / max(1, 0.5 * len(body.present)))
    kind = 0.4 if is_names_only(body) else 1.0
    score = 0.35 * length + 0.4 * running_text_share(body) + 0.25 * named
    return kind * score * (0.4 + 0.6 * varied)


def joins_documents(view: View, paths: Iterable[str]) -> str:
    """Return the list whose elements are joined though each looks like a document, or ""."""
    if any(c.named_own("title") >= PLAIN and "[*]" not in c.path for c in view.columns):
        return ""  # what has a title as a whole has chapters
    heads = {p[: p.rfind("[*]") + 3] for p in paths if "[*]" in p and not p.endswith("[*]")}
    for element in sorted(heads):
        rows = view.nodes[:_LISTS_LOOKED_AT]
        elements = [Node(v) for row in rows for v in values_at(element, row) if isinstance(v, dict)]
        if len(elements) > 1.2 * len(rows) and has_documents(View.over(elements[:200])):
            return element
    return ""


def _in_language_of(body: Column, columns: Sequence[Column]) -> list[Column]:
    """The columns that are not the same in another language: translations, glosses."""
    language = _language_of(body) if columns else None
    return [c for c in columns if language is None or _language_of(c) in (language, None)]


@judged_once
def _language_of(column: Column) -> str | None:
    """The language of nearly all longer texts of a column, None where they have none or several."""
    code, share = detect_language([text for text in column.present[:20] if len(text) >= 40])
    return code if share > 0.9 else None


def _is_cut_elsewhere(pieces: Column, columns: Sequence[Column]) -> bool:
    """Whether a list is another column cut in pieces: sentences, lines, segments of a recording."""
    whole = [c for c in columns if pieces.many and not c.many and holds_column(c, pieces, 0.8)]
    return any(not is_marked_copy(c, [pieces]) for c in whole)


def document_drafts(view: View) -> list[Draft]:
    """Draft mappings for rows that hold a text of their own, best first."""
    columns = (*view.columns, *view.deep)
    candidates = [c for c in columns if may_be_text(c) and not c.path.startswith("^")]
    texts_around = [*candidates, *(c for c in view.columns if c.looks("json") > _JSON_SHARE)]
    candidates = [
        c
        for c in candidates
        if not (_is_cut_elsewhere(c, candidates) or is_marked_copy(c, texts_around))
    ]
    # Without summaries and the like, unless nothing of some length is left.
    known = [c for c in candidates if c.named("body") >= CLEAR]
    real = [c for c in candidates if c in known or not is_filled_template(c)]
    real = [c for c in real if not is_about_text(c, c)]
    candidates = (
        real
        if 3 * sum(c.chars for c in real) > sum(c.chars for c in candidates)
        else list(candidates)
    )
    bodies = sorted(candidates, key=lambda c: (-_text_weight(c), c.position))[:3]
    drafts = [_document_draft(view, body, bodies) for body in bodies]
    return sorted((d for d in drafts if d.score > 0.2), key=lambda d: -d.score)


def _find_kept_value(view: View, body: Column) -> tuple[Json, list[str], float]:
    """The body's value without elements that are no text, its paths, and its most confidence."""
    value, paths = _find_body_value(view, body)
    if "[*]." not in body.path:
        return value, paths, 1.0
    filtered, most = keep_elements(view, value, body.path[: body.path.index("[*]") + 3])
    return filtered, paths, most


def _find_body_value(view: View, body: Column) -> tuple[Json, list[str]]:
    """The body's value, with the headings of its sections, and the paths it takes."""
    if blocks := find_typed_blocks(view, body.path):
        return blocks.value(view), blocks.paths
    if "[*]" not in body.path or (body.path.endswith("[*]") and body.path.count("[*]") == 1):
        return body.path, [body.path]
    head = list_path(body.path)
    element = "[*]" if head == "$" else f"{head}[*]"
    rest = body.path.removeprefix(element)
    headings = [
        c
        for c in view.columns
        if c.path.startswith(element)
        and c is not body
        and c.named_own("title") >= CLEAR
        and 3 * c.facts.distinct > c.facts.filled  # the type of a section is no heading
        and c.words >= 0.5
        and c.fill > 0.5
        and any(len(set(row)) > 1 for row in c.values)  # one title of the whole heads no section
    ]
    if not headings:
        return body.path, [body.path]
    inner = [
        headings[0].path.removeprefix(element).removeprefix("."),
        rest.removeprefix(".") or "$",
    ]
    return {"each": element, "concat": inner}, [headings[0].path, body.path]


def _most_confidence(view: View, body: Column) -> float:
    """The most that a draft may claim: pieces of texts and turns of dialogues are no documents."""
    spoken = spell_name(body.name) in TURN_NAMES
    turns = spoken and any(c.named_own("speaker") >= NAMED for c in view.columns)
    return _CUT if turns or (len(view.columns) == 1 and is_separated(body)) else 1.0


def _most_of_parts(body: Column, columns: Sequence[Column]) -> float:
    """Less where a text that nothing calls a part of the body is as good as half as long."""
    slots = ("body", "title", "lead", "opening", "context", "question", "answer")
    strange = [
        c
        for c in columns
        if max(map(c.named, slots)) < 0.5
        and 2 * c.chars > body.chars
        and not (_numbered_stem(c) and _numbered_stem(c) == _numbered_stem(body))
        and not (outer_names(c.path) and outer_names(c.path) == outer_names(body.path))
    ]
    return _UNCLEAR if strange else 1.0


def _document_draft(view: View, body: Column, bodies: Sequence[Column]) -> Draft:
    value, paths, readable = _find_kept_value(view, body)
    prompts = max(body.named("question"), body.named("turns")) >= 0.9 and body.named("body") < CLEAR
    free = [c for c in view.columns if c.path not in paths]
    if len(paths) > 1:  # a list has been read with all that belongs to it
        free = [c for c in free if not is_path_inside(c.path, list_path(paths[0]))]
    free = [c for c in free if not is_marked_copy(c, [*free, body])]
    joining = sorted(
        (c for c in free if _belongs_to_text(c, body)), key=lambda c: (-c.chars, c.position)
    )
    joining = _in_language_of(body, joining)
    columns = _distinct_columns(sorted(joining[:_MOST_PARTS], key=lambda c: c.position))
    columns += [c for c in free if c not in columns and _is_of_numbered_family(c, [body, *columns])]
    parts = sorted([*columns, body], key=lambda c: _part_order(c, body))
    whole = sum(_text_weight(c) for c in bodies)
    used_bodies = [c for c in bodies if c.path in paths]  # blocks of several types have several
    share = sum(_text_weight(c) for c in used_bodies) / whole if whole else 0.0
    if pieces := find_cut_text(view, body):
        value, paths = {"concat": list(pieces), "sep": ""}, [*paths, *pieces]
        parts = [c for c in parts if c is body or c.path not in pieces]
    text: list[Json] = [value if c is body else c.path for c in parts]
    runner = next((c.path for c in bodies if c.path != body.path), None)
    quality = max(map(_body_quality, (body, *used_bodies)))
    document: MappingDocument = {"text": join_parts(text)}
    if all(map(_is_announcement, columns)) and columns and len(body.present) < len(body.texts):
        document["where"] = [{"path": body.path, "min_chars": 1}]
    used = frozenset([*paths, *(c.path for c in parts)])
    marks: list[Json] = sorted({t.strip() for t in body.present} & set(name_group("null_marks")))
    if marks and not body.many:
        document["where"] = [*document.get("where", ()), {"path": body.path, "not_in": marks}]
    good, most = current_rows_condition(view, used)
    if good:
        document["where"] = [*document.get("where", ()), *good]
    apart = 0.5 if joins_documents(view, paths) else 1.0
    return Draft(
        kind="pt",
        body=document,
        score=min(0.97, apart * quality * (0.7 + 0.3 * share)),
        why=f"{body.path} holds running text",
        explicit=not prompts,
        most=min(most, readable, _most_confidence(view, body), _most_of_parts(body, columns)),
        used=used,
        evidence=(
            Evidence(
                target="text",
                choice=", ".join(map(str, text)),
                why=f"{body.path}: {body.words:.0f} words a row, "
                f"{running_text_share(body):.0%} running text",
                runner_up=runner,
                confidence=quality,
            ),
        ),
    )
