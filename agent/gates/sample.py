"""The gates that a mapping's run on the sample decides, each with its figure.

A gate fails where the check has found a problem of its kind; the figures come from its counts.
"""

from collections.abc import Iterator

from ingot.agent.gates.gate import Document, Found, Gate, GateState, failing, said, share, shown
from ingot.converters.check import MAX_UNREADABLE, MIN_COVERAGE
from ingot.converters.unify import SOFT_REASONS

# Soft outcomes above this share are pointed at; of a model's making they are for a person.
MOST_LEFT_OUT = 0.5
# The same text in nearly all of so many records is no accident either.
_NEARLY_ALL, _MANY = 0.95, 20
_FEWEST_SAME = 3


def on_sample(check: Document, found: Found) -> Iterator[Gate]:
    """The gates of a mapping that was run.

    Args:
        check: its counts (`trial.facts`).
        found: the problems; those that belong to one of these gates are taken.
    """
    failures = check["failures"]
    unreadable = check.get("unreadable", 0)
    soft = {reason: failures[reason] for reason in SOFT_REASONS if failures.get(reason)}
    tried = check["records"] + sum(failures.values()) - unreadable
    yield failing(
        "coverage",
        found.take("coverage"),
        f"at least {MIN_COVERAGE:.0%}".replace("%", " %"),
        share(check["records"] + sum(soft.values()), tried),
    )
    records = f"{check['records']} of {check['rows']} rows"
    yield failing("records", found.take("no_records"), "at least one", records)
    for reason, count in soft.items():
        yield _soft(reason, count, tried, none_left=not check["records"])
    yield failing(
        "unreadable rows",
        found.take("unreadable"),
        f"at most {MAX_UNREADABLE:.0%}".replace("%", " %"),
        share(unreadable, check["rows"]),
    )
    yield from _paths(check, found)
    yield from _contents(check.get("content") or {}, found)
    yield from _drifted(check, found)


def _soft(reason: str, count: int, tried: int, *, none_left: bool) -> Gate:
    """A share of its own: it stops the run only where nothing is left."""
    state: GateState = "warn" if count > MOST_LEFT_OUT * tried else "pass"
    return Gate(
        name=reason.replace("_", " "),
        state="fail" if none_left else state,
        figure=share(count, tried),
        limit="not all",
    )


def _paths(check: Document, found: Found) -> Iterator[Gate]:
    paths = check.get("paths", [])
    resolved = sum(bool(one["resolved"] or one["null"]) for one in paths)
    nowhere = found.take("unresolved_path")
    yield failing("paths", nowhere, "each is in the data", f"{resolved}/{len(paths)}")
    unnamed = found.take("unmapped_value", "/role")
    if unnamed or any("/role" in one["pointer"] for one in paths):
        lost = check["failures"].get("unmapped_value", 0)
        records = f"in {lost} record{'s' * (lost != 1)}"
        yield failing("unmapped role values", unnamed, "none", records if unnamed else "none")
    for code, name in (("unmapped_value", "unmapped values"), ("not_text", "texts")):
        if problems := found.take(code):
            yield failing(name, problems, "none without a text" if code == "not_text" else "none")


def _contents(content: Document, found: Found) -> Iterator[Gate]:
    usual = content.get("usual") or {}
    if "answers" in usual:
        both = found.take("both_sides")
        yield failing("paths on both sides", both, "none")
        yield _training(content, found)
    for side, counts in usual.items():
        yield _constant(side, counts)
    for side, count in (content.get("numbers") or {}).items():
        yield Gate(
            name=f"lists of numbers as {side}",
            state="warn" if 2 * count >= content["records"] else "pass",
            figure=share(count, content["records"]),
            limit="under 50 %: they look like token ids",
        )


def _training(content: Document, found: Found) -> Gate:
    none = found.take("no_training")
    records = share(content["trained_records"], content["records"])
    chars = 100 * content["trained_chars"] / max(1, content["chars"])
    few = content["trained_records"] < MIN_COVERAGE * content["records"]
    return Gate(
        name="trained on",
        state="fail" if none else "warn" if few else "pass",
        figure=f"{records} records, {chars:.1f} % of the characters",
        limit="at least one message",
    )


def _constant(side: str, counts: Document) -> Gate:
    """How often the most frequent text of a side occurs."""
    return Gate(
        name=f"most frequent {side.removesuffix('s')}",
        state="warn" if is_constant(counts) else "pass",
        figure=share(counts["count"], counts["texts"]),
        limit="not the same in all",
    )


def is_constant(counts: Document) -> bool:
    """Whether texts are the same in all, or in nearly all of many; a `Usual` as an object."""
    texts, most = counts["texts"], counts["count"]
    same = texts >= _FEWEST_SAME and most == texts
    return bool(same or (texts >= _MANY and most >= _NEARLY_ALL * texts))


def _drifted(check: Document, found: Found) -> Iterator[Gate]:
    if "changes" not in check:
        return
    changes = check["changes"]
    stopping = found.take("drift")
    yield Gate(
        name="shape of the data",
        state="fail" if stopping else "warn" if changes else "pass",
        figure=f"{changes} change{'s' * (changes != 1)}",
        limit="that of the data the mapping was made for",
        detail=shown(said(one) for one in stopping),
    )
