"""Candidates: every draft of every reading of a source, as a whole mapping, not yet run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ingot.agent.proposing.columns import Column, View, is_path_inside, text_of, values_at
from ingot.agent.proposing.plain_text import document_draft, plain_text_readings
from ingot.agent.proposing.proposal import value_strings
from ingot.agent.proposing.readings import (
    Draft,
    Reading,
    element_readings,
    has_documents,
    parse_json_columns,
    plain_reading,
    rows_by_shape,
)
from ingot.agent.proposing.rules.answers.accepted_answers import (
    Answers,
    list_answers,
    marked_elements,
)
from ingot.agent.proposing.rules.answers.question_answer import question_answer_drafts
from ingot.agent.proposing.rules.context_columns import good_rows_condition
from ingot.agent.proposing.rules.conversations import row_groups
from ingot.agent.proposing.rules.conversations.conversations import conversation_drafts
from ingot.agent.proposing.rules.conversations.row_groups import LEAST_OFTEN, SEVERAL, RowOrder
from ingot.agent.proposing.rules.documents.running_text import document_drafts
from ingot.agent.proposing.rules.documents.trees import section_tree_drafts, tree_drafts
from ingot.converters.errors import SourceError
from ingot.converters.mapping.check import SampleRun
from ingot.converters.paths import Node
from ingot.converters.rows import Json, MappingDocument
from ingot.converters.sources import Source
from ingot.converters.sources.facts import RootCandidate
from ingot.converters.sources.sample import Sample, draw_sample

_OF_A_DOCUMENT = frozenset({"text", "front_matter.title"})  # what is beside these is of the file


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A draft in its reading, as a whole mapping, and what it makes of the sample."""

    draft: Draft
    reading: Reading
    score: float
    document: MappingDocument
    run: SampleRun | None = None


GATHERED_SCORE = 0.8  # of a draft of rows as turns that leaves no other reading of them
_TABLE_ROWS = 10  # rows
_FEW_FILES = 2  # tell not yet whether a file is a row
_FEWEST_KEYS = 5  # of an object whose keys are ids


def source_readings(source: Source, sample: Sample) -> Iterator[Reading]:
    """Yield every way to read the source: its own first, then other roots, with variants."""
    table = bool(source.roots and source.roots[0].orient)
    few = len(sample.rows) <= _FEW_FILES or _share_no_keys(sample)
    inside = bool(source.roots) and source.roots[0].path != "$"
    single = table or (few and inside) or any(_are_pages(sample, root) for root in source.roots)
    facts = source.guessed.to_document()
    roots = list(_other_root_readings(source, single))
    tables = not single and any(map(_is_table, roots))
    unlikely = 0.65 if single or tables else 1.0
    base = plain_reading(sample, facts, unlikely, "the rows as they are")
    base, texts = plain_text_readings(source, sample, base)
    readings = (*roots, *texts, *_conversation_files(source, base))
    for reading in (base, *readings):
        yield reading
        yield from parse_json_columns(reading)
        yield from row_groups.grouped_reading(reading)
        yield from thread_readings(reading)
        if len(reading.sample.rows) > 0:
            yield from element_readings(reading)


def _are_pages(sample: Sample, root: RootCandidate) -> bool:
    """Whether rows that are files are pages of one list: as many rows in all of them but one."""
    if root.orient or not root.path.endswith("[*]"):
        return False
    lists = [values_at(root.path.removesuffix("[*]"), Node(row.value)) for row in sample.rows]
    sizes = [len(hits[0]) for hits in lists if hits and isinstance(hits[0], list)]
    size = max(sizes, key=sizes.count, default=0)
    alike = sizes.count(size) >= len(sample.rows) - 1
    return alike and size >= _TABLE_ROWS and len(sample.rows) > _FEW_FILES


def _share_no_keys(sample: Sample) -> bool:
    """Whether rows are objects without a key in common: their keys are ids, not fields."""
    keys = [set(row.value) for row in sample.rows if isinstance(row.value, dict)]
    several = len(keys) == len(sample.rows) > 1 and min(map(len, keys)) >= _FEWEST_KEYS
    return several and not any(keys_before & other for keys_before, other in pairwise(keys))


def _conversation_files(source: Source, base: Reading) -> Iterator[Reading]:
    """Files as one row each, where every file is the list of the messages of one conversation."""
    layouts = {(file.facts.format, file.facts.layout) for file in source.files}
    if layouts != {("json", "list")} or len(source.files) < 2 or source.spec.root:
        return
    if not row_groups.is_single_turn(base.view):
        return
    files = draw_sample(source.with_spec(replace(source.spec, root="$")))
    facts = {**source.guessed.to_document(), "root": "$"}
    yield plain_reading(files, facts, 1.0, "a file is a conversation")


def _other_root_readings(source: Source, single: bool) -> Iterator[Reading]:
    roots = [
        root for root in source.roots if root.orient or root.path not in (source.spec.root, "$")
    ]
    for place, root in enumerate(roots[:4]):
        other = source.with_spec(replace(source.spec, **root.facts))
        try:
            sample = draw_sample(other)
        except SourceError:
            continue
        if sample.rows:
            facts = {**other.guessed.to_document(), **root.facts}
            factor = (1.0 if single else 0.85) - 0.02 * place
            why = root.why if root.orient else f"{root.path} holds {root.rows} records"
            read = plain_reading(sample, facts, factor, why)
            yield replace(read, factor=1.0) if not single and _is_table(read) else read


def _is_table(read: Reading) -> bool:
    """Whether rows are whole by themselves: messages of one talk, paragraphs of a text are not."""
    texts = [column for column in read.view.texts if not column.many and column.fill > 0.5]
    return (
        len(read.sample.rows) >= _TABLE_ROWS
        and len(texts) >= 2
        and not row_groups.is_single_turn(read.view)
    )


def view_drafts(view: View, modes: Sequence[str]) -> list[Draft]:
    """Return the drafts of one view for the open modes, best first."""
    drafts: list[Draft] = []
    if "sft" in modes:
        drafts += conversation_drafts(view)
        drafts += question_answer_drafts(view)
        drafts += tree_drafts(view)
    if "pt" in modes:
        drafts += document_drafts(view)
        drafts += section_tree_drafts(view)
        drafts += attribute_drafts(view)
    return sorted(drafts, key=lambda d: -d.score)


def _mixed_shape_drafts(reading: Reading, modes: Sequence[str]) -> Iterator[Draft]:
    """One alternative per kind of row, where a file mixes several."""
    parts = rows_by_shape(reading.rows) if not reading.outer else []
    best: list[Draft] = []
    for part in parts:
        drafts = view_drafts(View.of(part), modes)
        if not drafts or drafts[0].score < 0.6:
            return
        best.append(drafts[0])
    if not best or len({d.kind for d in best}) > 1:
        return
    bodies = list({repr(d.body): d.body for d in best}.values())
    if len(bodies) > 1:
        yield Draft(
            kind=best[0].kind,
            body={"any_of": bodies},
            score=min(d.score for d in best),
            why=f"{len(bodies)} kinds of rows: " + "; ".join(d.why for d in best),
            pair=any(d.pair for d in best),
            used=frozenset().union(*(d.used for d in best)),
            evidence=tuple(e for d in best for e in d.evidence),
            most=min(d.most for d in best),
            unknown=frozenset().union(*(d.unknown for d in best)),
        )


def candidate_document(draft: Draft, reading: Reading, meta: dict[str, Json]) -> MappingDocument:
    """Return the mapping document of a draft in its reading, with the facts about the files."""
    paths = [*draft.used, *value_strings(draft.body), *value_strings(meta)]
    source = _needed_facts(reading.source, paths)
    head: dict[str, Json] = {"version": 2} | ({"source": source} if source else {})
    return {**head, **reading.outer, **draft.body, "meta": meta}


def _needed_facts(source: dict[str, Json], paths: Sequence[str]) -> dict[str, Json]:
    """The facts of a reading without the parsed strings that no path looks into."""
    json_fields = [
        p for p in source.get("json_fields", ()) if any(is_path_inside(path, p) for path in paths)
    ]
    rest = {key: value for key, value in source.items() if key != "json_fields"}
    return {**rest, "json_fields": json_fields} if json_fields else rest


def find_candidates(source: Source, sample: Sample, modes: Sequence[str]) -> list[Candidate]:
    """Return the drafts of every reading as mappings that were not run yet, best first."""
    if draft := document_draft(source):
        facts = source.guessed.to_document()
        reading = plain_reading(sample, facts, 1.0, "a file is a row")
        if where := good_rows_condition(reading.view, _OF_A_DOCUMENT):  # drafts, by front matter
            draft = replace(draft, body={**draft.body, "where": where})
        mapping_document = candidate_document(draft, reading, {})
        candidate = Candidate(
            draft=draft, reading=reading, score=draft.score, document=mapping_document
        )
        return [candidate] if draft.kind in modes else []
    candidates: list[Candidate] = []
    for reading in source_readings(source, sample):
        drafts = view_drafts(reading.view, modes)
        drafts = sorted([*_mixed_shape_drafts(reading, modes), *drafts], key=lambda d: -d.score)
        if "each" in reading.outer:
            lift = 1.2 if has_documents(reading.view) and len(reading.sample.rows) <= 40 else 1.0
            drafts = [
                d.times(lift) if d.kind == "pt" else d for d in drafts if d.kind == "pt" or d.pair
            ]
        if "group" in reading.outer:
            drafts = [d for d in drafts if (d.kind == "pt") == reading.paged and not d.pair]
            threads = thread_drafts(reading.view) if reading.threaded else []
            drafts = [d for d in threads if d.kind in modes] or drafts
        for best in drafts[:5]:
            draft = replace(best, most=min(best.most, reading.most))
            document = candidate_document(draft, reading, {})
            score = min(0.99, draft.score * reading.factor)
            candidates.append(
                Candidate(draft=draft, reading=reading, score=score, document=document)
            )
    candidates = _without_other_answers(_without_unread_talks(candidates))
    return sorted(candidates, key=lambda c: (-c.score, -len(c.draft.body)))


def _without_unread_talks(candidates: list[Candidate]) -> list[Candidate]:
    """Without those that take messages in JSON for a text, or rows to gather for conversations."""
    opened = {
        field
        for c in candidates
        for field in c.document.get("source", {}).get("json_fields", ())
        for message in c.draft.body.get("messages", ())
        if is_path_inside(str(message.get("each", "")), field)
    }
    grouped = [
        c.reading.source
        for c in candidates
        if "group" in c.reading.outer
        and c.draft.kind == "sft"
        and c.score >= GATHERED_SCORE
        and (c.reading.factor > 1 or isinstance(c.draft.body["messages"][0]["role"], dict))
    ]
    return [
        c
        for c in candidates
        if c.draft.kind != "sft"
        or not (opened & c.draft.used or (not c.reading.outer and c.reading.source in grouped))
    ]


def _without_other_answers(candidates: list[Candidate]) -> list[Candidate]:
    """The candidates but those that take every answer of a list of which one was accepted."""
    lists = {
        content.get("lookup")
        if isinstance(content := message.get("content"), dict)
        else message.get("each")
        for c in candidates
        if c.draft.most == 1 and c.draft.pair and not c.reading.outer
        for message in c.draft.body.get("messages", ())
        if message.get("role") == "assistant"
    }
    return [
        c for c in candidates if not c.draft.pair or c.reading.outer.get("each", "") not in lists
    ]


# --- rows that are one attribute of a thing each


_MOST_NAMES = 40
_OFTEN = 2  # rows of a thing, on average


def attribute_drafts(view: View) -> list[Draft]:
    """Return the draft that takes the rows of the attribute that holds the text."""
    plain = [c for c in view.columns if not c.many and c.fill == 1]
    value = max((c for c in view.columns if not c.many), key=lambda c: c.chars, default=None)
    groups = [
        (by, name) for by in plain for name in plain if value and _are_attributes(by, name, value)
    ]
    if not groups or value is None or view.each:
        return []
    by, name = max(groups, key=lambda group: group[0].distinct)
    things: dict[str, dict[str, Json]] = {}
    for key, attribute, text in zip(by.texts, name.texts, value.texts, strict=True):
        things.setdefault(key, {})[attribute] = text
    best = next(iter(document_drafts(View.of(list(things.values())))), None)
    texts = [path for path in (best.used if best else ()) if path in name.present]
    if best is None or not texts:
        return []
    sizes = {
        path: sum(len(str(thing.get(path, ""))) for thing in things.values()) for path in texts
    }
    body = max(texts, key=lambda path: sizes[path])
    most = best.most if "where" not in best.body else min(best.most, 0.55)
    where: list[Json] = [{"path": name.path, "in": [body]}]
    document: dict[str, Json] = {"text": value.path, "where": where}
    why = f"rows where {name.path} is {body} hold running text"
    used = frozenset([value.path, name.path])
    return [replace(best, body=document, why=why, used=used, most=most, evidence=())]


def _are_attributes(by: Column, name: Column, value: Column) -> bool:
    """Whether each thing has each attribute once, and the values of some are longer by far."""
    if len({by.path, name.path, value.path}) < 3 or not 3 <= name.distinct <= _MOST_NAMES:
        return False
    rows = len(name.texts)
    once = len(set(zip(by.texts, name.texts, strict=True))) == rows
    shared = rows >= _OFTEN * by.distinct and rows >= _OFTEN * name.distinct
    if not once or not shared or by.distinct < 3 or name.words > 3:
        return False
    groups = row_groups.group_rows(name).values()
    means = sorted(sum(len(value.texts[n]) for n in group) / len(group) for group in groups)
    return means[-1] > 10 * max(1.0, means[0])


# --- threads in rows that are posts: one of each thread asks, another one was accepted


_ELEMENT = "[*]"
_UNSURE = 0.45
_SCORE = 0.85
_SHARE = 0.9  # of the threads have exactly one post that asks
_MOST_KINDS = 6
_ASKS = 0.5  # of the posts that ask


def thread_readings(reading: Reading) -> Iterator[Reading]:
    """Yield readings of rows grouped by a key: the first of each group asks, another is marked."""
    columns = [c for c in reading.view.columns if not c.many and c.fill == 1]
    able = sorted(filter(row_groups.is_sortable_time, columns), key=lambda c: c.numeric)
    able += [c for c in columns if c.numeric and c not in able]
    kinds = [c for c in reading.view.own if not c.many and 2 <= c.distinct <= _MOST_KINDS]
    marked = [set(rows) for c in kinds for text, rows in row_groups.group_rows(c).items() if text]
    for by in columns:
        often = len(by.present) / max(1, by.distinct)
        if by.words > 3 or by.distinct < SEVERAL or often < LEAST_OFTEN:
            continue
        groups = list(row_groups.group_rows(by).values())
        asking = [rows for rows in marked if _asks_in_groups(rows, by, len(groups))]
        for order in (RowOrder(None, ""), *(RowOrder(c, "") for c in able if c is not by)):
            places = [order.sorted(group) for group in groups] if asking else []
            firsts = {group[0] for group in places}
            if not any(rows <= firsts for rows in asking):
                continue
            rows = [[reading.rows[n] for n in group] for group in places]
            if thread_drafts(view := View.of(rows)):
                group = {"by": [by.path], **({"sort": order.column.path} if order.column else {})}
                why = f"rows with the same {by.path} are one thread"
                outer = {"group": group}
                yield replace(reading, view=view, outer=outer, why=why, threaded=True)
                return


def _asks_in_groups(rows: set[int], by: Column, groups: int) -> bool:
    """Whether one row in nearly every group is among these, and no other one is."""
    return _SHARE * groups <= len(rows) == len({by.texts[n] for n in rows})


def thread_drafts(view: View) -> list[Draft]:
    """Draft a conversation of the row of a group that asks and the accepted one of the others."""
    if not all(isinstance(node.value, list) for node in view.nodes):
        return []
    return [
        draft
        for posts in list_answers(view, _ELEMENT)
        for kind in posts.marks
        for value in _asking_values(posts, kind)
        for draft in _accepted_drafts(view, posts, kind, value)
    ][:1]


def _asking_values(posts: Answers, kind: Column) -> list[Json]:
    """The values of a column that only the first row of nearly every group has."""
    if not 2 <= kind.distinct <= _MOST_KINDS:
        return []
    firsts = {row: n for n, row in reversed(list(enumerate(posts.rows)))}
    values_by_text: dict[str, Json] = {}
    for value in (values[0] for values in kind.values if values and text_of(values[0])):
        places = posts.places([text_of(value) == text for text in kind.texts])
        first = all(numbers == [firsts[row]] for row, numbers in places.items())
        if first and len(places) >= _SHARE * len(firsts):
            values_by_text[text_of(value)] = value
    return list(values_by_text.values())


def _accepted_drafts(view: View, posts: Answers, kind: Column, value: Json) -> Iterator[Draft]:
    asked = [text_of(value) == text for text in kind.texts]
    asking = View.over([posts.view.nodes[n] for n, is_asked in enumerate(asked) if is_asked])
    if not any(c.path == posts.body.path and c.looks("question") >= _ASKS for c in asking.columns):
        return
    reply_numbers = [n for n, is_asked in enumerate(asked) if not is_asked]
    inner = View.over([Node(posts.view.nodes[n].value) for n in reply_numbers])
    body = next((c for c in inner.columns if c.path == posts.body.path), None)
    if body is None:
        return
    rows = tuple(posts.rows[n] for n in reply_numbers)
    replies = replace(posts, view=inner, rows=rows, body=body)
    for where, selected, sure in marked_elements(replies):
        places = replies.places(selected)
        if 2 * len(places) < len(view.nodes) or any(
            len(elements) > 1 for elements in places.values()
        ):
            continue
        turns: list[Json] = [
            {"each": _ELEMENT, "where": chosen, "role": role, "content": body.path}
            for role, chosen in (
                ("user", [{"path": kind.path, "in": [value]}]),
                ("assistant", where),
            )
        ]
        yield Draft(
            kind="sft",
            body={"messages": turns},
            score=_SCORE,
            why=f"{kind.path} tells what asks, {where} what was accepted",
            used=frozenset({f"{_ELEMENT}.{body.path}"}),
            most=1.0 if sure else _UNSURE,
        )
