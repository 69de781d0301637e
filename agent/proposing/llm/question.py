"""Build what is said to a model: the opening, corrections and the record check, within a size.

The instructions are the Markdown files of the package `ingot.prompts`. A file opens with a block
between two `---` lines that holds exactly `name`, `purpose` and `variables` (names in the order of
first use, separated by commas; empty = none); in the text a variable is written `<<name>>`. Data
goes into fences that it cannot guess, after it was redacted, cleaned and cut, and is said to be
data: a `<<name>>` inside a value stays as it is.
"""

import codecs
import difflib
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

from ingot.agent.model.budget import estimate_tokens
from ingot.agent.model.request_form import Message
from ingot.agent.privacy import EMPTY_TEXT, Safe, SafeProblem, SafeValue, redact
from ingot.agent.privacy.redaction import clean_text, cut_line, cut_middle, share_path
from ingot.agent.proposing.cards import Card
from ingot.agent.proposing.columns import is_path_inside, values_at
from ingot.agent.proposing.llm.data_block import SafeData, ShownData, dataset_lines, read_data
from ingot.agent.proposing.llm.inventory import Size, render_value
from ingot.agent.proposing.llm.lowering import FILE_FACTS
from ingot.agent.proposing.proposal import Evidence, Request, value_strings
from ingot.agent.proposing.rules.context_columns import tools_value
from ingot.converters import json_yaml
from ingot.converters.mapping.bind import read_changed
from ingot.converters.mapping.documents.writer import plain_document, value_document
from ingot.converters.mapping.language import Mapping, Value
from ingot.converters.paths import Node, PathSyntaxError, compile_path
from ingot.converters.rows import Json
from ingot.converters.sources import Source, SourceSpec
from ingot.converters.sources.documents.kinds import ISO_639_1
from ingot.converters.sources.profile import Profile
from ingot.converters.sources.sample import Sample

SMALL_TOKENS = 6000  # tokens under which the short instructions are used
MOST_PROBLEMS = 5
MOST_PATHS = 80
_MOST_CHARS = 400
_LEAST_DATA = 100  # tokens
_MESSAGE_TOKENS = 8  # tokens that servers add to a message
_RECORD_SIZE = Size(
    rows=3, head=400, tail=200, elements=6, values=0, paths=0, facts=0, lines=0, roots=0
)
_ROWS_TRIED = 20
_ROWS_OF_GROUP = re.compile(r"^\[(?:\*|-?\d+)\]\.?")
_MODES = {
    "pt": Safe("pt (running text)"),
    "sft": Safe("sft (conversations)"),
    "auto": Safe("auto (decide between pt and sft by what the data is)"),
}


def opening_messages(
    source: Source, sample: Sample, request: Request, card: Card | None = None
) -> list[Message]:
    """Return the first messages: the instructions and the data set."""
    tokens = request.tokens
    task = load_prompt(_task_prompt(tokens)).text

    def question(data: Safe) -> Safe:
        return load_prompt("question").render(
            mode=mode, language=language, fence=fence_line(data), data=data
        )

    language = redact(clean_text(request.language or "not told")[:20])
    mode = _MODES[request.mode]
    room = tokens - estimate_tokens(task) - 2 * _MESSAGE_TOKENS
    if room < estimate_tokens(question(EMPTY_TEXT)) + _LEAST_DATA:
        raise ValueError(f"{tokens} tokens: the instructions alone have {estimate_tokens(task)}")
    data = dataset_lines(
        read_data(source, sample),
        request.share,
        lambda block: estimate_tokens(question(block)) <= room,
        small=tokens < SMALL_TOKENS,
        card=card,
    )
    return [{"role": "system", "content": task}, {"role": "user", "content": question(data)}]


def correction_message(
    problems: Sequence[SafeProblem], shown: SafeData, *, prompt: str = "correction"
) -> Message:
    """Return at most five problems of the last answer, and the existing paths."""
    said = [problem_line(one, shown.share) for one in problems[:MOST_PROBLEMS]]
    paths = [share_path(one.path, shown.share) for one in shown.view.facts.paths]
    near = _most_similar(paths, problems)
    more = [f"(+{len(paths) - len(near)} paths)"] if len(paths) > len(near) else []
    data = Safe("\n".join(["Problems:", *said, "", "Paths:", *near, *more]))
    return _fenced_message(prompt, data)


def record_check_message(
    records: Sequence[tuple[SafeValue, SafeValue]], signals: Sequence[Safe], share: str
) -> Message:
    """Return the question whether records are right, beside the rows they were made of."""
    parts = []
    for row, record in records:
        parts += [f"Row: {render_value(row, _RECORD_SIZE, share)}"]
        parts += [f"Record: {render_value(record, _RECORD_SIZE, share)}", ""]
    noticed = [f"- {cut_line(one, _MOST_CHARS)}" for one in signals] or ["- nothing"]
    data = Safe("\n".join(["Noticed:", *noticed, "", *parts]).strip())
    return _fenced_message("second_look", data)


def prompt_hash(tokens: int) -> str:
    """Return a hash of the prompt files and the schema behind a conversation of this size."""
    files = prompts_hash(_task_prompt(tokens), "question", "correction", "second_look")
    return hashlib.sha256(files.encode() + json_yaml.schema_text("llm")).hexdigest()


def shown_inventory(source: Source, sample: Sample) -> Profile:
    """Return the inventory that is shown first: rows of the best root, JSON texts parsed."""
    return read_data(source, sample).view.facts


def settle_mapping(
    mapping: Mapping, source: Source, sample: Sample
) -> tuple[Mapping, tuple[Evidence, ...]]:
    """Complete a model's mapping, and note what was taken otherwise than the model said it.

    A bare code as `language` is a literal where no field has this name. Facts about the files that
    the reader found too are left out: what is left corrects the reader.
    """
    notes = []
    meta, shown = mapping.outer.meta, read_data(source, sample)
    code = value_document(meta["language"]) if "language" in meta else None
    if isinstance(code, str) and (code in ISO_639_1 or code == "mix"):
        rows = (*shown.rows, *(row.value for row in sample.rows))
        if not any(_has_key(row, code) for row in rows):
            meta = {**meta, "language": Value(kind="literal", literal=code)}
            outer = replace(mapping.outer, meta=meta)
            mapping = read_changed(mapping, replace(mapping, outer=outer))
            why = "a language code, and no field has this name: taken as a literal"
            notes.append(Evidence(target="meta.language", choice=code, why=why))
    mapping = complete_mapping(_drop_known_facts(mapping, source), source, sample)
    for key, value in mapping.source.to_document().items():
        if key in FILE_FACTS:
            why = "the model corrects how the reader took the files"
            notes.append(Evidence(target=f"source.{key}", choice=json.dumps(value), why=why))
    return mapping, tuple(notes)


def _has_key(value: Json, name: str) -> bool:
    if isinstance(value, dict):
        return name in value or any(_has_key(one, name) for one in value.values())
    return isinstance(value, list) and any(_has_key(one, name) for one in value)


def _drop_known_facts(mapping: Mapping, source: Source) -> Mapping:
    """A mapping without the facts about the files that are what the reader found."""
    found = source.files[0].facts
    known: dict[str, Json] = {"encoding": found.encoding}
    if found.format == "csv":
        columns = list(found.columns) if found.header else None
        known |= {"delimiter": found.delimiter, "quote": found.quote, "columns": columns}
    facts = {
        key: value
        for key, value in mapping.source.to_document().items()
        if key not in known or _fold_fact(value) != _fold_fact(known[key])
    }
    return read_changed(mapping, replace(mapping, source=SourceSpec.from_document(facts)))


def _fold_fact(value: Json) -> Json:
    """A fact by which spellings of one encoding are equal."""
    try:
        return codecs.lookup(value).name.removesuffix("-sig")
    except (LookupError, TypeError, ValueError):
        return value


def complete_mapping(mapping: Mapping, source: Source, sample: Sample) -> Mapping:
    """Return a mapping with the facts that need no judgement.

    Paths of the inventory start at the root or table with which it was made, whether stated or not;
    paths that lead into JSON texts need these fields parsed; tool definitions beside a conversation
    are added unless the mapping uses them.
    """
    completed, found = add_file_facts(mapping, source, sample), read_data(source, sample)
    outer = replace(completed.outer, tools=_find_tools(mapping, found))
    return read_changed(completed, replace(completed, outer=outer))


def add_file_facts(mapping: Mapping, source: Source, sample: Sample) -> Mapping:
    """Return a mapping with the facts about the files that the paths of the inventory need."""
    one, used = read_data(source, sample), _used_paths(mapping)
    needed = [
        field for field in one.json_fields if any(is_path_inside(text, field) for text in used)
    ]
    facts = mapping.source.to_document()
    if needed := list(dict.fromkeys([*facts.get("json_fields", ()), *needed])):
        facts["json_fields"] = needed
    if "root" not in facts and _paths_fit_rows(one, used, sample):
        facts["root"] = one.root
    if one.source.spec.orient and facts.get("root", "$") == "$":
        facts["orient"] = one.source.spec.orient
    return read_changed(mapping, replace(mapping, source=SourceSpec.from_document(facts)))


def _used_paths(mapping: Mapping) -> list[str]:
    return [_ROWS_OF_GROUP.sub("", text) for text in value_strings(plain_document(mapping))]


def _paths_fit_rows(one: ShownData, used: Sequence[str], sample: Sample) -> bool:
    """Whether paths are those of the inventory, and none leads into rows read otherwise."""
    if one.root is None or one.root == one.source.spec.root:
        return False
    as_read = [Node(row.value) for row in sample.rows[:_ROWS_TRIED]]
    known = any(one.view.facts.get(text) for text in used)
    return known and not any(_path_finds_value(text, as_read) for text in used)


def _path_finds_value(text: str, nodes: Sequence[Node]) -> bool:
    try:
        return any(values_at(text, node) for node in nodes)
    except PathSyntaxError:  # a literal, a template
        return False


def _find_tools(mapping: Mapping, one: ShownData) -> Value | None:
    """The tool definitions of a mapping, else those beside its messages that it takes nowhere."""
    outer, found = mapping.outer, tools_value(one.view)
    path = found["path"] if isinstance(found, dict) else found
    taken = outer.each or mapping.group or outer.tools or not outer.messages
    if taken or path is None or path in _used_paths(mapping):
        return outer.tools
    return Value(kind="path", path=compile_path(path), as_json=isinstance(found, dict))


def _task_prompt(tokens: int) -> str:
    return "task_small" if tokens < SMALL_TOKENS else "task"


def fence_line(data: Safe) -> Safe:
    """Return a line that the data cannot hold: it would have to hold its own hash.

    So a prompt can be shown before it is sent, and is sent as it was shown.
    """
    return Safe(f"===== data {hashlib.sha256(data.encode()).hexdigest()[:32]} =====")


def _fenced_message(prompt: str, data: Safe) -> Message:
    content = load_prompt(prompt).render(fence=fence_line(data), data=data)
    return {"role": "user", "content": content}


_PATH_CODES = ("unresolved_path", "bad_path")  # whose nearest is a path, and no value
_NAMED = re.compile(r"(/(?:map|split|replace))/.*", re.DOTALL)  # by values of the data


def problem_line(one: SafeProblem, share: str) -> str:
    """Return a problem as one line; with `none` the value that was found is left out."""
    text = one.detail
    if share == "none":
        near = f"; nearest: {one.nearest}" if one.nearest and one.code in _PATH_CODES else ""
        pointer = _NAMED.sub(r"\1", one.pointer)
        text = f"{pointer}: {one.code}: expected {one.expected}{near}"
    if share == "raw":
        return f"- {cut_middle(clean_text(text), _MOST_CHARS, 0)}"
    return f"- {cut_line(text, _MOST_CHARS)}"


def _most_similar(paths: Sequence[str], problems: Sequence[SafeProblem]) -> list[str]:
    """All paths, or of many those that are spelt most like what was wrong."""
    if len(paths) <= MOST_PATHS:
        return list(paths)
    said = [text for one in problems[:MOST_PROBLEMS] for text in (one.got, one.nearest) if text]
    matcher = difflib.SequenceMatcher(autojunk=False)
    scores: dict[str, float] = dict.fromkeys(paths, 0.0)
    for text in said:
        matcher.set_seq2(text[:200])
        for path in paths:
            matcher.set_seq1(path[:200])
            scores[path] = max(scores[path], matcher.ratio())
    return sorted(paths, key=lambda path: -scores[path])[:MOST_PATHS]


_VARIABLE = re.compile(r"<<([a-z_]+)>>")


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    """A prompt: its text, and the hash of its file."""

    text: Safe
    sha256: str

    def render(self, **values: Safe) -> Safe:
        """Return the text with every variable filled in."""
        return Safe(_VARIABLE.sub(lambda found: values[found[1]], self.text))


@cache
def load_prompt(name: str) -> Prompt:
    """Load the prompt `prompts/NAME.md` of the package."""
    content = (resources.files("ingot.prompts") / f"{name}.md").read_bytes()
    _, _, text = content.decode().partition("\n---\n")
    return Prompt(text=Safe(text.strip() + "\n"), sha256=hashlib.sha256(content).hexdigest())


def prompts_hash(*names: str) -> str:
    """Return one hash over all prompt files, so that a mapping can state what its model saw."""
    joined = "".join(load_prompt(name).sha256 for name in names)
    return hashlib.sha256(joined.encode()).hexdigest()
