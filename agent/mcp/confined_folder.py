"""What the tools of one MCP server share: the folder that they stay in, and what they may say.

A client is a program with a model in it: its paths, mappings and commands are checked like data.
Everything that it is told goes through the redactor of the data set and has a largest size.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ingot.agent.context import Context
from ingot.agent.privacy import Redactor, Safe
from ingot.agent.privacy.redaction import PLACED, clean_text, convert_scalars
from ingot.agent.reporting.mapping_words import cut_text
from ingot.agent.served.order_input import check_confined, name_below, place_below
from ingot.agent.state import Order
from ingot.agent.steps.order_schema import check_order
from ingot.converters.errors import ConversionError, IngotError
from ingot.converters.mapping.bind import load_mapping, read_tree
from ingot.converters.mapping.documents.writer import plain_document
from ingot.converters.mapping.language import Mapping
from ingot.converters.rows import Json

if TYPE_CHECKING:
    from ingot.agent.proposing.llm.mapper import ModelAccess

MOST_ANSWER = 60_000  # characters of an answer
_MOST_KEPT = 200  # mappings that are known by a name
_CUTS = (4_000, 1_000, 200, 40)  # characters of a text, where the answer is too long otherwise
_A_LIST = 20  # characters for each element of a list that is kept

GivenMapping = str | dict[str, Json]
Facts = dict[str, Json]  # what an answer says


@dataclass(kw_only=True, eq=False)
class ConfinedFolder:
    """A folder that tools read and write in, and how they may ask a model.

    Attributes:
        root: the folder, resolved.
        asking: how a model is asked, None = none is configured; its budget holds for all calls.
        mapper: who proposes mappings, as `--mapper` names it.
        max_input: most bytes of a source that is converted, as stored.
        check_cancelled: called during a conversion; raises where the client cancelled the call.
    """

    root: Path
    asking: "ModelAccess | None" = None
    mapper: str = "auto"
    max_input: int
    check_cancelled: Callable[[], None] = lambda: None
    _mappings: dict[str, Mapping] = field(default_factory=dict)
    _made: int = 0
    _redactor: Redactor = field(default_factory=lambda: Redactor("redacted"))

    # --- what comes in

    def path(self, name: str) -> str:
        """The absolute path of a name below the root; a URL, or what lies outside, is refused."""
        return place_below(name, self.root)

    def open(self, source: str, **settings: Json) -> tuple[Order, Context]:
        """The order of a dry run over a source, and what it works with: data is read anew.

        Raises ConversionError where a place lies outside of the root or a setting is wrong.
        """
        document = {"source": self.path(source), "mapper": self.mapper, **settings}
        order = check_order({**document, "dry_run": True})
        check_confined(order, self.root)
        context = Context(asking=self.asking, root=self.root)
        with suppress(IngotError):  # before a mapping is read, whose errors may quote values
            self._redactor = context.open(Order(source=order.source)).redactor
        self._redactor = context.open(order).redactor
        return order, context

    def mapping(self, given: GivenMapping) -> Mapping:
        """The mapping that is kept under a name, that of a file, or of the object itself.

        Raises ConversionError for an unknown name, MappingError for a file that holds no mapping.
        """
        if isinstance(given, dict):
            return read_tree(given)
        if given in self._mappings:
            return self._mappings[given]
        file = Path(self.path(given))
        if not file.is_file():  # a pipe would never end
            problem = "is neither a mapping_id of this server nor a file below its root"
            raise ConversionError(
                cut_text(given, 80), problem, "propose_mapping gives a mapping_id"
            )
        return load_mapping(file)

    def knows(self, name: str) -> bool:
        """Whether a name is that of a mapping that this server keeps."""
        return name in self._mappings

    # --- what goes out

    def keep_mapping(self, mapping: Mapping) -> str:
        """Keep a mapping under a name; a secret of the data in it never leaves the machine."""
        known = [
            name
            for name, one in self._mappings.items()
            if one == mapping and one.provenance == mapping.provenance
        ]
        if known:
            return known[0]
        self._made += 1
        while len(self._mappings) >= _MOST_KEPT:
            del self._mappings[next(iter(self._mappings))]
        self._mappings[f"mapping-{self._made}"] = mapping
        return f"mapping-{self._made}"

    def answer(self, facts: Facts, mapping: Mapping | None = None) -> str:
        """An answer as JSON: redacted, without control characters, cut to `MOST_ANSWER`."""
        shown: Json = {}
        if mapping is not None:
            plain = plain_document(mapping)
            shown = {"mapping_id": self.keep_mapping(mapping), "mapping": self._redacted(plain)}
            if shown["mapping"] != plain:
                shown["note"] = "values are hidden in the mapping shown: name it by its mapping_id"
            if len(_json_text(shown)) > MOST_ANSWER // 2:
                shown |= {
                    "mapping": None,
                    "note": "too long to be shown: name it by its mapping_id",
                }
        hidden = self._redacted(facts)
        if marks := _placeholders(hidden) - _placeholders(facts):
            hidden["hidden"] = sorted(marks)  # what stands in place of values of the data
        for most in _CUTS:
            text = _json_text({**_shortened(hidden, most), **shown})
            if len(text) <= MOST_ANSWER:
                return text
        raise ConversionError("answer", "too long to be shown", "ask for fewer rows")

    def _redacted(self, value: Json) -> Json:
        return convert_scalars(self._redactor.value(value).json, _clean_scalar, hide=clean_text)

    def error_text(self, error: IngotError) -> Safe:
        """What a client is told of an error: redacted by all that is known of the data set."""
        return Safe(cut_text(self.text(str(error)), MOST_ANSWER // 10))

    def text(self, text: str) -> Safe:
        """A text of a file as a client may read it."""
        return Safe(clean_text(self._redactor.text(text)))

    def begin_call(self) -> None:
        """Forget the redactor of the call before."""
        self._redactor = Redactor("redacted")

    def shown_path(self, place: str | Path) -> str:
        """A path below the root as clients name it."""
        return name_below(place, self.root)


def _placeholders(value: Json) -> set[str]:
    return {one[0] for one in PLACED.finditer(_json_text(value))}


def _json_text(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)


def _shortened(value: Json, most: int) -> Json:
    """The value with texts of at most that many characters, and as many elements as fit them."""
    elements = max(2, most // _A_LIST)
    if isinstance(value, str):
        return cut_text(value, most * 5) if "\n" in value else cut_text(value, most)
    if isinstance(value, list):
        more = [f"(+{len(value) - elements} more)"] if len(value) > elements else []
        return [*(_shortened(one, most) for one in value[:elements]), *more]
    if isinstance(value, dict):
        pairs = list(value.items())[: max(elements, 20)]
        return {cut_text(key, most): _shortened(one, most) for key, one in pairs}
    return value


def _clean_scalar(value: Json, _: str) -> Json:
    return clean_text(value) if isinstance(value, str) else value
