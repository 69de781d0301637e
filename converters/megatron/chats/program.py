"""A compiled chat template: what it reads, and one rendering after another within limits."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

import jinja2
from jinja2 import meta, nodes

from ingot.converters.megatron.chats.marks import Marks
from ingot.converters.megatron.chats.meter import LARGEST_TEXT, Meter
from ingot.converters.megatron.chats.render import TemplateError
from ingot.converters.megatron.chats.sandbox import Environment
from ingot.converters.rows import Json

LARGEST_TEMPLATE: Final = 1 << 20  # characters of source
_REFUSALS: Final = (  # what a template can raise by what it does
    jinja2.TemplateError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,  # RecursionError among them
    TypeError,
    ValueError,
)


class Program:
    """A compiled template; usable from any thread.

    Attributes:
        names: variables that it reads.
        generation: it says itself what the assistant writes, by `{% generation %}` blocks.
    """

    def __init__(self, source: str) -> None:
        """Compile a template.

        Raises:
            TemplateError: it is none; the problem begins with `line N: ` where that is known.
        """
        if len(source) > LARGEST_TEMPLATE:
            raise TemplateError(f"longer than {LARGEST_TEMPLATE} characters")
        self._environment = Environment()
        try:
            tree = self._environment.parse(source)
            self.names = frozenset(meta.find_undeclared_variables(tree))
            self.generation = any(_generation_blocks(tree))
            self._template = self._environment.from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise TemplateError(f"line {error.lineno}: {error.message}") from error
        except (RecursionError, SyntaxError, MemoryError, ValueError) as error:
            raise TemplateError(f"nested too deeply or not valid: {error}") from error

    def run(
        self,
        variables: Mapping[str, Json],
        *,
        messages: int,
        chars: int,
        marks: Marks | None = None,
    ) -> str:
        """Render once.

        Args:
            variables: what the template sees.
            messages: of the record, for the limits.
            chars: characters of the record, for the limits.
            marks: to be put around `{% generation %}` blocks, with their numbers.

        Raises:
            TemplateError: the template refuses the record, or passes a limit.
        """
        self._environment.running.meter = Meter(messages, chars, marks)
        try:
            text = "".join(self._pieces(variables))
            text.encode()  # half a surrogate pair, from an escape, is no text
        except _REFUSALS as error:
            raise TemplateError(self._problem(error)) from error
        if len(text) > LARGEST_TEXT + 8 * chars:
            raise TemplateError("the template builds too long a text on this record")
        return text

    def _pieces(self, variables: Mapping[str, Json]) -> Iterator[str]:
        return self._template.root_render_func(self._template.new_context(dict(variables)))

    def _problem(self, error: BaseException) -> str:
        line, trace = 0, error.__traceback__
        while trace:
            if trace.tb_frame.f_code.co_filename == self._template.filename or (
                trace.tb_frame.f_code.co_filename == "<template>"
            ):
                line = self._template.get_corresponding_lineno(trace.tb_lineno)
            trace = trace.tb_next
        text = re.sub(r" at 0x[0-9a-f]+", "", str(error))[:300] or type(error).__name__
        return f"the template, line {line}: {text}" if line else f"the template: {text}"


def _generation_blocks(tree: nodes.Template) -> Iterator[nodes.Node]:
    for block in tree.find_all(nodes.CallBlock):
        if isinstance(block.call.node, nodes.ExtensionAttribute):
            yield block
