"""What a change of `source` means: which files are read, and how."""

from ingot.agent.meaning.exact import exactly
from ingot.agent.meaning.rules import Change, change
from ingot.agent.meaning.words import fact_text, told
from ingot.converters.rows import Json

_FACTS = ("files", "format", "encoding", "delimiter", "quote", "columns", "root", "json_fields")


def source_changes(old: dict[str, Json], new: dict[str, Json]) -> list[Change]:
    """The changes of the facts about the files."""
    found = []
    for fact in _FACTS:
        before, after = old.get(fact), new.get(fact)
        if exactly(before) == exactly(after):
            continue
        rule = f"source_{fact}"
        if fact == "files" and before and after and _wider(before, after):
            # Otherwise files that come may outweigh those of the format that was found before.
            pinned = "format" in old and old["format"] == new.get("format")
            rule = "source_files_widened" if pinned else "source_files_other_kind"
        words = told(before, after, fact_text)
        found.append(change(rule, f"source.{fact}", *words, f"/source/{fact}"))
    return found


def _wider(old: list[str], new: list[str]) -> bool:
    """Whether every file that the old patterns choose is chosen by the new ones, for certain.

    The last pattern that matches decides: each pattern that chose has to stand before no other
    exclusions than those it stood before. Where all exclude, the rest is chosen, and one pattern
    that chooses would end that.
    """
    if all(map(_excludes, old)):
        return set(new) <= set(old)
    return all(
        any(
            pattern == other and _excluded_behind(new, there) <= _excluded_behind(old, here)
            for there, other in enumerate(new)
        )
        for here, pattern in enumerate(old)
        if not _excludes(pattern)
    )


def _excludes(pattern: str) -> bool:
    return pattern.startswith("!")


def _excluded_behind(patterns: list[str], place: int) -> set[str]:
    return set(filter(_excludes, patterns[place:]))
