"""Checks a processed folder against every rule of the contract.

    report = validate(Path("out"))
    report.broken

Rows are read in batches, entities and row ids are compared in passes: memory does not grow with
them. One vocabulary at a time is in memory.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from ingot.converters.columnar.batch_checks import text_mask
from ingot.converters.errors import FeaturemapError, SourceError
from ingot.converters.progress import ProgressTally, Watch
from ingot.converters.recsys.ctr import contract, featuremap
from ingot.converters.recsys.ctr.contract import Profile
from ingot.converters.recsys.ctr.featuremap import FeatureMap
from ingot.converters.recsys.ctr.validation import processed_folder
from ingot.converters.recsys.ctr.validation.findings import (
    RULES,
    BatchStart,
    Findings,
    Place,
    Report,
    rule_verdicts,
)
from ingot.converters.recsys.ctr.validation.metadata_rules import (
    VocabularyCounts,
    check_manifest,
    check_stats,
    check_vocabularies,
)
from ingot.converters.recsys.ctr.validation.processed_folder import (
    FeatureCounts,
    Folder,
    Part,
    SplitCounts,
    cell_arrays,
    check_columns,
)
from ingot.converters.recsys.ctr.validation.row_rules import (
    Entities,
    FeatureRules,
    RowRules,
    check_row_ids,
)

_NO_PROFILE: Final = (
    "the files carry no profile (Parquet metadata ingot.ctr): another writer's, checked against "
    "the contract's text alone; a hybrid's tail ids are taken in either place"
)
_OF_FEATURES: Final = ("R0.3", *(one.number for one in RULES if one.number[1] in "23"))


def validate(
    root: Path,
    *,
    given: FeatureMap | None = None,
    max_shown: int = 3,
    progress: Watch | None = None,
) -> Report:
    """Check every rule of the contract."""
    files = processed_folder.find_folder(root)
    findings = Findings(max_shown=max_shown)
    for split in contract.SPLITS:
        if not files.parts.get(split):
            problem = "no Parquet file in it" if split in files.parts else "no such folder"
            findings.add("R0.1", Place(file=f"{split}/", found=problem))
    schemas = {}
    for part in files.all_parts:
        try:
            schemas[part] = processed_folder.read_schema(part)
        except SourceError as error:
            findings.add("R0.2", Place(file=part.name, found=error.problem))
    used = given or _read_featuremap(root, findings)
    if given:
        findings.skip("R7.1", "another featuremap was given")
    profile = _check_profiles(schemas, used, findings)
    _note_skipped(used, profile, findings)
    counts = _Validation(files, used, profile, findings, ProgressTally(progress)).run(schemas)
    return Report(
        folder=str(root),
        profile=asdict(profile) if profile else None,
        rows={split: one.rows for split, one in counts.items()},
        verdicts=rule_verdicts(findings),
        notes=() if profile else (_NO_PROFILE,),
    )


def _read_featuremap(root: Path, findings: Findings) -> FeatureMap | None:
    path = root / processed_folder.FEATUREMAP
    if not path.is_file():
        findings.add("R7.1", Place(file=processed_folder.FEATUREMAP, found="no such file"))
        return None
    try:
        return featuremap.load(path)
    except FeaturemapError as error:
        for problem in error.problems:
            findings.add("R7.1", Place(file=processed_folder.FEATUREMAP, found=str(problem)))
        return None


def _check_profiles(
    schemas: dict[Part, pa.Schema], used: FeatureMap | None, findings: Findings
) -> Profile | None:
    """What the files say of themselves: the first profile; differences are noted."""
    profiles = {part: _read_profile(schema) for part, schema in schemas.items()}
    read = [one for one in profiles.values() if isinstance(one, Profile)]
    if not read and not any(profiles.values()):
        return None
    expected = Profile.of(used) if used else read[0] if read else None
    for part, one in profiles.items():
        if isinstance(one, Profile) and (expected is None or one == expected):
            continue
        problem = (
            _profile_differences(one, expected) if isinstance(one, Profile) and expected else one
        )
        findings.add("R7.2", Place(file=part.name, found=str(problem or "no metadata ingot.ctr")))
    return read[0] if read else None


def _read_profile(schema: pa.Schema) -> Profile | str | None:
    """The profile of a file, None where it has none, or what is wrong with it."""
    text = (schema.metadata or {}).get(contract.METADATA_KEY)
    if text is None:
        return None
    try:
        profile = Profile(**json.loads(text))
    except (ValueError, TypeError, RecursionError):
        return f"no profile: {text[:100].decode('utf-8', 'replace')}"
    for key, known in _CHOICES.items():
        if (value := getattr(profile, key)) not in known:
            return f"{key}: {value}, known are {', '.join(map(str, known))}"
    return profile


_CHOICES: Final[dict[str, tuple[object, ...]]] = {
    "schema_version": (contract.SCHEMA_VERSION,),
    "click_mask": ("clicked", "exposed"),
    "tail_ids": ("disjoint", "contract"),
    "funnel": ("keep", "drop", "coerce"),
}


def _profile_differences(profile: Profile, expected: Profile) -> str:
    actual, required = asdict(profile), asdict(expected)
    return ", ".join(
        f"{key}: {actual[key]}, the featuremap says {required[key]}"
        for key in actual
        if actual[key] != required[key]
    )


def _note_skipped(used: FeatureMap | None, profile: Profile | None, findings: Findings) -> None:
    if used is None:
        for number in (*_OF_FEATURES, "R1.10", "R1.11", "R7.3", "R7.4"):
            findings.skip(number, "no featuremap")
    for rule in RULES:
        if rule.decided and profile is None:
            findings.skip(rule.number, "no profile in the files")
    if profile and profile.funnel == "keep":
        findings.skip("R1.7", "the profile says keep")


class _Validation:
    """The look into the rows of a folder, and then at what lies beside them."""

    def __init__(
        self,
        files: Folder,
        used: FeatureMap | None,
        profile: Profile | None,
        findings: Findings,
        tally: ProgressTally,
    ) -> None:
        self._files, self._featuremap, self._profile = files, used, profile
        self._found, self._tally = findings, tally
        self._entities = Entities(featuremap=used or FeatureMap(features=()), findings=findings)
        self._features: list[FeatureRules] = []

    def run(self, schemas: dict[Part, pa.Schema]) -> dict[str, SplitCounts]:
        root, findings = self._files.root, self._found
        featuremap, profile = self._featuremap, self._profile
        vocabularies: dict[str, VocabularyCounts] = {}
        if featuremap and profile:
            vocabularies = check_vocabularies(root, featuremap, findings)
        usable = {
            part: check_columns(schema, featuremap, part.name, findings)
            for part, schema in schemas.items()
        }
        for one in featuremap.features if featuremap else ():
            vocabulary = vocabularies.get(one.name)
            head_size = vocabulary.kept if vocabulary else None
            self._features.append(FeatureRules(one, profile, head_size, findings))
        self._tally.begin("rows", len(schemas))
        counts = {split: self._check_split(split, usable) for split in contract.SPLITS}
        check_row_ids([one for one in usable if contract.ROW_ID in usable[one]], findings)
        if featuremap and profile:
            entities = self._entities
            entities.check_splits(one for one in usable if contract.ENTITY_ID in usable[one])
            distinct = {split: entities.distinct[split] for split in counts}
            check_stats(root, counts, distinct, vocabularies, findings)
        if profile:
            check_manifest(root, findings)
        return counts

    def _check_split(self, split: str, usable: dict[Part, dict[str, pa.DataType]]) -> SplitCounts:
        tail_ids = self._profile.tail_ids if self._profile else "contract"
        counts = SplitCounts(
            features={
                one.feature.name: FeatureCounts(feature=one.feature, tail_ids=tail_ids)
                for one in self._features
            }
        )
        rules = RowRules(profile=self._profile, findings=self._found)
        for part in self._files.parts.get(split, ()):
            if part in usable:
                self._check_part(part, usable[part], rules, counts)
                self._tally.add(0, done=1)
        return counts

    def _check_part(
        self, part: Part, usable: dict[str, pa.DataType], rules: RowRules, counts: SplitCounts
    ) -> None:
        row = 0
        try:
            for first, batch in processed_folder.read_batches(part, list(usable)):
                start = BatchStart(file=part.name, row=first)
                cells = {
                    name: cell_arrays(batch.column(name), kind)
                    for name, kind in usable.items()
                    if name != contract.ENTITY_ID
                }
                columns = {name: one for name, one in cells.items() if one is not None}
                rules.check(columns, start)
                for one in self._features:
                    ids = columns.get(contract.index_column(one.feature))
                    one.check(ids, columns.get(contract.value_column(one.feature)), start)
                if contract.ENTITY_ID in usable:
                    self._check_entities(part.split, batch.column(contract.ENTITY_ID), start)
                counts.add(batch.num_rows, columns)
                self._tally.add(batch.num_rows)
                row = first + batch.num_rows
        except SourceError as error:
            problem = f"from here on it {error.problem}"
            self._found.add("R0.2", Place(file=part.name, row=row, found=problem))

    def _check_entities(self, split: str, column: pa.Array, start: BatchStart) -> None:
        findings, name = self._found, contract.ENTITY_ID
        texts = column.cast(pa.binary())
        if column.null_count:
            null = column.is_null().to_numpy(zero_copy_only=False)
            findings.rows("R5.1", start, name, null, lambda _: "null")
        for broken in np.flatnonzero(~text_mask(texts))[:1].tolist():
            problem = f"no UTF-8: {texts[broken].as_py()!r}"
            findings.add(
                "R1.3", Place(file=start.file, row=start.row + broken, column=name, found=problem)
            )
        if self._featuremap and self._profile:
            self._entities.check(split, texts, start)
