"""The review of all mappings that two revisions, or two files, have in different form.

No model is asked and nothing is written; the result is the review document
(schemas/review.schema.json), the same bytes for the same commits.
"""

import re
import shlex
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ingot.agent.redaction import redact
from ingot.agent.review.changes import changes, class_of
from ingot.agent.review.differing import examples
from ingot.agent.review.golden import GoldenResult, golden_file, run_golden
from ingot.agent.review.normal import normal
from ingot.agent.review.places import line_at, lines_of, target
from ingot.agent.review.replay import Ran, Replay, drift_json, replay, stand_of
from ingot.agent.review.repository import WORKING_TREE, repository
from ingot.agent.review.revisions import Side, laid_out, of_commit, of_file, of_working_tree
from ingot.agent.review.rules import Change
from ingot.agent.review.touched import Document, Touched, between, touched
from ingot.agent.review.verdict import Case, Reason, place, reasons, worst
from ingot.converters.errors import MappingError, RevisionError, SourceError
from ingot.converters.rows import Json

VERSION = 1
_AT_LINE = re.compile(r"\bline (\d+) column")
_MAGIC = re.compile(r"([*?\[])")


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What a person wants of a review.

    Attributes:
        mappings: glob of the JSON files that are mappings, None = all that hold one.
        source: where the data are, None = pinned samples only.
        allow_breaking: breaking changes and lost records warn only.
        offline: data of other machines are out of reach.
    """

    mappings: str | None = None
    source: str | None = None
    allow_breaking: bool = False
    offline: bool = False


def sides(folder: Path, base: str | None, head: str | None) -> tuple[Side, Side]:
    """The two sides of a repository.

    What `head` changed since it left `base` is reviewed, as in a pull request: what others did to
    `base` meanwhile is not. Where the histories do not meet (a shallow clone) `base` is taken as
    it is.

    Args:
        folder: in the repository.
        base: a revision, None = the branch that others are merged into (`origin/HEAD`,
            `origin/main`, `origin/master`, `main`, `master`: the first that there is).
        head: a revision, None = the working tree.

    Raises:
        RevisionError: there is no such revision, no repository, or no git.
    """
    repo = repository(folder)
    name = base if base is not None else repo.main()
    tip = repo.commit(head if head is not None else "HEAD")
    before = of_commit(repo, repo.forked(repo.commit(name), tip), name)
    after = of_working_tree(repo) if head is None else of_commit(repo, tip, head)
    return before, after


def review(base: Side, head: Side, wish: Wish) -> dict[str, Json]:
    """Review every mapping that differs.

    Args:
        base: as it was.
        head: as it is.
        wish: what is wanted.

    Raises:
        RevisionError: a side cannot be read, or data are named for several mappings.
        SourceError: the data that were named cannot be read.
    """
    found = touched(base, head, None if wish.mappings is None else [wish.mappings])
    replayed = [one for one in found if one.new is not None]
    if wish.source is not None and len(replayed) > 1:
        names = ", ".join(_shown(one.path) for one in replayed[:3])
        hint = "name one mapping with --mappings; the others need pinned samples"
        said = f"data of one mapping, and {len(replayed)} are to be replayed: {names}"
        raise RevisionError("--source", said, hint)
    command = ["--base", base.name, *(["--head", head.name] * (head.name != WORKING_TREE))]
    told = [
        _mapping(one, base, head, wish, [*command, "--mappings", _literal(one.path)])
        for one in found
    ]
    own = ["--mappings", wish.mappings] if wish.mappings is not None else []
    return _document(base, head, wish, told, [*command, *own])


def review_files(old: Path, new: Path, wish: Wish) -> dict[str, Json]:
    """Review one mapping file against another one.

    Args:
        old: the mapping as it was.
        new: as it is; what lies beside it serves first.
        wish: what is wanted; globs choose nothing here.

    Raises:
        RevisionError: a file is not there.
        MappingError: the old one is no mapping.
        SourceError: the data that were named cannot be read.
    """
    base, head = of_file(old), of_file(new)
    one = between(base, old.name, head, new.name, shown=str(new))
    inner = replace(one, path=new.name, old_path=old.name)
    told = _mapping(inner, base, head, wish, [str(old), str(new)])
    beside = str(new.parent)
    told = {**told, "path": _shown(one.path), "old_path": one.old_path and _shown(one.old_path)}
    told["sample"] = _in_folder(told["sample"], "place", beside)
    told["golden"] = told["golden"] and _in_folder(told["golden"], "file", beside)
    return _document(base, head, wish, [told], [str(old), str(new)])


def _in_folder(block: dict[str, Json], key: str, folder: str) -> dict[str, Json]:
    """What lies beside a file, as seen from where the command runs."""
    local = block.get("kind") != "source" and block[key] and folder != "."
    return {**block, key: f"{folder}/{block[key]}"} if local else block


def _document(
    base: Side, head: Side, wish: Wish, told: Sequence[dict[str, Json]], command: Sequence[str]
) -> dict[str, Json]:
    return {
        "version": VERSION,
        "base": redact(base.name),
        "head": redact(head.name),
        "verdict": worst(one["verdict"] for one in told),
        "allow_breaking": wish.allow_breaking,
        "reproduce": _command(command, wish),
        "mappings": list(told),
    }


def _command(words: Sequence[str], wish: Wish) -> str:
    """The command that shows the same again."""
    source = ["--source", redact(wish.source)] if wish.source is not None else []
    flags = [
        *["--allow-breaking"] * wish.allow_breaking,
        *["--offline"] * wish.offline,
    ]
    return shlex.join(["ingot", "review", *map(_shown, words), *source, *flags])


def _literal(path: str) -> str:
    """A path as a glob that matches nothing else."""
    glob = _MAGIC.sub(r"[\1]", path)
    anchored = glob if "/" in glob else f"/{glob}"
    return f"./{anchored}" if anchored.startswith("!") else anchored


def _shown(path: str) -> str:
    """A path that may be no valid text."""
    return path.encode(errors="surrogateescape").decode(errors="backslashreplace")


# --- one mapping


def _mapping(
    one: Touched, base: Side, head: Side, wish: Wish, command: Sequence[str]
) -> dict[str, Json]:
    with tempfile.TemporaryDirectory(prefix="ingot-") as folder:
        case = _case(one, base, head, wish, Path(folder))
        found = reasons(case, allow_breaking=wish.allow_breaking)
        lines = lines_of(one.text)
        return {
            "path": _shown(one.path),
            "old_path": _shown(one.old_path) if one.old_path is not None else None,
            "status": one.status,
            "verdict": worst(reason.level for reason in found),
            "class": case.kind,
            "reasons": [_reason(reason, lines) for reason in found],
            "changes": [_change(change, lines) for change in case.changes],
            **_replayed(case.replay),
            "golden": _golden(case.golden, one.path),
            "provenance": {"old": _provenance(one.old), "new": _provenance(one.new)},
            "reproduce": _command(command, wish),
        }


def _case(one: Touched, base: Side, head: Side, wish: Wish, folder: Path) -> Case:
    stand = stand_of(one, base, head, folder, source=wish.source, offline=wish.offline)
    ran = replay(stand, one.old, one.new)
    kind, found, unclear = _compared(one, ran)
    golden, fault = _run_golden(one, head, folder, stand.source_name)
    old_rows = golden_file(Path(one.old_path or one.path)).as_posix()
    new_rows = golden_file(Path(one.path)).as_posix()
    return Case(
        touched=one,
        kind=kind,
        changes=found,
        unclear=unclear,
        replay=ran,
        golden=golden,
        golden_fault=fault,
        golden_gone=old_rows in base.files and new_rows not in head.files,
    )


def _compared(one: Touched, ran: Replay) -> tuple[str | None, tuple[Change, ...], str]:
    """Class, changes, and why there are none where both mappings are known."""
    if one.old is None or one.new is None:
        return None, (), ""
    try:
        found = changes(normal(one.old, _rows(ran.old)), normal(one.new, _rows(ran.new)))
    except MappingError as error:
        return None, (), "; ".join(map(str, error.problems))
    return class_of(found), found, ""


def _rows(ran: Ran | None) -> list[Json]:
    return [row.value for row in ran.trial.sample.rows] if ran else []


def _run_golden(
    one: Touched, head: Side, folder: Path, source_name: str | None
) -> tuple[GoldenResult | None, str]:
    """What became of the golden rows, and why they could not be run."""
    name = golden_file(Path(one.path)).as_posix()
    if one.new is None or name not in head.files:
        return None, ""
    place = golden_file(laid_out(head, one.path, folder / "golden"))
    try:
        return run_golden(one.new, place, source_name=source_name or Path(one.path).stem), ""
    except (SourceError, MappingError) as error:
        return None, redact(str(error).replace(str(place), name))


# --- as plain JSON


def _reason(one: Reason, lines: dict[str, int]) -> dict[str, Json]:
    """A reason; a text that is no JSON says itself in which line."""
    stated = _AT_LINE.search(one.text) if one.rule == "broken" else None
    line = None if one.pointer is None else line_at(lines, one.pointer)
    if stated:
        line = int(stated[1])
    return {"level": one.level, "rule": one.rule, "text": one.text, "line": line}


def _change(one: Change, lines: dict[str, int]) -> dict[str, Json]:
    return {
        "target": redact(one.target),
        "rule": one.rule,
        "class": one.kind,
        "old": None if one.old is None else redact(one.old),
        "new": None if one.new is None else redact(one.new),
        "line": line_at(lines, place(one)),
    }


def _replayed(ran: Replay) -> dict[str, Json]:
    matched = ran.matched
    first = ran.new or ran.old
    return {
        "sample": {
            "kind": ran.stand.kind,
            "place": _shown(ran.stand.place),
            "rows": first.trial.report.rows if first else 0,
            "sha256": ran.stand.sha256,
            "why": _shown(ran.stand.why),
        },
        "old": _side(ran.old),
        "new": _side(ran.new),
        "same": matched.same if matched else None,
        "of": matched.of if matched else None,
        "examples": examples(matched.differences) if matched else [],
        "drift": drift_json(ran.drift),
    }


def _side(ran: Ran | None) -> dict[str, Json] | None:
    if ran is None:
        return None
    paths = [
        {
            "target": redact(target(one.pointer)),
            "path": redact(one.path),
            "resolved": one.resolved,
            "null": one.null,
            "missing": one.missing,
            "rows": one.resolved + one.null + one.missing,
        }
        for one in ran.trial.report.paths
    ]
    return {**ran.figures(), "paths": paths}


def _golden(found: GoldenResult | None, path: str) -> dict[str, Json] | None:
    if found is None:
        return None
    failed = [{"line": one.line, "why": one.why} for one in found.failed]
    return {
        "file": _shown(golden_file(Path(path)).as_posix()),
        "rows": found.rows,
        "failed": failed,
    }


def _provenance(document: Document | None) -> dict[str, Json] | None:
    """Who made a mapping; whatever has not the type that it should have is not stated."""
    stated = (document or {}).get("provenance")
    if not isinstance(stated, dict) or not stated:
        return None
    repaired = stated.get("repaired")
    return {
        **{key: _text(stated.get(key)) for key in ("mapper", "model", "prompt_sha256")},
        "confidence": _number(stated.get("confidence")),
        "edited": stated["edited"] if isinstance(stated.get("edited"), bool) else None,
        "repaired": bool(repaired) if isinstance(repaired, bool | list) else None,
        "cost": _cost(stated.get("cost")),
    }


def _cost(stated: Json) -> dict[str, Json] | None:
    if not isinstance(stated, dict):
        return None
    return {key: _number(stated.get(key)) for key in ("calls", "tokens_in", "tokens_out", "usd")}


def _text(stated: Json) -> str | None:
    return redact(stated) if isinstance(stated, str) else None


def _number(stated: Json) -> float | int | None:
    known = isinstance(stated, int | float) and not isinstance(stated, bool)
    return stated if known else None
