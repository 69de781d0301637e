"""What the shape of the rows says against a mapping: lists left out, choices not heeded.

Each doubt looks at the values of the rows, whatever rule made the mapping and whatever the fields
are called.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from ingot.agent.proposing.columns import Column, View, last_name, list_path, text_of, values_at
from ingot.agent.proposing.doubts.turn_doubts import Doubt, message_lists, turn_doubts
from ingot.agent.proposing.names import NAMED, alias_tables, spell_name
from ingot.agent.proposing.proposal import value_strings
from ingot.agent.proposing.readings import Draft, Reading
from ingot.agent.proposing.rules.answers.answer_keys import answer_reference
from ingot.agent.proposing.rules.answers.multiple_choice import find_options
from ingot.agent.proposing.rules.answers.preference import RATED
from ingot.agent.proposing.rules.answers.sides import SURE_SHARE, detect_language
from ingot.agent.proposing.rules.documents.running_text import joins_documents
from ingot.agent.proposing.rules.text_copies import is_marked_copy
from ingot.converters.mapping.lookup import Lookup
from ingot.converters.mapping.rows.executor import Record
from ingot.converters.mapping.walk import select_messages
from ingot.converters.rows import Json
from ingot.converters.sources import Source
from ingot.converters.sources.profile import pick_evenly

_ROWS = 60  # rows that are looked at
_BARE_ID = re.compile(r"[\x21-\x7e]{6,}")
_ID_SIGN = re.compile(r"[\d/_]|\w-\w|\w\.\w")
# Tags but the mark of thoughts, entities, a list of texts in JSON.
_MARKUP = re.compile(
    r"</(?!think>)[a-z][a-z0-9]{0,10}>|<br\s*/?>|&(?:nbsp|lt|gt|amp);|\A\[\s*\"", re.IGNORECASE
)
_NUMBERED_STEP = re.compile(r"\[\d+\]|\[-\d+\]")
_NAME_SLOTS = {
    "pt": ("body", "title", "lead", "context", "utterance", "question", "answer"),
    "sft": (
        *("question", "instruction", "input", "context", "answer", "utterance", "title", "body"),
        *("options", "chosen", "rationale", "history", "turns"),
    ),
}


def row_doubts(
    draft: Draft, reading: Reading, records: Sequence[Record], source: Source
) -> list[Doubt]:
    """Return what the rows, the files and the records say together."""
    rows = list(pick_evenly(reading.rows, _ROWS))
    whole = reading.view if not reading.view.each else View.of(rows)
    used = taken_columns(reading.view, draft)
    return [
        *turn_doubts(whole, reading, draft),
        _numbered_step_doubt(reading.view, draft),
        _rated_element_doubt(whole, draft),
        _verdict_doubt(reading.view, draft),
        *_option_doubts(reading, draft),
        _schema_doubt(reading.view),
        _shape_doubt(rows, draft),
        _outside_doubt(reading, source),
        _boilerplate_doubt(draft.kind, records),
        _cut_doubt(draft.kind, records),
        _type_doubt(reading.view, draft),
        _joined_doubt(reading, draft),
        _language_doubt(draft.kind, used),
        *_look_doubts(records),
        *_name_doubts(draft, used),
        *_novelty_doubts(reading.view),
        _longer_text_doubt(reading.view, draft, used),
        _torn_list_doubt(reading.view, draft),
        _alternative_doubt(draft),
        _depth_doubt(whole, draft, reading.view.each),
    ]


def taken_columns(view: View, draft: Draft) -> list[Column]:
    """Return the columns that a draft takes texts from."""
    columns = {c.path: c for c in (*view.columns, *view.deep)}
    return [
        c
        for c in columns.values()
        if any(c.path == path or c.path.startswith(f"{path}[*]") for path in draft.used)
    ]


def _numbered_step_doubt(view: View, draft: Draft) -> Doubt:
    """One element of a list by its number, where the list has several texts."""
    worst, where = 0.0, ""
    for path in value_strings(draft.body):
        if not _NUMBERED_STEP.search(path):
            continue
        every = _NUMBERED_STEP.sub("[*]", path)
        try:
            counts = [
                sum(bool(text_of(v)) for v in values_at(every, n)) for n in view.nodes[:_ROWS]
            ]
        except ValueError:
            continue
        share = sum(count > 1 for count in counts) / max(1, len(counts))
        if share > worst:
            worst, where = share, path
    return Doubt("one of several", worst, f"{where} takes one of several texts")


def _rated_element_doubt(view: View, draft: Draft) -> Doubt:
    """Elements of a list that are rated one against the other, which the mapping does not read."""
    read = value_strings(draft.body)
    walked = [message.each for message in select_messages(draft.tree) if message.where]
    chosen = {path.text.removesuffix("[*]") for each in walked for path in each}
    lists = {list_path(path) for path in draft.used if "[*]" in path} - chosen
    rated = [
        c
        for c in view.columns
        if c.nature == "number" and list_path(c.path) in lists and RATED.search(spell_name(c.name))
    ]
    apart = [c.path for c in rated if any(len(set(row)) > 1 for row in c.values)]
    left = [path for path in apart if path not in read]
    return Doubt(
        "rated elements", float(bool(left)), f"{', '.join(left)} rates elements, and is not read"
    )


_JUDGED = re.compile(
    r"accept|reject|ignor|approv|declin|delet|remov|draft|skip|cancel|fail|error|invalid|expired|spam|"
    r"internal|hidden|redirect|outdated|obsolete|superseded|withdrawn|duplicate|flagged|unsafe|bad|"
    r"thumb|dislike|down|replaced|current|latest|is_last|作废|删除|无效|拒绝|驳回|踩|赞|弃|草稿|失败|取消|不通过|гл|удал|отклон|削除|無効|却下|삭제|거절|"
    r"abgelehnt|gelöscht|entwurf|ungültig|verworfen|supprim|refus|brouillon|rechaz|borrad|elimin|anulad"
)


def _verdict_doubt(view: View, draft: Draft) -> Doubt:
    """A column that tells good rows from bad ones, and that the mapping does not read."""
    read = set(value_strings(draft.body))
    for column in view.columns:
        if column.path in read or column.many or column.text:
            continue
        few = 2 <= column.distinct <= 6 or (column.distinct == 1 and 0.02 < column.fill < 0.9)
        values = " ".join(sorted(set(column.present))[:6]).lower()
        truth = set(column.present) <= {"true", "false", "0", "1", "yes", "no"}
        match = _JUDGED.search(column.name.lower() if truth else values)
        empty = 0.02 < column.fill < 0.5 and _JUDGED.search(column.name.lower())
        if (few and match) or empty:
            return Doubt("verdict", 1.0, f"{column.path} may tell which rows are good")
    return Doubt("verdict", 0.0, "")


def _option_doubts(reading: Reading, draft: Draft) -> Iterator[Doubt]:
    """Options of a question that the mapping leaves out, and an answer key beside a document."""
    columns = [c for c in reading.view.columns if c.present]
    parts = draft.kind == "pt" and "group" in reading.outer  # of a text: rows are no options
    options = None if parts else find_options(reading.view, columns)
    left = options is not None and not options.paths & draft.used
    yield Doubt("options", float(left), "there are options of questions that are not used")
    lettered = [c for c in columns if c.nature == "letter" and c.named("answer") >= NAMED]
    numbered = [
        c for c in columns if options and answer_reference(options, c) not in (None, "text")
    ]
    keys = [c.path for c in (*lettered, *numbered) if c.distinct > 1 and c.path not in draft.used]
    has_keys = draft.kind == "pt" and bool(keys)
    yield Doubt("answer key", float(has_keys), f"{', '.join(keys[:3])} answers questions")


def _schema_doubt(view: View) -> Doubt:
    """Rows that define tools or forms: they hold a JSON Schema of their own."""
    schema_paths = [
        facts.path
        for facts in view.facts.paths
        if last_name(facts.path) == "properties" and "[" not in facts.path
    ]
    kinds = [view.facts.get(f"{path.removesuffix('properties')}type") for path in schema_paths]
    are_objects = any(kind and {v for v, _ in kind.values} == {"object"} for kind in kinds)
    return Doubt("schema", float(are_objects), "the rows describe the arguments of tools or forms")


def _shape_doubt(rows: Sequence[Json], draft: Draft) -> Doubt:
    """Rows of several kinds under one layout."""
    shapes = [
        frozenset(k for k, v in row.items() if v not in (None, "", [], {}))
        for row in rows
        if isinstance(row, dict)
    ]
    if len(shapes) < 4 or "any_of" in draft.body:
        return Doubt("shapes", 0.0, "")
    most = max(set(shapes), key=lambda s: (shapes.count(s), sorted(s)))
    unlike = sum(len(most & s) < 0.6 * len(most | s) for s in shapes) / len(shapes)
    return Doubt("shapes", unlike, f"{unlike:.0%} of the rows have other fields than most")


def _outside_doubt(reading: Reading, source: Source) -> Doubt:
    """Rows at other places of the same JSON file that hold as much."""
    root = reading.source.get("root") or source.spec.root
    if not root or root == "$":
        return Doubt("outside", 0.0, "")
    mine = next((candidate.rows or 0 for candidate in source.roots if candidate.path == root), 0)
    rest = sum(
        candidate.rows or 0 for candidate in source.roots if candidate.path not in (root, "$", "*")
    )
    literal = bool(re.search(r"[^\x00-\x7f]|\d|\[\'", root))
    share = rest / max(1, rest + mine)
    return Doubt(
        "outside",
        share * (1.0 if literal else 0.5),
        f"{share:.0%} of the rows are not under {root}",
    )


def _boilerplate_doubt(kind: str, records: Sequence[Record]) -> Doubt:
    """Lines of the texts to train on that many records share."""
    texts = [
        [record["text"]]
        if kind == "pt"
        else [m["content"] for m in record["messages"] if m["role"] == "assistant"]
        for record in records
    ]
    lines = [
        {line.strip() for text in cells for line in text[:20_000].split("\n")} for cells in texts
    ]
    counts = Counter(line for cell_lines in lines for line in cell_lines if len(line) >= 15)
    whole = sum(len(line) * n for line, n in counts.items())
    again = sum(len(line) * n for line, n in counts.items() if n >= max(3, 0.2 * len(texts)))
    share = again / max(1, whole)
    return Doubt("boilerplate", share, f"{share:.0%} of the text is in many records")


def _cut_doubt(kind: str, records: Sequence[Record]) -> Doubt:
    """Texts that begin or stop in the middle of a sentence."""
    texts = [r["text"].strip() for r in records if kind == "pt" and len(r["text"].strip()) > 40]
    begins = sum(t[:1].islower() for t in texts) / max(1, len(texts))
    return Doubt("cut", begins, f"{begins:.0%} of the texts begin in the middle of a sentence")


def _type_doubt(view: View, draft: Draft) -> Doubt:
    """Paths that hold texts in some rows and lists or objects in others."""
    worst, where = 0.0, ""
    for facts in view.facts.paths:
        if facts.path in draft.used and facts.types.get("string"):
            other = facts.types.get("list", 0) + facts.types.get("object", 0)
            worst, where = max((worst, where), (other / max(1, facts.places), facts.path))
    return Doubt("types", worst, f"{where} holds lists or objects in {worst:.0%} of the rows")


def _joined_doubt(reading: Reading, draft: Draft) -> Doubt:
    """Texts of a list in one record, where each element looks like a document of its own."""
    element = joins_documents(reading.view, draft.used) if draft.kind == "pt" else ""
    seen = f"the elements of {element} look like documents of their own"
    return Doubt("joined", float(bool(element)), seen)


def _language_doubt(kind: str, columns: Sequence[Column]) -> Doubt:
    """Texts of one record in several languages."""
    known = {}
    for column in columns:
        code, share = detect_language([t for t in column.present[:20] if len(t) > 40])
        if code and share >= SURE_SHARE:
            known[code] = column.path
    mixed = len(known) > (1 if kind == "pt" else 2)  # a translation has two
    return Doubt(
        "languages",
        float(mixed),
        f"texts of {len(known)} languages are joined: {', '.join(known.values())}",
    )


def _look_doubts(records: Sequence[Record]) -> Iterator[Doubt]:
    """Texts that are ids, or markup."""
    cells = [
        [m["content"].strip() for m in r["messages"]] if "messages" in r else [r["text"].strip()]
        for r in records
    ]
    count = max(1, len(cells))
    ids = (
        sum(any(_BARE_ID.fullmatch(t) and _ID_SIGN.search(t) for t in texts) for texts in cells)
        / count
    )
    marks = sum(any(_MARKUP.search(t[:4000]) for t in texts) for texts in cells) / count
    yield Doubt("ids", ids, f"{ids:.0%} of the records hold a text that is an id or a mark")
    yield Doubt("markup", marks, f"{marks:.0%} of the records hold markup")


def _name_doubts(draft: Draft, columns: Sequence[Column]) -> Iterator[Doubt]:
    """Fields whose names say nothing of what they are taken for."""
    slots = _NAME_SLOTS[draft.kind]
    strange = [c for c in columns if max(map(c.named, slots)) < 0.5]
    share = len(strange) / max(1, len(columns))
    paths = " and ".join(c.path for c in strange[:3])
    yield Doubt("names", share, f"no name says what is in {paths}")
    several = draft.kind == "pt" and len(strange) > 1
    yield Doubt("strangers", float(several), f"no name says that {paths} belong together")


def _depth_doubt(view: View, draft: Draft, each: str) -> Doubt:
    """Lists of objects with texts that the mapping does not touch: a shape of another kind."""
    inside = (*draft.used, *message_lists(draft.tree))
    paths = [f"{each}.{path}" if each else path for path in inside if not path.startswith("^")]
    outer = {last_name(path) for path in inside if path.startswith("^")}
    left: dict[str, float] = {}
    whole = 0.0
    for facts in view.facts.paths:
        prose = facts.looks.get("prose", 0.0)
        if not facts.chars or prose <= 0.3:
            continue
        whole += facts.chars.total
        element = facts.path[: facts.path.rfind("[*].") + 3]
        if each.startswith(f"{element}."):  # it stands around the records
            touched = last_name(facts.path) in outer
        else:
            touched = any(element.startswith(path) or path.startswith(element) for path in paths)
        if "[*]." in facts.path and not touched:
            left[facts.path] = facts.chars.total
    share = sum(left.values()) / max(1.0, whole)
    seen = f"{', '.join(list(left)[:3])}: lists of texts that are not used"
    return Doubt("untouched lists", share, seen)


def _novelty_doubts(view: View) -> Iterator[Doubt]:
    """How unlike known data sets the rows are: fields nobody knows, many of them, deep ones."""
    columns = [c for c in view.columns if not c.path.startswith("^")]
    slots = alias_tables()["slots"]
    unknown = [c for c in columns if max(c.named_own(slot) for slot in slots) < 0.8]
    share = len(unknown) / max(1, len(columns))
    yield Doubt("unknown fields", share, f"{share:.0%} of the fields have unfamiliar names")
    many = min(1.0, max(0, len(columns) - 4) / 20)
    yield Doubt("many fields", many, f"a row has {len(columns)} fields")
    deep = sum(c.path.count(".") + c.path.count("[*]") > 1 for c in columns) / max(1, len(columns))
    yield Doubt("deep fields", deep, f"{deep:.0%} of the fields are nested deep in the rows")


def _longer_text_doubt(view: View, draft: Draft, columns: Sequence[Column]) -> Doubt:
    """A text that is longer than every one that is taken, and left."""
    most = max((c.chars for c in columns), default=0)
    left = [
        c
        for c in view.columns
        if c not in columns
        and c.looks("prose") > 0.5
        and c.distinct > 0.5 * len(c.present)
        and not is_marked_copy(c, columns)
    ]
    longest = max(left, key=lambda c: c.chars, default=None)
    share = 0.0 if longest is None else min(1.0, max(0.0, longest.chars / max(1, most) - 0.5))
    return Doubt(
        "longer text", share, f"{longest.path if longest else ''} is as long, and is left out"
    )


def _torn_list_doubt(view: View, draft: Draft) -> Doubt:
    """A list of objects of which one text is taken, and other texts of them are left."""
    for path in sorted(draft.used):
        element, _, inner = path.rpartition("[*].")
        if not element or not inner:
            continue
        rivals = [
            f
            for f in view.facts.paths
            if f.path.startswith(f"{element}[*].") and f.looks.get("prose", 0.0) > 0.3
        ]
        left = [f for f in rivals if f.path not in draft.used and f.path != path]
        chars = sum(f.chars.total for f in left if f.chars)
        whole = sum(f.chars.total for f in rivals if f.chars)
        if chars > 0.2 * whole:
            seen = f"of {element}[*] only {inner} is taken"
            return Doubt("torn lists", min(1.0, 2 * chars / whole), seen)
    return Doubt("torn lists", 0.0, "")


def _alternative_doubt(draft: Draft) -> Doubt:
    """An answer that is taken from the first of several fields that has one."""
    contents = [message.content for message in select_messages(draft.tree) if message.content]
    firsts = [content.parts[0] for content in contents if content.kind == "any_of"]
    plain = [first.path for first in firsts if first.is_bare and first.path]
    apart = any("[" not in path.text for path in plain if not isinstance(path, Lookup))
    return Doubt(
        "alternatives", float(apart), "the answer is the first of several fields that has one"
    )
