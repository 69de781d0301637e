"""Find the speakers' markers in transcripts, and turns whose two sides stand in one element."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

from ingot.agent.proposing.columns import Column, judged_once
from ingot.agent.proposing.names import alias_tables, speaker_role, spell_name
from ingot.agent.proposing.speaker_codes import MOST_CODES, find_sides
from ingot.converters.mapping.rows.messages import compile_split
from ingot.converters.rows import Json
from ingot.converters.sources.text_kinds import count_words

_SNIFFED = 20_000  # characters of a text in which markers are looked for
_NAME = r"(?P<name>[^\W_](?:[\w .-]{0,22}\w)?)"
# Line breaks are taken from the first one on: a run of them costs its length, not its square.
_LEAD = r"(?P<lead>(?<!\n)\n*+)"
_MARKERS = (
    # bracketed: <|user|>, [|Human|], <user>:, [client], 【问】
    re.compile(
        _LEAD
        + r"(?P<open>\[\||<\|start_header_id\|>|<\||<｜|\[|<|【)"
        + _NAME
        + r"(?P<close>\|\]|<\|end_header_id\|>|\|>|｜>|\]|>|】)"
        r"(?P<colon>[:：])?"
    ),
    # ChatML and its like: <|im_start|>user and a line break
    re.compile(
        _LEAD
        + r"(?P<open><\|im_start\|>|<start_of_turn>)"
        + _NAME
        + r"(?P<close>)(?P<colon>)(?=\n)"
    ),
    # at the start of a line: Human:, ### Response:, **Q:**
    re.compile(
        r"(?:^|(?P<lead>(?<!\n)\n++)[ \t]*+|(?=### ?))(?P<open>#{2,4} ?|\*\*)?"
        + _NAME
        + r"(?P<close>)(?P<colon> ?[:：]\*\*|\*\*[:：]| ?[:：])"
    ),
)
# a capital word in the middle of a line: USER: ... ASSISTANT: ...
_INLINE = re.compile(
    r"(?:^|(?<=[\s>.!?)\"]))(?P<lead>)(?P<open>)(?P<name>[A-Z][A-Za-z]{2,11})(?P<close>)"
    r"(?P<colon>:)(?= )"
)
# No marker of a rule is without one of these; looking for them is many times as fast.
_SIGNS = dict(
    zip((*_MARKERS, _INLINE), map(re.compile, ("[<\\[【]", "<", "[:：]", ":")), strict=True)
)
_ENDS = re.compile(
    r"<\|?(?:endoftext|s|im_end|eot_id|end|eoh|eoa|eom|eos|eor|eoc|eot|/s|e_o_s|end_of_turn"
    r"|bos|begin_of_text|startoftext)\|?>|</s>|<｜(?:begin|end)▁of▁sentence｜>"
)
Split = Callable[[str], tuple[list[str], list[str]] | None]
SEVERAL = 3  # one text is the same everywhere, whatever it says
_AGAIN = 0.3  # share of the transcripts in which a stranger speaks twice
_IN_TURN = 0.8  # of the turns answer the one before, where marks are no names
_MOST_CODED = 0.55  # the most that marks may claim that are no names
_FRAMES = " []()<>|-–:："
_SPEAKER_LINE = re.compile(r"(?:^|\n)(?P<name>[^\n:：]{1,20}[:：])")


@dataclass(frozen=True, kw_only=True)
class Markers:
    """How a transcript is cut.

    Attributes:
        split: what stands behind a mark of None belongs to no turn.
        replace: literal texts that carry nothing (end marks, a fixed introduction).
        share: share of the texts that the markers cut into user and assistant.
        ends_open: share of those whose last piece is not the assistant's.
    """

    split: dict[str, str | None]
    replace: dict[str, str]
    share: float
    ends_open: float
    most: float = 1.0


def _marker_spelling(match: re.Match[str]) -> str:
    """The marker as it stands, without the line breaks before it."""
    return "".join(match[part] or "" for part in ("open", "name", "close", "colon"))


def _named_markers(
    texts: Sequence[str], rules: Sequence[re.Pattern[str]] = _MARKERS
) -> tuple[dict[str, str], Counter[str], Counter[str]]:
    """Markers named like speakers: their roles, how often they occur, how often on a new line."""
    roles: dict[str, str] = {}
    seen: Counter[str] = Counter()
    fresh: Counter[str] = Counter()
    for text in texts:
        begin = len(text) - len(text.lstrip())
        able = (rule for rule in rules if _SIGNS[rule].search(text))
        for match in (m for rule in able for m in rule.finditer(text)):
            spelling, role = _marker_spelling(match), speaker_role(match["name"])
            if (
                role in (None, "drop")
                or spell_name(match["name"]) in alias_tables()["assistant_calls"]
            ):
                continue
            roles[spelling] = str(role)
            seen[spelling] += 1
            at_start = match.start("name") - len(match["open"] or "") <= begin
            fresh[spelling] += bool(match["lead"]) or at_start
    for marker, role in alias_tables()["markers"].items():
        if times := sum(text.count(marker) for text in texts):
            roles[marker] = role
            seen[marker] = times
    return roles, seen, fresh


def _unnamed_markers(texts: Sequence[str]) -> dict[str, str]:
    """Two unnamed speakers at line starts (`A:` and `B:`), the first of whom begins.

    Speakers speak again: what stands once in every text is a field (`From:`, `Subject:`).
    """
    seen: Counter[str] = Counter()
    first: Counter[str] = Counter()
    again = 0
    for text in texts:
        names = [m["name"] for m in _SPEAKER_LINE.finditer(text)]
        again += len(names) > len(set(names))
        seen.update(dict.fromkeys(names, 1).keys())
        first.update(names[:1])
    common = [name for name, count in seen.items() if count >= 0.8 * len(texts)]
    if not first or again < _AGAIN * len(texts):
        return {}
    opener = first.most_common(1)[0][0]
    if len(common) != 2 or opener not in common:
        return {}
    return {name: "user" if name == opener else "assistant" for name in common}


# [00:12] K: / 10:02 - Agent: / 2024-05-01 10:02:11 | Kunde:
_TIMED = re.compile(
    r"(?:^|\n)[ \t]*(?P<open>[\[(<]?)(?P<time>\d[\d:.,/\-T ]*\d)"
    r"(?P<close>[ \t]*[AaPp][Mm])?(?P<tail>[\])>]?[ \t]*(?:[-–|][ \t]*)?)"
    r"(?:(?P<name>[^\W\d_][^\n:：>|\[\]()]{0,29}?)(?P<sep>[ \t]*[:：>|]))?"
)


def _timed_markers(texts: Sequence[str]) -> tuple[dict[str, str | None], bool]:
    """Marks behind a time at the start of each turn: the time belongs to no turn; and how sure.

    They have to cut every text exactly as it reads: what else they match would be lost.
    """
    lines = [[m for m in _TIMED.finditer(text) if re.search("[:：]", m["time"])] for text in texts]
    usual = Counter(_time_form(m) for line in lines for m in line).most_common(1)
    lines = [[m for m in line if _time_form(m) == usual[0][0]] for line in lines]
    begun = sum(bool(line) and line[0].start() == 0 for line in lines)
    header = {} if begun else _header_mark(texts, lines)
    if not texts or (begun < _IN_TURN * len(texts) and not header):
        return {}, False
    footer = _footer_mark(texts, lines)
    spoken = [text.partition(next(iter(footer), "\0"))[0] for text in texts]
    talks = [_timed_turns(text, line) for text, line in zip(spoken, lines, strict=True)]
    roles, agreed = _roles_of_marks(talks)
    spoken_turns = [
        [(roles[m], content) for m, content in talk if roles.get(m) and content] for talk in talks
    ]
    notices = any(count_words(content) >= SEVERAL for talk in talks for m, content in talk if not m)
    for heads in _time_heads([m for line in lines for m in line]):
        apart = dict.fromkeys("\n" + head for head in heads)
        split: dict[str, str | None] = {**header, **apart, **roles, **footer}
        cut = compile_split(split)
        if roles and heads and [_cut_pieces(cut, text) for text in texts] == spoken_turns:
            days = any(len(_NUMBER.findall(head)) > 1 for head in heads)  # others have others
            return split, agreed and not (notices or days or header or footer)
    return {}, False


def _header_mark(
    texts: Sequence[str], lines: Sequence[Sequence[re.Match[str]]]
) -> dict[str, str | None]:
    """What all texts begin with whose first turn stands below a header, which is nobody's."""
    if len(texts) < SEVERAL or not all(lines):
        return {}
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(min(texts), max(texts), strict=False))
    word = _HEADER.match("".join(char for char, _ in alike))
    return {"\n" + word[0]: None} if word else {}


def _footer_mark(
    texts: Sequence[str], lines: Sequence[Sequence[re.Match[str]]]
) -> dict[str, str | None]:
    """The line with which what follows the last turn begins, the same in nearly all texts."""
    ends = [text[line[-1].end() :] for text, line in zip(texts, lines, strict=True) if line]
    after = [dict.fromkeys(line for line in end.split("\n")[1:] if line.strip()) for end in ends]
    count = Counter(line for lines_after in after for line in lines_after)
    often = {line for line, number in count.items() if number >= max(SEVERAL, 0.9 * len(texts))}
    first = next((line for lines_after in after for line in lines_after if line in often), None)
    return {"\n" + first: None} if first else {}


def _time_form(match: re.Match[str]) -> tuple[str, ...]:
    """How a time is written: `[00:00] `."""
    spelt = (match[part] or "" for part in ("open", "time", "close", "tail"))
    return tuple(_NUMBER.sub("0", part).strip() for part in spelt)


def _time_heads(matches: Sequence[re.Match[str]]) -> Iterator[list[str]]:
    """What times begin with, and nothing else does: no `1` of a list, but `[`, `2024-`, `10:`.

    Of clocks all hours, or all minutes of a recording, since a sample does not show each.
    """
    opens = {m["open"] for m in matches}
    heads = {_TIME_HEAD.match(m["time"]) for m in matches}
    if len(opens) > 1 or None in heads:
        return
    first = opens.pop()
    if first:
        yield [first]
    spelt = {head[0] for head in heads if head}
    if all(head[-1] == ":" for head in spelt):
        most = _HOURS if max(int(head[:-1]) for head in spelt) < _HOURS else _MINUTES
        padded = {f"{number:02}:" for number in range(most)}
        plain = {f"{number}:" for number in range(most)}
        widths = [width for width in (padded, plain) if width >= spelt] or [padded | plain]
        yield [first + head for head in sorted(widths[0])]
    elif len(spelt) <= MOST_CODES:
        yield [first + head for head in sorted(spelt)]


def _cut_pieces(cut: Split, text: str) -> list[tuple[str, str]]:
    """Who says what in a text that is cut, nothing where it cannot be cut."""
    return list(zip(*(cut(text) or ([], [])), strict=True))


def _timed_turns(text: str, matches: Sequence[re.Match[str]]) -> list[tuple[str, str]]:
    """The marks of speakers as they stand behind their times, with what is said; "" of nobody."""
    ends = [m.start() for m in matches[1:]] + [len(text)]
    return [
        (m["tail"] + m["name"] + m["sep"] if m["name"] else "", text[m.end() : end].strip())
        for m, end in zip(matches, ends, strict=False)  # a text without a time has no turn
    ]


def _roles_of_marks(
    talks: Sequence[Sequence[tuple[str, str]]],
) -> tuple[dict[str, str | None], bool]:
    """Roles by the names in marks, else by who answers whom."""
    spoken = [[turn for turn in talk if turn[0]] for talk in talks]
    named = {mark: speaker_role(mark.strip(_FRAMES)) for talk in spoken for mark, _ in talk}
    known = {mark: None if role == "drop" else role for mark, role in named.items()}
    if {"user", "assistant"} <= set(named.values()):
        return known, all(named.values())  # who else speaks is left out, and a person is asked
    sides = find_sides(spoken)
    if sides is None or sides.answered < _IN_TURN:
        return {}, False
    return dict(sides.roles), sides.agreed and len(talks) >= SEVERAL


_NUMBER = re.compile(r"\d+")
_TIME_HEAD = re.compile(r"\d+:|\d{4}[.,/\-]|\d+[./\-]\d+[./\-]")
_HOURS, _MINUTES = 24, 60
_HEADER = re.compile(r"[^\W\d_][^\n\d]{2,40}")
_NOTICE = re.compile(r"(?:^|\n)([*=>~+#•·-]{2,4}|[*•·\[(])(?=[^\n]*\w)")


def _notice_marks(texts: Sequence[str], split: dict[str, str | None]) -> dict[str, str | None]:
    """Marks of lines that stand before the first speaker in some texts: notices, no turns."""
    seen: Counter[str] = Counter()
    for text in texts:
        before = _text_before(text, split)
        seen.update({match[1] for match in _NOTICE.finditer(before)})
    return {"\n" + mark: None for mark, count in seen.items() if count > 1}


def _text_before(text: str, split: dict[str, str | None]) -> str:
    """What stands before the first marker, all where there is none."""
    match = re.search("|".join(re.escape(marker.lstrip("\n")) for marker in split), text)
    return text[: match.start()] if match else text


def _shared_introduction(texts: Sequence[str], split: dict[str, str | None]) -> str:
    """The text before the first marker where it is the same everywhere."""
    if len(texts) < SEVERAL:
        return ""
    before = Counter(_text_before(text, split) for text in texts)
    common, count = before.most_common(1)[0]
    return common if common.strip() and count >= 0.95 * len(texts) else ""


def _judge_markers(
    texts: Sequence[str], split: dict[str, str | None], introduction: str
) -> tuple[float, float]:
    """Share of the texts that the markers cut cleanly, and of those that end without an answer."""
    good = open_end = 0
    cut = compile_split(split)
    for text in texts:
        spoken = [role for role, _ in _cut_pieces(cut, text.removeprefix(introduction))]
        if "user" not in spoken:
            continue
        good += 1
        open_end += spoken[-1] != "assistant"
    return good / max(1, len(texts)), open_end / max(1, good)


@judged_once
def find_markers(column: Column) -> Markers | None:
    """Return the markers of a column of transcripts, None if it holds none."""
    raw = [text for text in column.present if text.strip()][:200]
    seen = Counter(mark for text in raw for mark in set(_ENDS.findall(text)))
    ends = sorted(mark for mark, count in seen.items() if count >= 0.3 * len(raw))
    texts = [_remove_marks(text, ends) for text in raw]
    sniffed = [text[:_SNIFFED].strip() for text in texts]
    split, sure = _timed_markers(sniffed)
    if not split:
        split, sure = _split_markers(sniffed) if texts else {}, True
        split |= _notice_marks(sniffed, split) if split else {}
    if not {"user", "assistant"} <= set(split.values()):
        return None
    introduction = _shared_introduction(texts, split)
    share, open_end = _judge_markers(texts, split, introduction)
    if share < 0.9:
        return None
    nothing = [introduction, *ends] if introduction else ends
    replace = dict.fromkeys(nothing, "")
    return Markers(
        split=split,
        replace=replace,
        share=share,
        ends_open=open_end,
        most=1.0 if sure else _MOST_CODED,
    )


def _remove_marks(text: str, marks: Sequence[str]) -> str:
    for mark in marks:
        text = text.replace(mark, "")
    return text


def _split_markers(texts: Sequence[str]) -> dict[str, str | None]:
    """Markers to roles; one that always stands at a line's start keeps the line break."""
    for rules in (_MARKERS, (_INLINE,)):
        roles, seen, fresh = _named_markers(texts, rules)
        usual = {
            r: max(seen[m] for m, other in roles.items() if other == r) for r in roles.values()
        }
        least = max(1, 0.02 * len(texts))
        usual_roles = {m: r for m, r in roles.items() if seen[m] >= max(least, 0.1 * usual[r])}
        if {"user", "assistant"} <= set(usual_roles.values()):
            fresh_roles = {m: role for m, role in usual_roles.items() if fresh[m] == seen[m]}
            lead = (
                "\n\n" if fresh_roles == usual_roles and _stand_apart(texts, usual_roles) else "\n"
            )
            return {(lead + m if m in fresh_roles else m): role for m, role in usual_roles.items()}
    return {"\n" + marker: role for marker, role in _unnamed_markers(texts).items()}


def _stand_apart(texts: Sequence[str], markers: dict[str, str]) -> bool:
    """Whether a blank line stands before every turn, and not before those that a text quotes."""
    cut = compile_split({"\n\n" + marker: role for marker, role in markers.items()})
    seen: Counter[bool] = Counter()
    for text in texts:
        spoken = [role for role, _ in _cut_pieces(cut, text)]
        if len(spoken) < 2 or any(speaker == other for speaker, other in pairwise(spoken)):
            return False
        whole = sum(text.count("\n" + marker) for marker in markers)
        seen.update({True: len(spoken) - 1, False: whole - len(spoken) + 1})
    return seen[True] >= seen[False]


def find_step_markers(column: Column) -> dict[str, str]:
    """Return the markers of a log in which thoughts and tool outputs alternate, else {}."""
    texts = [text.lstrip() for text in column.present[:200] if text.strip()]
    speakers = [[m["name"] for m in _SPEAKER_LINE.finditer(text)] for text in texts]
    returned = {name for names in speakers for name in names if speaker_role(name[:-1]) == "tool"}
    first = speakers[0][0] if speakers and speakers[0] else ""
    cut = sum(not returned.isdisjoint(names) for names in speakers) > 0.5 * len(texts)
    if not cut or first in returned or not all(text.startswith(first) for text in texts):
        return {}
    return {"\n" + first: "assistant", **{"\n" + name: "tool" for name in sorted(returned)}}


def entry_content(path: str, markers: Markers) -> Json:
    """Return the content of the entry that is split."""
    return {"path": path, "replace": markers.replace} if markers.replace else path


_PREFIX = re.compile(
    r"\s*(?:<\|[^<>|]{1,30}\|>|\[\|[^\[\]|]{1,30}\|\]|\[[^\[\]]{1,20}\]|<[A-Za-z_ ]{1,20}>"
    r"|[A-Z][\w ]{1,18})[:：] ?"
)


def find_wrapping_marks(texts: Sequence[str]) -> list[str]:
    """Find marks without content: a speaker's mark before every text, an end mark after it."""
    if len(texts) < 3:
        return []
    starts = Counter(m.group() for t in texts if (m := _PREFIX.match(t)))
    ends = Counter(m for t in texts for m in _ENDS.findall(t[-30:])[-1:])
    marks = [
        mark
        for mark, count in starts.most_common(1)
        if count >= 0.95 * len(texts) and speaker_role(re.sub(r"[^\w ]", "", mark)) is not None
    ]
    return marks + [mark for mark, count in ends.most_common(1) if count >= 0.9 * len(texts)]


def texts_begin_with_speaker(texts: Sequence[str]) -> bool:
    """Return whether most texts begin with a speaker's mark, so that nobody is guessed."""
    starts = [next(filter(None, (rule.match(t) for rule in _MARKERS)), None) for t in texts]
    known = sum(bool(start and speaker_role(start["name"])) for start in starts)
    return known >= 0.8 * len(texts)
