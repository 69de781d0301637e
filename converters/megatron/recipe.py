"""A build with everything resolved: ids, template, what is read; and what it is known by."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.chats.masks import Masker
from ingot.converters.megatron.chats.templates import ChatTemplate, load_template
from ingot.converters.megatron.cutting.cutter import Cutter
from ingot.converters.megatron.engines.choice import Choice
from ingot.converters.megatron.engines.engine import Engine
from ingot.converters.megatron.engines.guard import open_engine
from ingot.converters.megatron.indexed import TokenDtype, token_dtype
from ingot.converters.megatron.layouts import Layout
from ingot.converters.megatron.monitor import Monitor
from ingot.converters.megatron.options import BuildOptions, WorkOptions
from ingot.converters.megatron.pipeline import Stages
from ingot.converters.megatron.preparing import Preparer
from ingot.converters.megatron.shaping import Rules
from ingot.converters.megatron.shards import LONG_CHARS
from ingot.converters.megatron.special import SpecialCheck
from ingot.converters.megatron.tokenizer import TokenizerFile, find_eod, frame
from ingot.converters.megatron.units import InputFile
from ingot.converters.rows import Json

VERSION: Final = 2  # of what makes the bytes; a data set of another version is not gone on with
_LARGEST_UINT16: Final = 2**16 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """What makes documents of rows.

    Attributes:
        loaded: the tokenizer.
        options: as the user gave them.
        layout: what is read.
        rules: of documents.
        template: renders conversations; None where there are none.
    """

    loaded: TokenizerFile
    options: BuildOptions
    layout: Layout
    rules: Rules
    template: ChatTemplate | None

    @property
    def masks(self) -> bool:
        """Whether loss masks are written."""
        return self.template is not None and self.options.loss_mask

    def preparer(self, shards: int = 1) -> Preparer:
        """What makes texts of rows."""
        cutter = Cutter(self.loaded, plain=self.options.plain, limit=LONG_CHARS)
        return Preparer(
            layout=self.layout,
            options=self.options,
            cutter=cutter,
            template=self.template,
            shards=shards,
        )

    def stages(
        self, files: Sequence[InputFile], work: WorkOptions, choice: Choice, monitor: Monitor
    ) -> Stages:
        """A pipeline for it."""
        threads, inside = work.threads()
        shards = work.batch_shards or threads
        return Stages(
            files=list(files),
            layout=self.layout,
            preparer=self.preparer(shards),
            rules=self.rules,
            open_engine=self._opener(choice, inside, work.engine_memory, monitor),
            masker=partial(Masker, self.loaded, plain=self.options.plain) if self.masks else None,
            threads=threads,
            batch_size=work.batch_size,
            queue_cap=work.queue_cap,
            rowgroup_parallel=work.rowgroup_parallel,
            monitor=monitor,
        )

    def _opener(
        self, choice: Choice, threads: int, memory: int, monitor: Monitor
    ) -> Callable[[], Engine]:
        return partial(
            open_engine, self.loaded, choice, threads=threads, memory_limit=memory, monitor=monitor
        )

    def identity(self, files: Sequence[InputFile]) -> dict[str, Json]:
        """What decides the bytes, as JSON; times and places are not in it."""
        return {
            "version": VERSION,
            "tokenizer": self.loaded.sha256,
            "bos": list(self.rules.bos),
            "eos": list(self.rules.eos),
            "eod_id": self.rules.eod,
            "chat_template": _template_facts(self.template),
            "input": self.layout.to_document(),
            "options": self.options.to_document(),
            "expected_special_tokens": _expected_sha256(self.options),
            "files": {file.name: file.bytes for file in files},
        }

    def meta(self) -> dict[str, Json]:
        """What `.meta.json` says about the making of the data set."""
        return {
            "version": VERSION,
            "kind": self.layout.kind,
            "dtype": self.rules.dtype,
            "tokenizer": {
                "file": _tokenizer_name(self.loaded),
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
        }


def make_recipe(loaded: TokenizerFile, options: BuildOptions, layout: Layout) -> Recipe:
    """Resolve what the options leave to the tokenizer.

    Raises:
        ConversionError: the tokenizer has no such id, or no EOD; its ids do not fit the dtype; the
            chat template is none; options that do not go together with the input.
    """
    chat = layout.kind == "sft"
    if chat and options.doc_boundary == "file":
        raise ConversionError("", "--doc-boundary file joins texts, not conversations", "use row")
    bos, eos = _frame(loaded, options)
    rules = Rules(
        dtype=_dtype(loaded, options),
        bos=bos,
        eos=eos,
        eod=_eod(loaded, options),
        empty_docs=options.empty_docs,
        min_tokens=options.min_tokens,
        max_tokens=options.most_tokens,
        long_docs=options.long_docs,
        chat=chat,
    )
    template = load_template(options.chat_template, loaded) if chat else None
    return Recipe(loaded=loaded, options=options, layout=layout, rules=rules, template=template)


def _frame(loaded: TokenizerFile, options: BuildOptions) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if not options.add_special_tokens:
        return (), ()
    stated = options.bos_id is not None and options.eos_id is not None
    before, behind = ([], []) if stated else frame(loaded)
    bos = before if options.bos_id is None else [_known(loaded, options.bos_id)]
    eos = behind if options.eos_id is None else [_known(loaded, options.eos_id)]
    return tuple(bos), tuple(eos)


def _eod(loaded: TokenizerFile, options: BuildOptions) -> int | None:
    if not options.append_eod:
        return None
    return find_eod(loaded) if options.eos_id is None else _known(loaded, options.eos_id)


def _known(loaded: TokenizerFile, stated: int) -> int:
    if not 0 <= stated <= loaded.largest_id:
        problem = f"has no id {stated}"
        raise ConversionError(loaded.given, problem, f"ids go from 0 to {loaded.largest_id}")
    return stated


def _dtype(loaded: TokenizerFile, options: BuildOptions) -> TokenDtype:
    if options.dtype == "u32":
        return "int32"
    if options.dtype == "auto":
        return token_dtype(loaded.vocabulary, loaded.largest_id)
    if loaded.largest_id > _LARGEST_UINT16:
        problem = f"its ids go up to {loaded.largest_id}, --dtype u16 holds {_LARGEST_UINT16}"
        raise ConversionError(loaded.given, problem, "use --dtype auto or u32")
    return "uint16"


def _tokenizer_name(loaded: TokenizerFile) -> str:
    """Its name without its folder, so that equal builds give equal bytes wherever they are made."""
    return loaded.given if loaded.given.startswith("hf://") else loaded.path.name


def _template_facts(template: ChatTemplate | None) -> dict[str, Json] | None:
    return None if template is None else {"name": template.name, "sha256": template.sha256}


def _expected_sha256(options: BuildOptions) -> str | None:
    path = options.special_tokens_json
    return None if path is None else hashlib.sha256(path.read_bytes()).hexdigest()


def check_document(check: SpecialCheck | None) -> dict[str, Json]:
    """The section of `.meta.json` on the special-token check; nothing where none was asked for."""
    return {} if check is None else {"special_tokens_check": check.to_document()}
