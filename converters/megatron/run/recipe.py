"""Resolve what a build is made of: tokenizer, ids, template, layout, engine; where it goes."""

from collections import Counter
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from ingot.converters.errors import ConversionError, SourceError
from ingot.converters.json_yaml import encode
from ingot.converters.megatron.documents import DocumentRules
from ingot.converters.megatron.engines.choice import choose_engine
from ingot.converters.megatron.engines.engine import EngineChoice
from ingot.converters.megatron.engines.guard import trim_memory
from ingot.converters.megatron.indexed_dataset import TokenDtype, token_dtype
from ingot.converters.megatron.messages import Monitor, log_event
from ingot.converters.megatron.options import BuildOptions, WorkOptions
from ingot.converters.megatron.read.input_files import (
    InputFile,
    InputLayout,
    Unit,
    find_layout,
    plan_units,
)
from ingot.converters.megatron.read.preparation import Preparer
from ingot.converters.megatron.read.row_batches import read_rows
from ingot.converters.megatron.tokenizer import (
    TokenizerFile,
    check_special,
    find_eod,
    load_tokenizer,
    tokenizer_frame,
)
from ingot.converters.megatron.write.staging import BuildIdentity
from ingot.converters.output.files import hash_file
from ingot.converters.output.sharding import JobShard

if TYPE_CHECKING:
    from ingot.converters.megatron.chat.templates import ChatTemplate

RECIPE_VERSION: Final = 3  # of what makes the bytes; one of another version is not gone on with
_LARGEST_UINT16: Final = 2**16 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """What makes documents of rows."""

    loaded: TokenizerFile
    options: BuildOptions
    layout: InputLayout
    rules: DocumentRules
    template: "ChatTemplate | None"  # renders conversations; None where there are none
    # What the check of special tokens found; empty where none was asked for, and in a shard.
    special_tokens_check: dict[str, object] = field(default_factory=dict)

    @property
    def masks(self) -> bool:
        """Whether loss masks are written."""
        return self.template is not None and self.options.loss_mask

    def template_facts(self) -> dict[str, str] | None:
        """Return the name and the sha256 of the chat template; None where there is none."""
        template = self.template
        return None if template is None else {"name": template.name, "sha256": template.sha256}

    def ingredients(self) -> "Ingredients":
        """Return what another process makes it of."""
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
            "chat_template": self.template_facts(),
            "input": encode(self.layout),
            "options": self.options.to_document(),
            "expected_special_tokens": None if expected is None else hash_file(expected),
            "files": {file.name: file.bytes for file in files},
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
        path, name = self.tokenizer
        loaded = load_tokenizer(path if path.exists() else name)
        recipe = make_recipe(loaded, self.options, self.layout)
        if recipe.ingredients().hashes != self.hashes:
            problem = "it or the chat template changed while the build ran"
            hint = "put back what was there, then build again with `resume`"
            raise ConversionError(name, problem, hint)
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
    both_set = options.bos_id is not None and options.eos_id is not None
    before, after = ([], []) if both_set else tokenizer_frame(loaded)
    bos = before if options.bos_id is None else [options.bos_id]
    eos = after if options.eos_id is None else [options.eos_id]
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


@dataclass(frozen=True, kw_only=True, slots=True)
class SideFiles:
    """Where the files beside the data set go; None = `PREFIX.rejects.jsonl`, `PREFIX.run.json`."""

    rejects: Path | None = None
    run: Path | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Build:
    """One build of a data set on this machine, or this machine's part of it."""

    files: Sequence[InputFile]
    recipe: Recipe
    work: WorkOptions
    prefix: Path
    beside: SideFiles = SideFiles()
    monitor: Monitor
    # Tokenizes, as long as it is not found wrong; None: the texts decide.
    engine: EngineChoice | None = None
    is_shard: bool = False  # of a larger data set: it may hold no token

    @property
    def part(self) -> JobShard | None:
        """The part of the job that is to be done; None: all of it is, or is merged."""
        return None if self.merges else self.work.shard

    @property
    def merges(self) -> bool:
        """Whether nothing is to be done but to put parts together."""
        return self.work.shard is not None and self.work.shard.merges

    @property
    def rejects(self) -> Path:
        """Where rows are listed that cannot be tokenized."""
        return self.beside.rejects or self.prefix.with_name(f"{self.prefix.name}.rejects.jsonl")

    @property
    def run_file(self) -> Path:
        """Where times and counts by stage go."""
        return self.beside.run or self.prefix.with_name(f"{self.prefix.name}.run.json")

    def identity(self) -> BuildIdentity:
        """Return what decides the bytes, and when the inputs changed last."""
        identity = self.recipe.identity(self.files)
        return {**identity, "changed": {file.name: file.mtime_ns for file in self.files}}

    def plan(self) -> list[Unit]:
        """Return the units of all files, in order."""
        return plan_units(self.files, whole_files=self.recipe.options.doc_boundary == "file")

    def pick_engine(
        self,
        units: Sequence[Unit],
        exclude: frozenset[str],
        sampled: Sequence[Unit] | None = None,
    ) -> EngineChoice:
        """Return the engine for some units, without those that were wrong before.

        It is picked by texts of those that are `sampled`, which is all of them if none are named.
        """
        if self.engine is not None and self.engine.engine not in exclude:
            return self.engine
        threads, inside = self.work.threads()
        choice = choose_engine(
            self.recipe.loaded,
            self.work.tok_engine,
            sample_texts(self.files, sampled or units, self.recipe),
            plain=self.recipe.options.plain,
            total_bytes=estimate_text_bytes(self.files, units),
            exclude=exclude,
            threads=inside,
            instances=threads,
            monitor=self.monitor,
        )
        trim_memory()  # several engines were loaded
        return choice


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
    sampled = units[:: max(1, len(units) // _UNITS)][:_UNITS]
    for unit in sampled:
        remaining = SAMPLE_BYTES // len(sampled)
        reading = closing(read_rows(files[unit.file], unit, recipe.layout, batch_size=_ROWS))
        with suppress(SourceError), reading as rows:  # it will be told when it is its turn
            for shard in preparer.prepare(files[unit.file].name, rows):
                texts.append(pc.utf8_slice_codeunits(shard.texts, 0, _SAMPLE_CHARS))
                remaining -= texts[-1].nbytes
                if remaining <= 0:
                    break
    return pa.concat_arrays(texts) if texts else pa.array([], pa.large_string())


def prepare_build(
    files: Sequence[InputFile],
    tokenizer: Path | str,
    prefix: Path,
    options: BuildOptions | None,
    work: WorkOptions | None,
    beside: SideFiles | None,
    monitor: Monitor,
) -> Build:
    """Resolve what the options leave open. Raises SourceError, ConversionError."""
    options = options or BuildOptions()
    if not files:
        raise ConversionError(str(prefix), "no file to tokenize", "name at least one")
    twice = [name for name, count in Counter(file.name for file in files).items() if count > 1]
    if twice:
        raise ConversionError(twice[0], "two inputs have this name", "give them names of their own")
    loaded = load_tokenizer(tokenizer)
    check = check_special(
        loaded,
        options.special_tokens_json,
        strict=options.strict_special_ids,
        bos_id=options.bos_id,
        eos_id=options.eos_id,
    )
    for event, fields in check.warnings():
        log_event(monitor, "warn", "tokenizer", event, **fields)
    layout = find_layout(files, options.text_cols)
    recipe = make_recipe(loaded, options, layout)
    if options.special_tokens_json:
        recipe = replace(recipe, special_tokens_check=check.to_document())
    facts: dict[str, object] = {"tokenizer": loaded.given, "vocabulary": loaded.vocabulary}
    facts |= {"dtype": recipe.rules.dtype, "input": layout.kind, "columns": list(layout.columns)}
    log_event(monitor, "info", "pipeline", "checked", **facts, eod_id=recipe.rules.eod)
    return Build(
        files=files,
        recipe=recipe,
        work=work or WorkOptions(),
        prefix=prefix,
        beside=beside or SideFiles(),
        monitor=monitor,
    )
