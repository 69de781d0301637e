"""Text of unknown origin in Markdown that GitHub renders: code, or plain words and numbers.

GitHub makes something of text in many ways: Markdown itself, links of bare addresses, mentions,
references to issues and commits (the prefix of a reference is a setting of the repository), names
of emoji, formulas between dollar signs. Escaping them one by one fails: `&#64;` is an @ again when
mentions are looked for, and `<code>a&#64;b.example</code>` becomes a link to an address. What is
inside a code span or a fenced block is never looked at by any of them, holds no Markdown and no
HTML, and shows every character as it is. So there is one way for data:

- `code_span`: a code span, its delimiter longer than any run of backticks inside;
- `fence_lines`: a block of code, its fence likewise, each line behind a sign of ours;
- `escape_words`: a sentence that may hold data: words of letters and short numbers stay as they
  are (none of the above is made of them alone), all else becomes code.

What cannot be seen is named (`[U+202E]`), so that nothing hides and nothing is turned around; line
breaks and tabs inside one line are `⏎` and `⇥`. Letters that run to the left would turn `a → b`
around where both are such: an `&lrm;` behind their span keeps the order. Three things are changed:
of very many backticks in a row the number is told, and `##[` and, at the beginning of a line, `::`
get a blank inside: where a report is printed in a GitHub job, the runner takes them for commands.

A record before and after, as lines that show what differs.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import lru_cache

from ingot.agent.privacy import Safe, redact
from ingot.agent.reporting.mapping_words import cut_text
from ingot.agent.review.review_document import Example

_MOST = 200
_READ = 4  # times what is shown is searched for secrets: one that is cut is not known as one
_COLUMNS = 92

# Others than those of category C: fillers and selectors that take no room.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)
_JOINERS = "\u200d\ufe0f"  # of emoji: without them the parts are seen
_LEFTWARDS = {"R", "AL", "AN"}
_LINE_BREAKS = re.compile("\r\n|[\n\r\v\f\x85\u2028\u2029]")
_COMMAND = re.compile(r"^(\s*)::")
_RUN = re.compile("`+")
_LONGEST_RUN = 40  # GitHub knows no code span between more than 80
_LONG_RUN = re.compile(f"`{{{_LONGEST_RUN + 1},}}")

# What stands in quotation marks stays together.
_TOKENS = re.compile(r"""(?<!\S)(?:"[^"]*"|'[^']*')\S*|\S+""")
_LETTERS = r"[^\W\d_]+"
_NUMBER = r"[+-]?(?:\d{1,6}|\d{1,3}(?:,\d{3})+)(?:\.\d{1,4})?%?(?:/\d{1,6})?"
_PLAIN = re.compile(rf"\(?(?:{_LETTERS}|{_NUMBER}|%)[,.;:!?)]{{0,2}}|[→+=–·-]")
_MARKER = re.compile(r"[+-]|\d+[.)]")  # of a list, where it stands first
_COMMIT = re.compile(r"\(?[A-Fa-f]{7,}[,.;:!?)]{0,2}")


def code_span(text: str, max_chars: int = _MOST) -> str:
    """Return a code span of one line; `-` if there is no text."""
    return _backtick_span(printable_line(text, max_chars)) if text else "-"


def escape_words(text: str, max_chars: int = 2 * _MOST) -> str:
    """Return a sentence: words of letters and short numbers as they are, all else as code."""
    pieces: list[str] = []
    unsafe: list[str] = []
    for token in _TOKENS.findall(printable_line(text, max_chars)):
        is_plain = (
            _PLAIN.fullmatch(token) and not _COMMIT.fullmatch(token) and not _runs_left(token)
        )
        if not is_plain or (not pieces and _MARKER.match(token)):  # GitHub makes something of it
            unsafe.append(token)
            continue
        pieces += [*_token_spans(unsafe), token]
        unsafe = []
    return " ".join([*pieces, *_token_spans(unsafe)])


def _token_spans(tokens: Sequence[str]) -> Iterator[str]:
    """Yield the tokens as code, with the punctuation at their end behind it."""
    if tokens:
        joined = " ".join(tokens)
        inner = joined.rstrip(",.;:") or joined
        yield f"{_backtick_span(inner)}{joined[len(inner) :]}"


@lru_cache(maxsize=4096)
def printable_line(text: str, max_chars: int = _MOST) -> str:
    """Return the beginning of a text on one line, without secrets and invisible characters."""
    return visible_text(_truncate_text(text, max_chars))


def _truncate_text(text: str, max_chars: int) -> str:
    """Return the beginning of a text without secrets, and how many characters are left out."""
    unread = len(text) - _READ * max_chars
    return cut_text(redact(text[: _READ * max_chars]) + " " * unread, max_chars)


def visible_text(text: str) -> str:
    """Return the text on one line, with names for invisible characters."""
    line = _LONG_RUN.sub(
        lambda run: f"{run[0][:_LONGEST_RUN]}[+{len(run[0]) - _LONGEST_RUN} backticks]",
        _LINE_BREAKS.sub("⏎", text).replace("\t", "⇥"),
    )
    if line.isascii() and line.isprintable():
        return line.replace("##[", "# #[")
    return "".join(map(_character_name, line, " " + line)).replace("##[", "# #[")


def _character_name(char: str, before: str) -> str:
    if char in _JOINERS and unicodedata.category(before)[0] == "S":
        return ""
    hidden = unicodedata.category(char)[0] == "C" or _UNSEEN.match(char)
    return f"[U+{ord(char):04X}]" if hidden else char


def _backtick_span(line: str) -> str:
    marks = "`" * (_longest_run(line) + 1)
    pad = " " if line.strip(" ") and (line[0] in "` " or line[-1] in "` ") else ""
    return f"{marks}{pad}{line}{pad}{marks}{'&lrm;' * _runs_left(line)}"


def _runs_left(text: str) -> bool:
    return not text.isascii() and any(unicodedata.bidirectional(c) in _LEFTWARDS for c in text)


def _longest_run(text: str) -> int:
    return max((len(run) for run in _RUN.findall(text)), default=0)


def fence_lines(lines: Sequence[str], language: str = "") -> str:
    """Return a block of code."""
    marks = "`" * max(3, _longest_run("\n".join(lines)) + 1)
    return "\n".join([f"{marks}{language}", *(_COMMAND.sub(r"\1: :", one) for one in lines), marks])


def wrap_text(text: str, columns: int = _COLUMNS) -> Iterator[str]:
    """Yield the lines of a text with names for invisible characters; long ones are folded."""
    for line in _LINE_BREAKS.split(text):
        yield from _fold_line(visible_text(line), columns)


def _fold_line(line: str, columns: int) -> Iterator[str]:
    """Fold a line at so many columns, if possible after a blank; nothing is lost."""
    if len(line) <= columns and line.isascii():
        yield line
        return
    start = width = 0
    blank = -1
    for index, char in enumerate(line):
        if width >= columns:
            end = blank + 1 if blank >= start else index
            yield line[start:end]
            width -= sum(map(_character_width, line[start:end]))
            start, blank = end, -1
        width += _character_width(char)
        if char == " ":
            blank = index
    yield line[start:]


def _character_width(char: str) -> int:
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; cells are Markdown already, on one line."""
    # GitHub splits a row at `|` first, in code too.
    lines = ([cell.replace("|", "\\|") for cell in row] for row in rows)
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *lines))


def command_block(line: str) -> str:
    """Return a command as a block of code that can be copied."""
    return fence_lines([visible_text(redact(line))], "sh")


def fold_blocks(title: str, inner: Iterable[str]) -> str:
    """Fold blocks below a title, which is raw HTML."""
    body = "\n\n".join(inner)
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"


def escape_message(text: str) -> str:
    """Escape the message of a command of a GitHub job."""
    return visible_text(text).replace("%", "%25")


def escape_property(text: str) -> str:
    """Escape a property of a command of a GitHub job."""
    return escape_message(text).replace(":", "%3A").replace(",", "%2C")


def utf8_size(text: str) -> int:
    """Count bytes of UTF-8, which are never fewer than characters or UTF-16 units."""
    return len(text.encode())


MOST_LINES = 36
_TEXT = 700


def example_block(example: Example) -> str:
    """Show one of the `examples` of the review document as a block of code."""
    lines = list(diff_lines(_record_text_lines(example["old"]), _record_text_lines(example["new"])))
    return fence_lines(first_lines(lines, MOST_LINES), "diff")


def _record_text_lines(record: list[list[Safe]] | None) -> list[str]:
    lines = []
    for name, text in record or []:
        first, *further = wrap_text(_truncate_text(text, _TEXT))
        lines += [f"{printable_line(name, 60)}: {first}", *(f"  {line}" for line in further)]
    return first_lines(lines, 4 * MOST_LINES)


def diff_lines(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """Yield what differs between two records' lines, and two lines around it."""
    groups = list(SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(2))
    if not groups:
        yield from (f"  {line}" for line in old)
        yield "  (they differ in parts that are not shown)"
    for number, group in enumerate(groups):
        if number or group[0][1]:
            yield "  ..."
        for tag, start, end, new_start, new_end in group:
            if tag == "equal":
                yield from (f"  {line}" for line in old[start:end])
                continue
            yield from (f"- {line}" for line in old[start:end])
            yield from (f"+ {line}" for line in new[new_start:new_end])


def first_lines(lines: list[str], max_lines: int) -> list[str]:
    """Return at most so many lines, and how many more there are."""
    remaining = len(lines) - max_lines
    return lines if remaining <= 0 else [*lines[:max_lines], f"  ...(+{remaining} lines)"]
