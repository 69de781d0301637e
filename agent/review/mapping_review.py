"""Review all mappings that differ between two revisions, or two files.

No model is asked and nothing is written. The result is the review document
(schemas/review.schema.json): the same bytes for the same commits.
"""

import re
import shlex
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ingot.agent.privacy import redact
from ingot.agent.review.changed_mappings import ChangedMapping, compare_files, find_changed
from ingot.agent.review.diff.change_rules import Change
from ingot.agent.review.diff.mapping_changes import compare_mappings, worst_class
from ingot.agent.review.diff.normal_form import normal_form
from ingot.agent.review.git_repository import WORKING_TREE, ReviewOptions, open_repository
from ingot.agent.review.golden_rows import GoldenResult, golden_file, run_golden
from ingot.agent.review.markdown_escaping import visible_text
from ingot.agent.review.replay import Replay, SampleRun, choose_sample, replay_mappings
from ingot.agent.review.review_document import mapping_entry, path_text
from ingot.agent.review.revisions import (
    Side,
    commit_side,
    file_side,
    working_tree_side,
    write_sidecars,
)
from ingot.agent.review.verdict import Case, verdict_reasons, worst_level
from ingot.converters.errors import MappingError, RevisionError, SourceError
from ingot.converters.rows import Json

VERSION = 1
_MAGIC = re.compile(r"([*?\[])")


def repository_sides(folder: Path, base: str | None, head: str | None) -> tuple[Side, Side]:
    """Return the two sides of a repository.

    What `head` changed since it left `base` is reviewed, as in a pull request: what others did to
    `base` meanwhile is not. If the histories do not meet (a shallow clone) `base` is taken as it
    is.
    """
    repo = open_repository(folder)
    name = base if base is not None else repo.main()
    stated, tip = repo.commit(name), repo.commit(head if head is not None else "HEAD")
    before = replace(commit_side(repo, repo.merge_base(stated, tip), name), tip=stated)
    after = working_tree_side(repo) if head is None else commit_side(repo, tip, head)
    return before, after


def review_mappings(base: Side, head: Side, wish: ReviewOptions) -> dict[str, Json]:
    """Review every mapping that differs."""
    found = find_changed(base, head, None if wish.mappings is None else [wish.mappings])
    replayed = [one for one in found if one.new is not None]
    if wish.source is not None and len(replayed) > 1:
        names = ", ".join(path_text(one.path) for one in replayed[:3])
        hint = "name one mapping with --mappings; the others need pinned samples"
        said = f"data of one mapping, and {len(replayed)} are to be replayed: {names}"
        raise RevisionError("--source", said, hint)
    command = ["--base", base.tip or base.name]
    if head.name != WORKING_TREE:
        command += ["--head", head.commit or head.name]
    told = [
        _review_mapping(one, base, head, wish, [*command, "--mappings", _literal_glob(one.path)])
        for one in found
    ]
    own = ["--mappings", _typeable_glob(wish.mappings)] if wish.mappings is not None else []
    return _review_document(base, head, wish, told, [*command, *own])


def review_files(old: Path, new: Path, wish: ReviewOptions) -> dict[str, Json]:
    """Review one mapping file against another one."""
    base, head = file_side(old), file_side(new)
    one = compare_files(base, old.name, head, new.name)
    told = _review_mapping(one, base, head, wish, [str(old), str(new)])
    return _review_document(base, head, wish, [told], [str(old), str(new)])


def _review_document(
    base: Side,
    head: Side,
    wish: ReviewOptions,
    told: Sequence[dict[str, Json]],
    command: Sequence[str],
) -> dict[str, Json]:
    return {
        "version": VERSION,
        "base": redact(path_text(base.name)),
        "head": redact(path_text(head.name)),
        "commits": {"base": base.tip, "fork": base.commit, "head": head.commit},
        "verdict": worst_level(one["verdict"] for one in told),
        "allow_breaking": wish.allow_breaking,
        "reproduce": _repeat_command(command, wish),
        "mappings": list(told),
    }


def _repeat_command(words: Sequence[str], wish: ReviewOptions) -> str | None:
    """Return the command that shows the same again; None if a name in it cannot be typed."""
    source = ["--source", redact(wish.source)] if wish.source is not None else []
    if any(_typeable_glob(word) != word for word in (*words, *source)):
        return None
    flags = [
        *["--allow-breaking"] * wish.allow_breaking,
        *["--offline"] * wish.offline,
    ]
    return shlex.join(["ingot", "review", *words, *source, *flags])


def _literal_glob(path: str) -> str:
    """Return a glob that matches only this path."""
    # `##[` is a command where a report is printed in a GitHub job.
    glob = _typeable_glob(_MAGIC.sub(r"[\1]", path).replace("##[[]", "##?"))
    anchored = glob if "/" in glob else f"/{glob}"
    return f"./{anchored}" if anchored.startswith("!") else anchored


def _typeable_glob(glob: str) -> str:
    """Return a glob that can be read and typed: `?` for bytes that are not text or not visible."""
    return "".join(char if visible_text(char) == char else "?" for char in glob)


# --- one mapping


def _review_mapping(
    one: ChangedMapping, base: Side, head: Side, wish: ReviewOptions, command: Sequence[str]
) -> dict[str, Json]:
    with tempfile.TemporaryDirectory(prefix="ingot-") as folder:
        case = _make_case(one, base, head, wish, Path(folder))
    found = verdict_reasons(case, allow_breaking=wish.allow_breaking)
    return mapping_entry(case, found, base, head, _repeat_command(command, wish))


def _make_case(
    one: ChangedMapping, base: Side, head: Side, wish: ReviewOptions, folder: Path
) -> Case:
    stand = choose_sample(one, base, head, folder, source=wish.source, offline=wish.offline)
    ran = replay_mappings(stand, one.old, one.new)
    kind, found, unclear = _compare_documents(one, ran)
    golden, fault = _try_golden(one, head, folder, stand.source_name)
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


def _compare_documents(
    one: ChangedMapping, ran: Replay
) -> tuple[str | None, tuple[Change, ...], str]:
    """Return the class, the changes, and why known mappings cannot be compared."""
    if one.old is None or one.new is None:
        return None, (), ""
    try:
        found = compare_mappings(
            normal_form(one.old, _sampled_values(ran.old)),
            normal_form(one.new, _sampled_values(ran.new)),
        )
    except MappingError as error:
        return None, (), "; ".join(map(str, error.problems))
    return worst_class(found), found, ""


def _sampled_values(ran: SampleRun | None) -> list[Json]:
    return [row.value for row in ran.trial.sample.rows] if ran else []


def _try_golden(
    one: ChangedMapping, head: Side, folder: Path, source_name: str | None
) -> tuple[GoldenResult | None, str]:
    """Return the result of the golden rows, and why they could not be run."""
    name = golden_file(Path(one.path)).as_posix()
    if one.new is None or name not in head.files:
        return None, ""
    place = golden_file(write_sidecars(head, one.path, folder / "golden"))
    try:
        return run_golden(one.new, place, source_name=source_name or Path(one.path).stem), ""
    except (SourceError, MappingError) as error:
        return None, redact(str(error).replace(str(place), name))
