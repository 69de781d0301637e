"""Run chat templates in jinja's sandbox, set up as transformers does.

The sandbox keeps a template from Python's own attributes and from changes to the record. It bounds
neither time nor memory: the process that a template runs in has to (`template_process.py`).
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn, TypeAlias

import jinja2
from jinja2 import meta, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ingot.converters.megatron.chat.rendering import MarkSet, TemplateError, mark_text

TemplateValue: TypeAlias = Any  # what a template computes, or jinja2 passes on
LARGEST_TEMPLATE: Final = 1 << 20  # characters of source
LARGEST_RENDERING: Final = 1 << 24  # characters, beside 8 times those of the record
_SHOWN: Final = (str, int, float, list, tuple, dict, jinja2.Undefined, type(None))


class _Generation(Extension):
    """`{% generation %}...{% endgeneration %}`: what the assistant writes, as transformers has it.

    When marks are asked for the k-th block stands between marks that carry its number.
    """

    tags = {"generation"}  # noqa: RUF012 - jinja2's attribute
    marks: MarkSet | None = None
    blocks = 0  # marked in this rendering

    def parse(self, parser: Parser) -> nodes.Node:
        """Parse one block."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("mark"), [], [], body).set_lineno(line)

    def mark(self, caller: Callable[[], str]) -> str:
        """Return the text of the block, between marks if they are requested."""
        text = caller()
        if self.marks is None:
            return text
        self.blocks += 1
        return mark_text(text, self.blocks - 1, self.marks)


def _show(value: TemplateValue) -> TemplateValue:
    """Refuse what would be shown with its address in memory, another one in each run."""
    if not isinstance(value, _SHOWN):
        raise TemplateError(f"the template shows a {type(value).__name__}")
    return value


def _raise_template_error(message: str) -> NoReturn:
    raise jinja2.TemplateError(str(message))


def _to_json(
    value: TemplateValue,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _make_environment() -> ImmutableSandboxedEnvironment:
    sandbox = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols], finalize=_show
    )
    sandbox.filters["tojson"] = _to_json
    sandbox.globals["raise_exception"] = _raise_template_error
    # Without them the same record gives the same text.
    del sandbox.filters["random"], sandbox.globals["lipsum"]
    return sandbox


class TemplateProgram:
    """A compiled template.

    `names` are the variables that it reads; with `generation` it says itself what the assistant
    writes, by `{% generation %}` blocks.
    """

    def __init__(self, source: str) -> None:
        if len(source) > LARGEST_TEMPLATE:
            raise TemplateError(f"longer than {LARGEST_TEMPLATE} characters")
        environment = _make_environment()
        self._blocks: TemplateValue = environment.extensions[_Generation.identifier]
        try:
            tree = environment.parse(source)
            self.names = frozenset(meta.find_undeclared_variables(tree))
            blocks = (block.call.node for block in tree.find_all(nodes.CallBlock))
            self.generation = any(isinstance(one, nodes.ExtensionAttribute) for one in blocks)
            self._template = environment.from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise TemplateError(f"line {error.lineno}: {error.message}") from error
        except Exception as error:  # jinja lets what Python's compiler raises through
            raise TemplateError(f"too large, nested too deeply or not valid: {error}") from error

    def run(
        self, variables: Mapping[str, TemplateValue], *, chars: int, marks: MarkSet | None = None
    ) -> str:
        """Render once; `chars` is the length of the record. Raises TemplateError."""
        self._blocks.marks, self._blocks.blocks = marks, 0
        try:
            context = self._template.new_context(dict(variables))
            text = "".join(self._template.root_render_func(context))
            text.encode()  # half a surrogate pair, from an escape, is no text
        except Exception as error:  # a template can raise anything
            raise TemplateError(self._problem(error)) from error
        if len(text) > LARGEST_RENDERING + 8 * chars:
            raise TemplateError("the template builds too long a text on this record")
        return text

    def _problem(self, error: BaseException) -> str:
        line, trace = 0, error.__traceback__
        while trace:
            if trace.tb_frame.f_code.co_filename == "<template>":
                line = self._template.get_corresponding_lineno(trace.tb_lineno)
            trace = trace.tb_next
        text = re.sub(r" at 0x[0-9a-f]+", "", str(error))[:300] or type(error).__name__
        return f"the template, line {line}: {text}" if line else f"the template: {text}"
