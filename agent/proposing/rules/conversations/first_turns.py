"""Find the first message of a conversation where it stands apart from the others."""

from dataclasses import replace

from ingot.agent.proposing.columns import Column, View, is_path_inside, text_of
from ingot.agent.proposing.names import speaker_role
from ingot.agent.proposing.readings import Talk
from ingot.agent.proposing.rules.conversations.turn_contents import turns_of
from ingot.converters.rows import Json


def is_below_talk(column: Column, talk: Talk) -> bool:
    """Whether a column lies inside a talk."""
    return column.path == talk.path or is_path_inside(column.path, talk.path)


def repeats_talk(view: View, column: Column, talk: Talk) -> bool:
    """Whether a column only repeats what the conversation says."""
    return any(is_mostly_inside(c, column) for c in view.columns if is_below_talk(c, talk))


def is_mostly_inside(outer: Column, inner: Column) -> bool:
    """Whether the texts of one column hold most of those of another in the same rows."""
    both = [(a, b) for a, b in zip(outer.texts, inner.texts, strict=True) if a and b]
    return bool(both) and sum(b.strip() in a for a, b in both) > 0.7 * len(both)


def with_first_turn(view: View, talk: Talk) -> Talk:
    """The talk with the message that begins it, where that stands in a field of its own."""
    first = _find_first_turn(view, talk)
    if first is None:
        return talk
    return replace(talk, entries=(first[0], *talk.entries), used=talk.used | {first[1]})


def _find_first_turn(view: View, talk: Talk) -> tuple[dict[str, Json], str] | None:
    """The first message where it stands in a field of its own and the other side goes on."""
    entry = talk.entries[0]
    each, role, content = entry.get("each"), entry["role"], entry["content"]
    if len(talk.entries) > 1 or not (isinstance(each, str) and isinstance(content, str)):
        return None
    for column in view.texts:
        head = column.path.removesuffix(content).removesuffix(".")
        if column.many or is_below_talk(column, talk) or f"{head}.{content}" != column.path:
            continue
        spoken = role["path"] if isinstance(role, dict) else ""
        if isinstance(spoken, str) and (who := view.column(f"{head}.{spoken}")):
            told = {value: speaker_role(value) or "user" for value in set(who.present)}
            roles = {**told, **role.get("map", {})}
            if 2 * sum(roles[value] == "user" for value in who.present) < len(who.present):
                continue
            return {"role": {"path": who.path, "map": roles}, "content": column.path}, column.path
    if _assistant_goes_on(view, entry) and (first := _asking_column(view, talk)):
        return {"role": "user", "content": first.path}, first.path
    return None


_GOES_ON = 0.7  # of the lists begin with the assistant where the question stands before them


def _assistant_goes_on(view: View, entry: dict[str, Json]) -> bool:
    roles = entry["role"].get("map", {}) if isinstance(entry["role"], dict) else {}
    who = entry["role"].get("path") if roles else None
    if not isinstance(who, str):
        return False
    left = [condition for condition in entry.get("where", ()) if "not_in" in condition]
    talks = turns_of(view, entry["each"], who, entry["content"], *(c["path"] for c in left))
    shut = [{text_of(value) for value in condition["not_in"]} for condition in left]
    firsts = [
        next((roles.get(code) for code, _, *marks in talk if not _is_shut(marks, shut)), None)
        for talk in talks
    ]
    begun = [role for role in firsts if role]
    return bool(begun) and begun.count("assistant") >= _GOES_ON * len(begun)


def _is_shut(marks: list[str], shut: list[set[str]]) -> bool:
    return any(mark in values for mark, values in zip(marks, shut, strict=True))


def _asking_column(view: View, talk: Talk) -> Column | None:
    """A text beside the talk that asks, as its name or its values say."""
    found = [
        (max(c.named("question"), c.named("utterance"), c.looks("question")), c.chars, c)
        for c in view.texts
        if not c.many and c.fill >= 0.9 and c.words >= 3 and c.distinct > 0.5 * len(c.present)
    ]
    free = [one for one in found if not is_below_talk(one[2], talk) and one[0] >= 0.5]
    best = max(free, key=lambda one: one[:2], default=None)
    return best[2] if best and not repeats_talk(view, best[2], talk) else None
