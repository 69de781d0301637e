"""Resolve everything that a build is made of: tokenizer, ids, template, layout; run its units.

Also take the sample of text that engines are compared on, and count what a data set says of itself.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NotRequired, TypeAlias, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingot.converters.errors import ConversionError, NoTokensError, SourceError
from ingot.converters.json_yaml import encode
from ingot.converters.megatron.documents import DocumentRules
from ingot.converters.megatron.engines.engine import EngineChoice
from ingot.converters.megatron.indexed_dataset import (
    DTYPES,
    WRITTEN_CODES,
    TokenDtype,
    index_paths,
    mask_prefix,
    token_dtype,
)
from ingot.converters.megatron.metrics.messages import Monitor
from ingot.converters.megatron.options import BuildOptions, WorkOptions
from ingot.converters.megatron.read.input_files import InputFile, InputKind, InputLayout, Unit
from ingot.converters.megatron.read.preparation import Preparer
from ingot.converters.megatron.read.row_batches import read_rows
from ingot.converters.megatron.run.pipeline import LaneWork, Pipeline
from ingot.converters.megatron.tokenizer import (
    TokenizerFile,
    find_eod,
    load_tokenizer,
    tokenizer_frame,
)
from ingot.converters.megatron.write.lanes import LaneStretch
from ingot.converters.megatron.write.staging import (
    BuildIdentity,
    Staging,
    finished_units,
    sum_counts,
)
from ingot.converters.megatron.write.unit_writer import UNIT_COUNTS
from ingot.converters.output.files import hash_file

if TYPE_CHECKING:
    from ingot.converters.megatron.chat.templates import ChatTemplate

RECIPE_VERSION: Final = 3  # of what makes the bytes; one of another version is not gone on with
_LARGEST_UINT16: Final = 2**16 - 1


Counts: TypeAlias = dict[str, int]
FileResults: TypeAlias = list[dict[str, str | int]]


class DataSetMeta(TypedDict):
    """What `.meta.json` says."""

    version: int
    kind: InputKind
    dtype: TokenDtype
    tokenizer: dict[str, Any]  # its `file`, `sha256` and `vocab_size`
    bos: list[int]
    eos: list[int]
    eod_id: int | None
    columns: list[str]
    chat_template: dict[str, str] | None
    loss_mask: bool
    options: dict[str, object]
    counts: Counts
    files: FileResults  # an entry per input file; counts where it could be read, else an error
    special_tokens_check: NotRequired[dict[str, object]]  # where one was asked for


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """What makes documents of rows."""

    loaded: TokenizerFile
    options: BuildOptions
    layout: InputLayout
    rules: DocumentRules
    template: "ChatTemplate | None"  # renders conversations; None where there are none

    @property
    def masks(self) -> bool:
        """Whether loss masks are written."""
        return self.template is not None and self.options.loss_mask

    def ingredients(self) -> "Ingredients":
        """What another process makes it of."""
        template = self.template
        return Ingredients(
            tokenizer=(self.loaded.path.absolute(), self.loaded.given),
            hashes=[self.loaded.sha256, "" if template is None else template.sha256],
            options=self.options,
            layout=self.layout,
        )

    def preparer(self, shards: int = 1) -> Preparer:
        """What makes texts of rows."""
        return Preparer(
            layout=self.layout, options=self.options, template=self.template, shards=shards
        )

    def identity(self, files: Sequence[InputFile]) -> BuildIdentity:
        """What decides the bytes, as JSON; times and places are not in it."""
        expected = self.options.special_tokens_json
        return {
            "version": RECIPE_VERSION,
            "tokenizer": self.loaded.sha256,
            "bos": list(self.rules.bos),
            "eos": list(self.rules.eos),
            "eod_id": self.rules.eod,
            "chat_template": _template_facts(self.template),
            "input": encode(self.layout),
            "options": self.options.to_document(),
            "expected_special_tokens": None if expected is None else hash_file(expected),
            "files": {file.name: file.bytes for file in files},
        }

    def meta(self, counts: Counts, files: FileResults) -> DataSetMeta:
        """What `.meta.json` says; the special-token check is not in it yet."""
        given = self.loaded.given
        return {
            "version": RECIPE_VERSION,
            "kind": self.layout.kind,
            "dtype": self.rules.dtype,
            "tokenizer": {
                # without its folder: equal builds give equal bytes wherever they are made
                "file": given if given.startswith("hf://") else self.loaded.path.name,
                "sha256": self.loaded.sha256,
                "vocab_size": self.loaded.vocabulary,
            },
            "bos": list(self.rules.bos),
            "eos": list(self.rules.eos),
            "eod_id": self.rules.eod,
            "columns": list(self.layout.columns),
            "chat_template": _template_facts(self.template),
            "loss_mask": self.masks,
            "options": self.options.to_document(),
            "counts": counts,
            "files": files,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Ingredients:
    """What a recipe is made of in another process."""

    tokenizer: tuple[Path, str]  # the file, and where it is from, for machines that lack the file
    hashes: list[str]  # sha256 of the files beside the inputs: tokenizer and chat template
    options: BuildOptions
    layout: InputLayout

    def recipe(self) -> Recipe:
        """The recipe. Raises ConversionError, where a file is not what it was."""
        path, given = self.tokenizer
        loaded = load_tokenizer(path if path.exists() else given)
        recipe = make_recipe(loaded, self.options, self.layout)
        if recipe.ingredients().hashes != self.hashes:
            problem = "it or the chat template changed while the build ran"
            hint = "put back what was there, then build again with `resume`"
            raise ConversionError(given, problem, hint)
        return recipe


def make_recipe(loaded: TokenizerFile, options: BuildOptions, layout: InputLayout) -> Recipe:
    """Resolve what the options leave to the tokenizer."""
    chat = layout.kind == "sft"
    if chat and options.doc_boundary == "file":
        raise ConversionError("", "`doc_boundary` file joins texts, not conversations", "use row")
    dtype, (bos, eos) = _resolve_dtype(loaded, options), _resolve_frame(loaded, options)
    eod = options.eos_id
    if not options.append_eod:
        eod = None
    elif eod is None:
        eod = find_eod(loaded)
    rules = DocumentRules.from_options(options, dtype=dtype, bos=bos, eos=eos, eod=eod, chat=chat)
    template = None
    if chat:
        from ingot.converters.megatron.chat.templates import load_template

        template = load_template(options.chat_template, loaded)
    return Recipe(loaded=loaded, options=options, layout=layout, rules=rules, template=template)


def _resolve_frame(
    loaded: TokenizerFile, options: BuildOptions
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if not options.add_special_tokens:
        return (), ()
    stated = options.bos_id is not None and options.eos_id is not None
    before, behind = ([], []) if stated else tokenizer_frame(loaded)
    bos = before if options.bos_id is None else [options.bos_id]
    eos = behind if options.eos_id is None else [options.eos_id]
    return tuple(bos), tuple(eos)


def _resolve_dtype(loaded: TokenizerFile, options: BuildOptions) -> TokenDtype:
    if options.dtype == "u32":
        return "int32"
    if options.dtype == "auto":
        return token_dtype(loaded.vocabulary, loaded.largest_id)
    if loaded.largest_id > _LARGEST_UINT16:
        problem = f"its ids go up to {loaded.largest_id}, `dtype` u16 holds {_LARGEST_UINT16}"
        raise ConversionError(loaded.given, problem, "use `dtype` auto or u32")
    return "uint16"


def _template_facts(template: "ChatTemplate | None") -> dict[str, str] | None:
    return None if template is None else {"name": template.name, "sha256": template.sha256}


ChooseEngine: TypeAlias = Callable[[Sequence[Unit], frozenset[str]], EngineChoice]


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitRun:
    """Units that are to be done."""

    files: Sequence[InputFile]
    units: Sequence[Unit]  # the whole plan; those that are finished in a lane are left out
    recipe: Recipe  # what makes documents
    work: WorkOptions
    place: Staging
    # picks the engine for the units that are to be done, without those that were wrong before
    choose: ChooseEngine
    monitor: Monitor
    lanes: Sequence[int]  # that this run writes, one for each process
    part: range | None = None  # the units of this part of a job; other parts write other lanes

    def lane_work(self, choice: EngineChoice, lane: int) -> LaneWork:
        """What the process of a lane has to do."""
        return LaneWork(
            prefix=self.place.prefix,
            base=self.place.base,
            lane=lane,
            files=dict(enumerate(self.files)),
            work=self.work,
            choice=choice,
        )

    def pending(self) -> list[Unit]:
        """The units that are not finished."""
        finished = finished_units(self.place.base)
        units = self.units if self.part is None else self.units[self.part.start : self.part.stop]
        return [unit for unit in units if unit.number not in finished]


class FileTally:
    """Tells of every file that is through."""

    def __init__(self, pending: Sequence[Unit], monitor: Monitor) -> None:
        self._left = Counter(unit.file for unit in pending)
        self._failed: set[int] = set()
        self._monitor = monitor

    def done(self, unit: Unit, *, failed: bool) -> None:
        """A unit of a file is done, or cannot be."""
        self._left[unit.file] -= 1
        if failed and unit.file not in self._failed:
            self._failed.add(unit.file)
            self._monitor({"kind": "count", "failed_files": 1})
        elif not self._left[unit.file] and unit.file not in self._failed:
            self._monitor({"kind": "count", "files": 1})


def run_in_process(job: UnitRun, pending: Sequence[Unit], choice: EngineChoice) -> None:
    """Do the units in this process, in the first lane."""
    files, work = FileTally(pending, job.monitor), job.lane_work(choice, job.lanes[0])
    with closing(Pipeline(job.recipe, work, job.monitor)) as pipeline:
        for unit, stretch in pipeline.run(work, pending):
            files.done(unit, failed=stretch.failed is not None)


SAMPLE_BYTES: Final = 2 << 20
_SAMPLE_CHARS: Final = 1 << 18  # of one text
_UNITS: Final = 4
_ROWS: Final = 1_000  # that are read at a time
_PACKED: Final = 3  # bytes of text in a byte of Parquet, roughly


def estimate_text_bytes(files: Sequence[InputFile], units: Sequence[Unit]) -> int:
    """About how much text is in some units, in bytes."""
    return sum(
        unit.bytes * (1 if files[unit.file].path.suffix == ".jsonl" else _PACKED) for unit in units
    )


def sample_texts(
    files: Sequence[InputFile], units: Sequence[Unit], recipe: Recipe
) -> pa.LargeStringArray:
    """Texts from the beginning of a few units that lie apart, about `SAMPLE_BYTES`."""
    texts: list[pa.LargeStringArray] = []
    preparer = recipe.preparer()
    some = units[:: max(1, len(units) // _UNITS)][:_UNITS]
    for unit in some:
        room = SAMPLE_BYTES // len(some)
        reading = closing(read_rows(files[unit.file], unit, recipe.layout, batch_size=_ROWS))
        with suppress(SourceError), reading as rows:  # it will be told when it is its turn
            for shard in preparer.prepare(files[unit.file].name, rows):
                texts.append(pc.utf8_slice_codeunits(shard.texts, 0, _SAMPLE_CHARS))
                room -= texts[-1].nbytes
                if room <= 0:
                    break
    return pa.concat_arrays(texts) if texts else pa.array([], pa.large_string())


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenStats:
    """A finished data set."""

    documents: int  # the empty ones that it keeps included
    sequences: int
    tokens: int
    characters: int  # of the tokenized texts (chats as rendered)
    rejected: int  # rows that could not be tokenized, each listed in the file of rejects
    filtered: int
    doubled: int  # beginnings with two BOS and ends with two EOS or EOD
    failed_files: int
    dtype: TokenDtype
    eod_id: int | None  # the id after every document, None = none
    vocabulary: int
    tokenizer_sha256: str
    already_done: bool = False
    engine: str = ""  # what tokenized it; empty where nothing had to be


def count_results(
    files: Sequence[InputFile],
    units: Sequence[Unit],
    finished: Mapping[int, LaneStretch],
    failures: Mapping[int, str],
) -> tuple[Counts, FileResults]:
    """The `counts` and the `files` of `.meta.json`."""
    by_file: dict[int, list[LaneStretch]] = {}
    for unit in units:
        if unit.file not in failures:
            by_file.setdefault(unit.file, []).append(finished[unit.number])
    entries: FileResults = []
    for number, file in enumerate(files):
        entry: dict[str, str | int] = {"path": file.name, "bytes": file.bytes}
        if number in failures:
            entries.append({**entry, "status": "failed", "error": failures[number]})
        else:
            entries.append({**entry, "status": "done", **_shown_counts(by_file[number])})
    counts = _shown_counts([stretch for some in by_file.values() for stretch in some])
    return {"files": len(files), "failed_files": len(failures), **counts}, entries


def no_tokens_error(
    where: str, counts: Mapping[str, int], failures: Mapping[str, str], files: int, hint: str = ""
) -> SourceError | NoTokensError:
    """The error for a data set without a token; `failures` say by name why files cannot be read."""
    if len(failures) == files:
        first = "; ".join(f"{name}: {why}" for name, why in list(failures.items())[:3])
        return SourceError("", f"none of {files} files can be read: {first}")
    names = ("rows", "empty", "short", "long", "rejected")
    said = ", ".join(f"{counts[name]} {name}" for name in names)
    problem = f"not a single token ({said}): Megatron cannot load an empty data set"
    hint = hint or "check the text columns and the length limits"
    return NoTokensError(where, problem, f"{hint}; nothing was written")


def _shown_counts(stretches: Sequence[LaneStretch]) -> dict[str, int]:
    counts = sum_counts(stretches)
    return {name: counts[name] for name in UNIT_COUNTS}


def read_stats(meta: DataSetMeta, *, already_done: bool = False) -> TokenStats:
    """The stats of a data set with that `.meta.json`."""
    counts = meta["counts"]
    names = ("documents", "sequences", "tokens", "characters", "rejected", "failed_files")
    same: dict[str, Any] = {name: counts[name] for name in names}
    return TokenStats(
        **same,
        filtered=counts["short"] + counts["long"],
        doubled=counts.get("two_bos", 0) + counts.get("two_eos", 0),  # former versions: none
        dtype=meta["dtype"],
        eod_id=meta["eod_id"],
        vocabulary=meta["tokenizer"]["vocab_size"],
        tokenizer_sha256=meta["tokenizer"]["sha256"],
        already_done=already_done,
    )


def describe_damage(prefix: Path, meta: DataSetMeta) -> str:
    """What is missing of a data set with that `.meta.json`, by the sizes of its files."""
    bin_path, _, meta_path = index_paths(prefix)
    if "counts" not in meta:
        return f"{meta_path.name} is damaged"
    tokens = meta["counts"]["tokens"]
    sizes = {bin_path: tokens * np.dtype(DTYPES[WRITTEN_CODES[meta["dtype"]]]).itemsize}
    if meta["loss_mask"]:
        sizes[index_paths(mask_prefix(prefix))[0]] = tokens
    for path, size in sizes.items():
        if not path.is_file() or path.stat().st_size != size:
            return f"{path.name} is damaged"
    return ""
