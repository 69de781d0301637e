"""Checks a processed folder against every rule of the contract.

    report = validate(Path("out"))
    report.broken

Rows are read in batches; memory does not grow with them, but for 8 bytes per distinct entity and
per distinct token of a vocabulary.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from ingot.converters.errors import FeaturemapError, SourceError
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
    Lists,
    Part,
    Scalars,
    SplitCounts,
    cell_arrays,
    check_columns,
)
from ingot.converters.recsys.ctr.validation.row_rules import (
    Entities,
    FeatureRules,
    RowRules,
    check_row_ids,
    id_ranges,
)

Watch = Callable[[int, int], None]
"""Hears how many rows are looked at, and how many there are."""

_NO_PROFILE: Final = (
    "the files carry no profile (Parquet metadata ingot.ctr): another writer's, checked against "
    "the contract's text alone; a hybrid's tail ids are taken in either place"
)
_NO_FEATUREMAP: Final = "no featuremap: the features' columns were not looked at"
_OF_FEATURES: Final = ("R0.3", *(one.number for one in RULES if one.number[1] in "23"))


def validate(
    root: Path,
    *,
    given: FeatureMap | None = None,
    max_shown: int = 3,
    watch: Watch = lambda _done, _all: None,
) -> Report:
    """Checks every rule of the contract."""
    files = processed_folder.find_folder(root)
    found = Findings(max_shown=max_shown)
    _check_splits(files, found)
    schemas = _read_schemas(files, found)
    used = given or _read_featuremap(root, found)
    if given:
        found.skip("R7.1", "another featuremap was given")
    profile = _check_profiles(schemas, used, found)
    _note_skipped(used, profile, found)
    check = _Validation(files=files, featuremap=used, profile=profile, found=found, watch=watch)
    counts = check.run(schemas)
    return Report(
        folder=str(root),
        profile=asdict(profile) if profile else None,
        rows={split: one.rows for split, one in counts.items()},
        verdicts=rule_verdicts(found),
        notes=() if profile else (_NO_PROFILE,),
    )


def _check_splits(files: Folder, found: Findings) -> None:
    for split in contract.SPLITS:
        if not files.parts.get(split):
            there = split in files.parts
            said = "no Parquet file in it" if there else "no such folder"
            found.add("R0.1", Place(file=f"{split}/", found=said))


def _read_schemas(files: Folder, found: Findings) -> dict[Part, pa.Schema]:
    schemas = {}
    for part in files.all_parts:
        try:
            schemas[part] = processed_folder.read_schema(part)
        except SourceError as error:
            found.add("R0.2", Place(file=part.name, found=error.problem))
    return schemas


def _read_featuremap(root: Path, found: Findings) -> FeatureMap | None:
    """The featuremap in a folder; what is wrong with it is noted."""
    path = root / processed_folder.FEATUREMAP
    if not path.is_file():
        found.add("R7.1", Place(file=processed_folder.FEATUREMAP, found="no such file"))
        return None
    try:
        return featuremap.load(path)
    except FeaturemapError as error:
        for problem in error.problems:
            found.add("R7.1", Place(file=processed_folder.FEATUREMAP, found=str(problem)))
        return None


def _check_profiles(
    schemas: dict[Part, pa.Schema], used: FeatureMap | None, found: Findings
) -> Profile | None:
    """What the files say of themselves: the first profile; differences are noted."""
    profiles = {part: _read_profile(schema) for part, schema in schemas.items()}
    told = [one for one in profiles.values() if isinstance(one, Profile)]
    if not told and not any(profiles.values()):
        return None
    wanted = Profile.of(used) if used else told[0] if told else None
    for part, one in profiles.items():
        if isinstance(one, Profile) and (wanted is None or one == wanted):
            continue
        said = _profile_differences(one, wanted) if isinstance(one, Profile) and wanted else one
        found.add("R7.2", Place(file=part.name, found=str(said or "no metadata ingot.ctr")))
    return told[0] if told else None


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
        if (said := getattr(profile, key)) not in known:
            return f"{key}: {said}, known are {', '.join(map(str, known))}"
    return profile


_CHOICES: Final[dict[str, tuple[object, ...]]] = {
    "schema_version": (contract.SCHEMA_VERSION,),
    "click_mask": ("clicked", "exposed"),
    "tail_ids": ("disjoint", "contract"),
    "funnel": ("keep", "drop", "coerce"),
}


def _profile_differences(one: Profile, wanted: Profile) -> str:
    said, right = asdict(one), asdict(wanted)
    return ", ".join(
        f"{key}: {said[key]}, the featuremap says {right[key]}"
        for key in said
        if said[key] != right[key]
    )


def _note_skipped(used: FeatureMap | None, profile: Profile | None, found: Findings) -> None:
    if used is None:
        for number in (*_OF_FEATURES, "R1.10", "R1.11", "R7.3", "R7.4"):
            found.skip(number, "no featuremap")
    for rule in RULES:
        if rule.decided and profile is None:
            found.skip(rule.number, "no profile in the files")
    if profile and profile.funnel == "keep":
        found.skip("R1.7", "the profile says keep")


@dataclass(frozen=True, kw_only=True)
class _Validation:
    """The look into the rows of a folder, and then at what lies beside them."""

    files: Folder
    featuremap: FeatureMap | None
    profile: Profile | None
    found: Findings
    watch: Watch

    def run(self, schemas: dict[Part, pa.Schema]) -> dict[str, SplitCounts]:
        vocabularies: dict[str, VocabularyCounts] = {}
        if self.featuremap and self.profile:
            vocabularies = check_vocabularies(self.files.root, self.featuremap, self.found)
        usable = {
            part: check_columns(schema, self.featuremap, part.name, self.found)
            for part, schema in schemas.items()
        }
        features = tuple(self._features(vocabularies))
        entities = Entities(featuremap=self.featuremap or FeatureMap(features=()), found=self.found)
        rows = _RowWalk(
            check=self, features=features, entities=entities, total=_total_rows(schemas)
        )
        counts = {split: rows.look(split, usable) for split in contract.SPLITS}
        self._across(usable, entities)
        if self.profile:
            self._beside(counts, entities, vocabularies)
        return counts

    def _features(self, vocabularies: dict[str, VocabularyCounts]) -> "list[FeatureRules]":
        rules = []
        for one in self.featuremap.features if self.featuremap else ():
            held = vocabularies.get(one.name)
            ranges = id_ranges(one, self.profile, held.kept if held else None)
            rules.append(
                FeatureRules(
                    feature=one,
                    ranges=ranges,
                    decided=self.profile is not None,
                    found=self.found,
                )
            )
        return rules

    def _across(self, usable: dict[Part, dict[str, pa.DataType]], entities: Entities) -> None:
        check_row_ids([one for one in usable if contract.ROW_ID in usable[one]], self.found)
        if self.featuremap and self.profile:
            entities.check_splits(one for one in usable if contract.ENTITY_ID in usable[one])

    def _beside(
        self,
        counts: dict[str, SplitCounts],
        entities: Entities,
        vocabularies: dict[str, VocabularyCounts],
    ) -> None:
        if self.featuremap:
            distinct = {split: entities.distinct(split) for split in counts}
            check_stats(self.files.root, counts, distinct, vocabularies, self.found)
        check_manifest(self.files.root, self.found)


def _total_rows(schemas: dict[Part, pa.Schema]) -> int:
    return sum(processed_folder.read_row_count(part) for part in schemas)


@dataclass(kw_only=True)
class _RowWalk:
    """Walks over the rows of the splits."""

    check: _Validation
    features: tuple[FeatureRules, ...]
    entities: Entities
    total: int
    done: int = 0

    def look(self, split: str, usable: dict[Part, dict[str, pa.DataType]]) -> SplitCounts:
        """Checks all rows of a split, and counts them."""
        profile = self.check.profile
        tail_ids = profile.tail_ids if profile else "contract"
        counts = SplitCounts(
            features={
                one.feature.name: FeatureCounts(feature=one.feature, tail_ids=tail_ids)
                for one in self.features
            }
        )
        rules = RowRules(profile=profile, found=self.check.found)
        for part in self.check.files.parts.get(split, ()):
            if part in usable:
                self._part(part, usable[part], rules, counts)
        return counts

    def _part(
        self, part: Part, usable: dict[str, pa.DataType], rules: RowRules, counts: SplitCounts
    ) -> None:
        row = 0
        try:
            for first, batch in processed_folder.read_batches(part, list(usable)):
                at = BatchStart(file=part.name, row=first)
                self._batch(part.split, batch, usable, rules, counts, at)
                row = first + batch.num_rows
        except SourceError as error:
            found = f"from here on it {error.problem}"
            self.check.found.add("R0.2", Place(file=part.name, row=row, found=found))

    def _batch(
        self,
        split: str,
        batch: pa.RecordBatch,
        usable: dict[str, pa.DataType],
        rules: RowRules,
        counts: SplitCounts,
        at: BatchStart,
    ) -> None:
        columns = {}
        for name, kind in usable.items():
            if name != contract.ENTITY_ID:
                one = cell_arrays(batch.column(name), kind)
                if one is not None:
                    columns[name] = one
        rules.check(columns, at)
        self._check_features(columns, at)
        if contract.ENTITY_ID in usable:
            self._check_entities(split, batch.column(contract.ENTITY_ID), at)
        counts.add(batch.num_rows, columns)
        self.done += batch.num_rows
        self.check.watch(self.done, self.total)

    def _check_features(self, columns: dict[str, Scalars | Lists], at: BatchStart) -> None:
        for one in self.features:
            ids = columns.get(contract.index_column(one.feature))
            values = columns.get(contract.value_column(one.feature))
            one.check(ids, values, at)

    def _check_entities(self, split: str, column: pa.Array, at: BatchStart) -> None:
        found, name = self.check.found, contract.ENTITY_ID
        texts = column.cast(pa.binary())
        if column.null_count:
            null = column.is_null().to_numpy(zero_copy_only=False)
            found.rows("R5.1", at, name, null, lambda _: "null")
        if (broken := _first_not_utf8(texts)) is not None:
            said = f"no UTF-8: {texts[broken].as_py()!r}"
            found.add("R1.3", Place(file=at.file, row=at.row + broken, column=name, found=said))
        if self.check.featuremap and self.check.profile:
            self.entities.check(split, texts, at)


def _first_not_utf8(texts: pa.Array) -> int | None:
    try:
        texts.cast(pa.string())
    except pa.ArrowInvalid:
        for i, text in enumerate(texts.to_pylist()):
            try:
                (text or b"").decode()
            except UnicodeDecodeError:
                return i
    return None
