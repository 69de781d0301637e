"""Everything that leaves the machine or is kept beside results takes safe texts only.

mypy refuses raw text where `Safe` is asked for. Here stands what mypy does not see: that every
writer asks for it, that nobody else writes, and that safe text is made by the redactor or of safe
parts.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.packaging.house import ROOT, modules

# What each writer takes: "module name[.name].parameter": type.
WRITERS = {
    "agent/model/request_form Message.content": "Safe",
    "agent/model/client ask_model.messages": "Sequence[Message]",
    "agent/model/client Sender.messages": "Sequence[Message]",
    "agent/proposing/llm/question Prompt.render.values": "Safe",
    "agent/proposing/llm/question correction_message.problems": "Sequence[SafeProblem]",
    "agent/proposing/llm/question correction_message.shown": "SafeData",
    "agent/proposing/llm/question record_check_message.records": (
        "Sequence[tuple[SafeValue, SafeValue]]"
    ),
    "agent/proposing/llm/question record_check_message.signals": "Sequence[Safe]",
    "agent/proposing/llm/inventory render_value.value": "SafeValue",
    "agent/proposing/llm/data_block file_lines.seen": "SafeFiles",
    "agent/proposing/llm/data_block _fitting_block.one": "SafeData",
    "agent/proposing/llm/data_block _fitting_block.seen": "SafeFiles",
    "agent/chat/conversation Utterance.text": "Safe",
    "agent/chat/conversation Step.words": "Safe",
    "agent/chat/responses Reply.problems": "tuple[SafeProblem, ...]",
    "agent/proposing/proposal Attempt.problems": "tuple[SafeProblem, ...]",
    "agent/state answer_message.text": "Safe",
    "agent/state State.proposal": "SafeProposal | None",
    "agent/state State.problems": "tuple[SafeProblem, ...]",
    "agent/state SourceSummary.name": "Safe",
    "agent/state SourceSummary.left_out": "tuple[SafeLeftOut, ...]",
    "agent/state UnreadFiles.first": "Safe",
    "agent/state Check.warnings": "tuple[Safe, ...]",
    "agent/state Check.drift": "Annotated[tuple[SafeChange, ...] | None, OMIT]",
    "agent/state Gate.detail": "Safe",
    "agent/state Opinion.proposal": "SafeProposal",
    "agent/state Answer.proposal": "SafeProposal",
    "agent/state Stopped.why": "Safe",
    "agent/state Review.why": "Safe",
    "agent/state Result.first_rejects": "tuple[Safe, ...]",
    "agent/state Outcome.why": "Safe",
    "agent/state Outcome.reason": "Safe | None",
    "agent/state Outcome.problems": "tuple[SafeProblem, ...]",
    "agent/steps/review _inbox_question.paragraphs": "Sequence[Safe]",
    "agent/reporting/report report_text.rejects": "Sequence[Safe]",
    "agent/reporting/report markdown_line.text": "Safe",
    "agent/reporting/report markdown_code.text": "Safe",
    "agent/reporting/report markdown_table.rows": "Iterable[Iterable[Safe]]",
    "agent/reporting/preview Preview.lines": "tuple[tuple[Safe, Safe], ...]",
    "agent/reporting/preview Preview.paths": "tuple[tuple[Safe, Safe, Safe], ...]",
    "agent/reporting/preview Preview.examples": "tuple[tuple[SafeValue, SafeValue], ...]",
    "agent/reporting/preview row_text.row": "SafeValue",
    "agent/reporting/preview record_lines.shown": "SafeValue",
    "agent/review/pinning/pinned_sample write_files.files": "Mapping[str, SafeBytes]",
    "agent/review/pinning/source_form write_form.rows": "Sequence[SafeRow]",
    "agent/review/pinning/source_form write_lines.rows": "Sequence[SafeRow]",
    "agent/review/review_document Example.old": "list[list[Safe]] | None",
    "agent/review/review_document ReasonEntry.text": "Safe",
    "agent/review/review_document ChangeEntry.new": "Safe | None",
    "agent/review/review_document PathEntry.path": "Safe",
    "agent/review/review_document SampleEntry.why": "Safe",
    "agent/review/review_document DriftEntry.after": "Safe",
    "agent/review/review_document GoldenFailure.why": "Safe",
    "converters/lake/catalog SetFacts.place": "Safe",
    "converters/lake/catalog SetFacts.why": "Safe",
    "converters/lake/catalog SetFacts.hint": "Safe",
    "converters/lake/catalog SetFacts.left_out": "tuple[dict[str, Safe], ...]",
    "ingot/cli/display show_evidence.proposal": "SafeProposal",
    "ingot/cli/display show_problems.problems": "Iterable[SafeProblem]",
    "ingot/cli/display show_preview.seen": "Preview",
    "ingot/cli/display show_sample.paths": "Iterable[Sequence[Safe]]",
    "ingot/cli/display show_summary.proposal": "SafeProposal | Outcome",
}

# Ways out of the process, and the modules of the agent that may take them. What they write is one
# of the types above, or what docs/privacy.md lists as kept as it is.
WAYS_OUT = {
    r"\bimport (httpx2|openai|requests|urllib\.request|socket)\b": {"agent/model/transport"},
    r"\.post\(": {"agent/model/client"},
    r"\bask_model\(": {"agent/model/client", "agent/proposing/llm/mapper", "agent/chat/responses"},
    r"\binterrupt\(": {"agent/served/graph"},
    r"\b(INSERT|UPDATE|REPLACE) ": {
        *("agent/model/cache", "agent/lake/lake_state", "agent/chat/conversation"),
        "agent/session",
    },
    r"\bwrite_(file|text|bytes)\(|\bopen\([^)\n]*[\"'][wax]b?[\"']|\bjson\.dump\(": {
        "agent/reporting/proposal_folder",  # the report; mappings, which are kept as they are
        "agent/lake/review_queue",  # a mapping
        "agent/lake/run",  # mappings, the page, files that are left out
        "agent/review/pinning/pinned_sample",
        "agent/review/revisions",  # a copy of a revision, removed at the end
    },
    r"\bstaged\.commit\(": {"agent/steps/convert"},  # the report
    r"\bprint\(|std(out|err)\.write\(|\blogging\b|\bwarnings\.warn\(": set(),
}

# Ways to raw rows: the terminal shows what the agent made of them.
RAW_ROWS = r"\bsample\.rows\b|\bdraw_sample\(|\.open_raw\(|\.sample\(|\b(data|read)\.sample\b"
SHOWS_RAW_ROWS = {
    "ingot/cli/commands/chat_terminal",  # fields, through the redactor
    "ingot/cli/commands/run",  # gives them to what builds a prompt or pins rows
}

MADE = {
    *("Safe", "SafeValue", "SafeProblem", "SafeProposal", "SafeChange", "SafeLeftOut"),
    *("SafeData", "SafeFiles", "SafeRow", "SafeBytes", "SafeBranch"),
}
# Types that hold nothing raw but what docs/privacy.md lists: safe text may be composed of these.
SAFE = MADE | {
    *("State", "Outcome", "Check", "Review", "Result", "Opinion", "Usage", "Message", "Order"),
    "_Case",  # of the policy of gates: a state and its proposal
    *("SafeExamples", "Size", "Manifest", "Redactor", "Prompt", "SafeProposal"),
    *("int", "float", "bool", "None", "Sequence", "Iterable", "Iterator", "Callable", "Mapping"),
    *("list", "tuple", "dict", "Literal", "RowRoot", "Endpoint", "Store"),
}
# Parameters that are words of ingot, whatever their type.
WORDS = {"share", "prompt", "name", "stop"}
# Functions that take what is raw and give what is safe, each by the redactor.
REDACTING = {
    "agent/chat/prompt": {"_current_message", "_earlier_turns"},
    "agent/chat/operations": {"convert_conversation"},
    "agent/judging/drift": {"redacted_changes"},
    "agent/judging/source_gates": {"redacted_left_out"},
    "agent/proposing/proposal": {"redacted_proposal"},
    "agent/proposing/llm/data_block": {"through", "_with_card", "_show_record"},
    "agent/reporting/mapping_words": {"_shown_branch"},
    "agent/reporting/preview": {"path_reach"},  # counts
    "agent/review/mapping_review": {"_record_pair_lines"},  # counts
    "agent/review/pinning/sample_redaction": {"redact_row"},
    "agent/review/pinning/source_form": {"write_form"},
}
# What cuts a text that is safe already.
CUTS = {"shorten_text", "cut_middle", "clean_text", "cut_text", "display_name"}


@cache
def texts() -> dict[str, str]:
    files = [file.relative_to(ROOT) for file in modules().values()]
    return {one.with_suffix("").as_posix(): (ROOT / one).read_text("utf-8") for one in files}


@cache
def trees() -> dict[str, ast.Module]:
    return {name: ast.parse(text) for name, text in texts().items()}


def parameters(node: ast.FunctionDef) -> list[ast.arg]:
    taken = node.args
    more = [one for one in (taken.vararg, taken.kwarg) if one is not None]
    return [*taken.posonlyargs, *taken.args, *taken.kwonlyargs, *more]


def asked(module: str, place: str) -> str | None:
    *names, last = place.split(".")
    node: ast.AST = trees()[module]
    for name in names:
        inside = [one for one in ast.iter_child_nodes(node) if getattr(one, "name", "") == name]
        if not inside:
            return None
        node = inside[0]
    if isinstance(node, ast.FunctionDef):
        found = [one.annotation for one in parameters(node) if one.arg == last]
    else:
        found = [
            one.annotation
            for one in ast.iter_child_nodes(node)
            if isinstance(one, ast.AnnAssign) and getattr(one.target, "id", "") == last
        ]
    text = ast.unparse(found[0]) if found and found[0] is not None else None
    return text and text.strip("'\"")


@pytest.mark.parametrize("writer", WRITERS)
def test_a_writer_takes_what_is_safe(writer: str) -> None:
    assert asked(*writer.split(" ", 1)) == WRITERS[writer], (
        f"{writer} writes what leaves the machine or is kept: let it take {WRITERS[writer]}"
    )


@pytest.mark.parametrize("way", WAYS_OUT)
def test_nobody_else_takes_a_way_out(way: str) -> None:
    found = {name for name, text in texts().items() if name.startswith("agent/")}
    found = {name for name in found if re.search(way, code_of(name))}
    assert found == WAYS_OUT[way], (
        "a module writes, sends or prints by itself: let what it writes have the type `Safe`"
        " (ingot.converters.rows), which the redactor gives (`Redactor.text`, `Redactor.value`,"
        " `redact`), then list its parameter in WRITERS and the module in WAYS_OUT; what is kept"
        " as it is stands in docs/privacy.md with how to avoid it"
    )


@cache
def code_of(name: str) -> str:
    """The code without docstrings and comments."""
    tree = ast.parse(texts()[name])
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            body[0] = (
                ast.Expr(ast.Constant(...)) if isinstance(body[0].value, ast.Constant) else body[0]
            )
    return ast.unparse(tree)


def test_the_terminal_shows_no_raw_row() -> None:
    shown = ("ingot/cli/commands/", "ingot/cli/display", "ingot/cli/questions", "ingot/cli/lake/")
    found = {name for name in texts() if name.startswith(shown)}
    found = {name for name in found if re.search(RAW_ROWS, code_of(name))}
    assert found == SHOWS_RAW_ROWS, "show what a function of ingot.agent gives as `Safe`"


@pytest.mark.more
def test_safe_text_is_made_by_the_redactor_or_of_safe_parts() -> None:
    wrong = [
        f"{name}:{line} {what}"
        for name, tree in trees().items()
        if not name.startswith("agent/privacy/") and name != "converters/rows"
        for line, what in unsafe_makings(name, tree)
    ]
    assert wrong == [], (
        "`Safe(...)` says that a text is safe: write it only where all that the function takes is"
        " safe, or use `redact`, `Redactor.text` or `Redactor.value`"
    )


def test_nothing_gets_round_the_types() -> None:
    marks = re.compile(rf"cast\([\"']?({'|'.join(MADE)})\b|: ({'|'.join(MADE)})\b.*# type: ignore")
    assert [name for name, text in texts().items() if marks.search(text)] == []


def unsafe_makings(name: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    waiting: list[tuple[ast.AST, tuple[ast.FunctionDef, ...]]] = [(tree, ())]
    while waiting:
        node, around = waiting.pop()
        if isinstance(node, ast.FunctionDef):
            around = (*around, node)
        waiting += [(one, around) for one in ast.iter_child_nodes(node)]
        if not isinstance(node, ast.Call) or not is_making(node) or is_plain(node):
            continue
        if around and any(one.name in REDACTING.get(name, ()) for one in around):
            continue
        raw = [one.arg for f in around for one in parameters(f) if not is_safe(one)]
        if raw:
            yield node.lineno, f"{around[-1].name} takes {', '.join(raw)}"


def is_making(node: ast.Call) -> bool:
    made = node.func
    if isinstance(made, ast.Name) and made.id == "map" and node.args:
        made = node.args[0]
    return isinstance(made, ast.Name) and made.id in MADE


def is_plain(node: ast.Call) -> bool:
    """Words of ingot itself, or a cut of what the redactor gave."""
    inner = node.args[0] if node.args else None
    while isinstance(inner, ast.Call) and getattr(inner.func, "id", "") in CUTS:
        inner = inner.args[0]
    if isinstance(inner, ast.Call):
        called = inner.func
        return getattr(called, "id", "") == "redact" or getattr(called, "attr", "") == "text"
    names = [one.id for one in ast.walk(inner) if isinstance(one, ast.Name)] if inner else []
    calls = [one for one in ast.walk(inner) if isinstance(one, ast.Call)] if inner else []
    return not calls and all(one.strip("_").isupper() for one in names)


def is_safe(one: ast.arg) -> bool:
    if one.arg in ("self", *WORDS):
        return True
    named = ast.unparse(one.annotation) if one.annotation else "?"
    return {*re.findall(r"[A-Za-z_]\w*", re.sub(r"'\w+( \w+)*'", "", named))} <= SAFE
