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

from ingot.agent.meaning.changes import changes, class_of
from ingot.agent.meaning.normal import normal
from ingot.agent.meaning.rules import Change
from ingot.agent.redaction import redact
from ingot.agent.review.document import of_mapping
from ingot.agent.review.escaping import seen
from ingot.agent.review.golden import GoldenResult, golden_file, run_golden
from ingot.agent.review.places import written
from ingot.agent.review.replay import Ran, Replay, replay, stand_of
from ingot.agent.review.repository import WORKING_TREE, repository
from ingot.agent.review.revisions import Side, laid_out, of_commit, of_file, of_working_tree
from ingot.agent.review.touched import Touched, between, touched
from ingot.agent.review.verdict import Case, reasons, worst
from ingot.converters.errors import MappingError, RevisionError, SourceError
from ingot.converters.rows import Json

VERSION = 1
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
    stated, tip = repo.commit(name), repo.commit(head if head is not None else "HEAD")
    before = replace(of_commit(repo, repo.forked(stated, tip), name), tip=stated)
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
        names = ", ".join(written(one.path) for one in replayed[:3])
        hint = "name one mapping with --mappings; the others need pinned samples"
        said = f"data of one mapping, and {len(replayed)} are to be replayed: {names}"
        raise RevisionError("--source", said, hint)
    command = ["--base", base.tip or base.name]
    if head.name != WORKING_TREE:
        command += ["--head", head.commit or head.name]
    told = [
        _mapping(one, base, head, wish, [*command, "--mappings", _literal(one.path)])
        for one in found
    ]
    own = ["--mappings", _typed(wish.mappings)] if wish.mappings is not None else []
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
    one = between(base, old.name, head, new.name)
    told = _mapping(one, base, head, wish, [str(old), str(new)])
    return _document(base, head, wish, [told], [str(old), str(new)])


def _document(
    base: Side, head: Side, wish: Wish, told: Sequence[dict[str, Json]], command: Sequence[str]
) -> dict[str, Json]:
    return {
        "version": VERSION,
        "base": redact(written(base.name)),
        "head": redact(written(head.name)),
        "commits": {"base": base.tip, "fork": base.commit, "head": head.commit},
        "verdict": worst(one["verdict"] for one in told),
        "allow_breaking": wish.allow_breaking,
        "reproduce": _command(command, wish),
        "mappings": list(told),
    }


def _command(words: Sequence[str], wish: Wish) -> str | None:
    """The command that shows the same again; None where a name in it cannot be typed."""
    source = ["--source", redact(wish.source)] if wish.source is not None else []
    if any(_typed(word) != word for word in (*words, *source)):
        return None
    flags = [
        *["--allow-breaking"] * wish.allow_breaking,
        *["--offline"] * wish.offline,
    ]
    return shlex.join(["ingot", "review", *words, *source, *flags])


def _literal(path: str) -> str:
    """A path as a glob that matches nothing else."""
    # `##[` is a command where a report is printed in a GitHub job.
    glob = _typed(_MAGIC.sub(r"[\1]", path).replace("##[[]", "##?"))
    anchored = glob if "/" in glob else f"/{glob}"
    return f"./{anchored}" if anchored.startswith("!") else anchored


def _typed(glob: str) -> str:
    """A glob that can be read and typed: `?` for bytes that are no text and what is not seen."""
    return "".join(char if seen(char) == char else "?" for char in glob)


# --- one mapping


def _mapping(
    one: Touched, base: Side, head: Side, wish: Wish, command: Sequence[str]
) -> dict[str, Json]:
    with tempfile.TemporaryDirectory(prefix="ingot-") as folder:
        case = _case(one, base, head, wish, Path(folder))
    found = reasons(case, allow_breaking=wish.allow_breaking)
    return of_mapping(case, found, base, head, _command(command, wish))


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
