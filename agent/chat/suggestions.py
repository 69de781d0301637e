"""Name the commands that a line of plain language may have meant, where no model reads it."""

import difflib
import re

from ingot.agent.chat.commands import COMMANDS
from ingot.converters.mapping.language import FLAGS


def suggest_commands(words: str) -> str:
    """Name the commands that a line may have meant: one misspelled, or some with its words."""
    typed_words = re.findall(r"[a-z]{3,}", words.lower())
    close = difflib.get_close_matches(
        typed_words[0] if typed_words else "", COMMANDS, 1, cutoff=0.75
    )
    if close and len(words.split()) <= _SHORT:
        return f"Did you mean: {COMMANDS[close[0]].usage}?"
    if beyond := [one for one in typed_words if one.rstrip("s") in _BEYOND - _FLAG_WORDS]:
        return _NO_COMMAND.format(", ".join(dict.fromkeys(beyond)))
    counts = {name: len(_TOPICS.get(name, {name}) & set(typed_words)) for name in COMMANDS}
    if not _ROWS & set(
        typed_words
    ):  # what else is removed or kept is no row: a part of the mapping
        counts |= dict.fromkeys(("drop", "keep"), 0)
    fitting = sorted(filter(counts.get, counts), key=lambda name: -counts[name])[:_MOST_HINTS]
    if not fitting:
        return "help lists the commands, fields the fields of the data."
    suffix = "; help set lists what can be set" if "set" in fitting else ""
    return (
        f"These may fit: {'; '.join(COMMANDS[one].usage for one in fitting)}{suffix}. "
        "help lists all."
    )


_SHORT, _MOST_HINTS = 3, 3
_FLAG_WORDS = {one.word for one in FLAGS}
# What is asked for in plain language, and no command does.
_BEYOND = {
    *("html", "markup", "whitespace", "typo", "signature", "regex", "translate", "trim", "strip"),
    *("rewrite", "summarize", "shorten", "anonymize", "duplicate", "deduplicate", "emoji"),
}
_NO_COMMAND = (
    "No command does that ({}): a mapping takes texts as they are, or replaces literal "
    "texts in them (`replace`, docs/mapping.md; type edit). help lists the commands."
)
# Words that speak of rows or messages, or of a field by which they are told apart.
_ROWS = {
    *("row", "rows", "record", "records", "line", "lines", "message", "messages", "note", "notes"),
    *("where", "under", "over", "short", "shorter", "long", "longer", "empty", "blank", "all"),
    *("answers", "conversations", "turns", "entries", "comments", "internal", "private", "only"),
}
# Words of plain language that speak of what a command does.
_TOPICS: dict[str, set[str]] = {
    "set": {
        *(
            "set",
            "put",
            "make",
            "use",
            "add",
            "join",
            "remove",
            "calls",
            "tools",
            "text",
            "title",
            "prompt",
            "system",
            "user",
            *_FLAG_WORDS,
        ),
        *("assistant", "message", "messages", "conversation", "group", "field", "language"),
    },
    "drop": {
        "drop",
        "remove",
        "delete",
        "filter",
        "without",
        "skip",
        "exclude",
        "leave",
        "shorter",
    },
    "keep": {"keep", "only", "filter"},
    "read": {"read", "sheet", "sheets", "file", "files"},
    "leave": {"leave", "sheet", "sheets", "file", "files"},
    "header": {"header", "heading", "headings"},
    "swap": {"swap", "exchange", "reverse", "other"},
    "role": {"role", "roles", "speaker", "speakers", "speaks", "who"},
    "train": {"train", "mask", "loss", "learn"},
    "alternatives": {"alternatives", "other", "else", "another"},
    "show": {"show", "rows", "records", "example", "examples", "see"},
    "fields": {"fields", "columns", "data"},
    "undo": {"undo", "back", "revert"},
    "ok": {"convert", "approve", "done", "good", "fine", "yes"},
    "out": {"output", "folder", "directory"},
    "take": set(),
}
