"""What a rendering may cost: steps and characters that are counted, never seconds.

Counting is what makes a refusal the same on every machine. A step goes for every turn of a loop and
every call, more for every text or list that is built or searched: loops, literals, slices,
comparisons and filters are counted by nodes put into the parsed template (`_Metering`), calls,
operators and output by the environment it runs in.

Chat templates run in a sandbox that bounds what they reach, how long they run, what they build.
A compiled chat template: what it reads, and one rendering after another within limits.
"""

import functools
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import jinja2
from jinja2 import filters, meta, nodes, tests
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment, safe_range
from jinja2.utils import Cycler, Joiner, Namespace
from jinja2.visitor import NodeTransformer

from ingot.converters.megatron.chat.rendering import MarkSet, TemplateError, mark_text
from ingot.converters.rows import Json

TemplateValue: TypeAlias = Any  # what a template computes, or jinja2 passes on
MOST_STEPS: Final = 1_000_000  # of one rendering, whatever the record
STEPS_PER_MESSAGE: Final = 10_000
CHARS_PER_STEP: Final = 128  # building or searching text; a list counts a step per element
LARGEST_RENDERING: Final = 1 << 24  # characters of one value, beside 8 times those of the record
MOST_DEPTH: Final = 60  # calls within calls: stays below Python's own limit, which moves
STEP, MADE, READ = "ingot step", "ingot made", "ingot read"  # no template can spell these
_UNMETERED: Final = (nodes.Const, nodes.TemplateData)


class RenderingMeter:
    """The account of one rendering; `blocks` counts the `{% generation %}` blocks it marked."""

    __slots__ = ("blocks", "depth", "largest", "left", "marks")

    def __init__(self, messages: int, chars: int, marks: MarkSet | None) -> None:
        self.left = MOST_STEPS + STEPS_PER_MESSAGE * messages + chars // 4
        self.largest = LARGEST_RENDERING + 8 * chars
        self.depth = 0
        self.blocks = 0
        self.marks = marks

    def spend(self, steps: int) -> None:
        """Count steps."""
        self.left -= steps
        if self.left < 0:
            raise TemplateError("the template runs too long on this record")

    def expect(self, chars: int) -> None:
        """Refuse a text before it is made."""
        if chars > self.largest:
            raise TemplateError("the template builds too long a text on this record")
        self.spend(1 + chars // CHARS_PER_STEP)

    def count_size(self, value: TemplateValue) -> TemplateValue:
        """Count what a value holds, shared parts as often as they occur in it."""
        if isinstance(value, str):
            self.expect(len(value))
        elif isinstance(value, list | tuple | dict):
            self._weigh(value)
        return value

    def _weigh(self, value: TemplateValue) -> None:
        chars = 0
        waiting = [value]
        while waiting:
            one = waiting.pop()
            if isinstance(one, str):
                chars += len(one)
            elif isinstance(one, list | tuple | dict):
                self.spend(1 + len(one))
                waiting += (
                    [part for pair in one.items() for part in pair]
                    if isinstance(one, dict)
                    else one
                )
        self.expect(chars)

    def read(self, value: TemplateValue) -> TemplateValue:
        """Count a value that is searched or compared."""
        if isinstance(value, str | list | tuple | dict):
            self.spend(1 + len(value) // CHARS_PER_STEP)
        return value


class _MeterInsertion(NodeTransformer):
    """Puts the meter into a parsed template; every node that is not named here calls it anyway."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 - jinja2's name
        return self._stepping(node)

    visit_Macro = visit_CallBlock = visit_Block = visit_For  # noqa: N815

    def _stepping(self, node: TemplateValue) -> nodes.Node:
        text = sum(len(data.data) for data in node.find_all(nodes.TemplateData))
        self.generic_visit(node)
        count = nodes.Const(1 + text // CHARS_PER_STEP)
        node.body.insert(0, nodes.ExprStmt(_filter_node(count, STEP)))
        return node  # type: ignore[no-any-return]

    def visit_List(self, node: TemplateValue) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        constant = all(isinstance(one, _UNMETERED) for one in node.iter_child_nodes())
        return node if constant else _filter_node(node, MADE)

    visit_Dict = visit_Concat = visit_List  # noqa: N815

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:  # noqa: N802
        return self.visit_List(node) if node.ctx == "load" else node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _filter_node(node, MADE) if isinstance(node.arg, nodes.Slice) else node

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        for operand in node.ops:
            if not isinstance(operand.expr, nodes.Const):
                operand.expr = _filter_node(operand.expr, READ)
        return node

    def visit_Filter(self, node: nodes.Filter) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        if node.node is None:  # of a block: what it gives is counted where it is shown
            return node
        node.node = _filter_node(node.node, READ)
        return _filter_node(node, MADE)

    def visit_FilterBlock(self, node: nodes.FilterBlock) -> nodes.Node:  # noqa: N802
        node.body = [self.visit(one) for one in node.body]
        return node

    def visit_AssignBlock(self, node: nodes.AssignBlock) -> nodes.Node:  # noqa: N802
        node.body = [self.visit(one) for one in node.body]
        return node


def add_meter(tree: nodes.Template) -> nodes.Template:
    """A parsed template with the meter in it."""
    return _MeterInsertion().visit(tree)  # type: ignore[no-any-return]


def _filter_node(node: nodes.Expr, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno or 1)


# Methods and filters that cannot build more than they are given, or that are checked below.
_STR_METHODS: Final = """
capitalize casefold count endswith find index isalnum isalpha isascii isdecimal isdigit isidentifier
islower isnumeric isprintable isspace istitle isupper join lower lstrip partition removeprefix
removesuffix replace rfind rindex rpartition rsplit rstrip split splitlines startswith strip
swapcase title upper
"""
_METHODS: Final[dict[type, frozenset[str]]] = {
    str: frozenset(_STR_METHODS.split()),
    dict: frozenset(["copy", "get", "items", "keys", "values"]),
    list: frozenset(["copy", "count", "index"]),
    tuple: frozenset(["count", "index"]),
}
_FILTERS: Final = """
abs attr capitalize count d default dictsort e escape first float groupby int items last length list
lower map max min reject rejectattr reverse safe select selectattr sort string striptags title trim
truncate unique upper urlencode wordcount
"""
_SHOWN: Final = (str, int, float, list, tuple, dict, Undefined, type(None))


class _Generation(Extension):
    """`{% generation %}...{% endgeneration %}`: what the assistant writes, as transformers has it.

    When marks are asked for the k-th block stands between marks that carry its number.
    """

    tags = {"generation"}  # noqa: RUF012 - jinja2's attribute

    def parse(self, parser: Parser) -> nodes.Node:
        """Parse one block."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("mark"), [], [], body).set_lineno(line)

    def mark(self, caller: Callable[[], str]) -> str:
        """The text of the block, between marks where they are asked for."""
        environment: TemplateValue = self.environment
        meter: RenderingMeter = environment.running.meter
        text = caller()
        if meter.marks is None:
            return text
        meter.blocks += 1
        return mark_text(text, meter.blocks - 1, meter.marks)


class _Namespace(Namespace):
    """Holds no private names and shows nothing of what it holds, which may be itself."""

    def __setitem__(self, name: str, value: TemplateValue) -> None:
        if str(name).startswith("_"):
            raise SecurityError(f"a namespace holds no {name!r}")
        super().__setitem__(name, value)

    def __repr__(self) -> str:
        return "<namespace>"


def _make_namespace(*args: TemplateValue, **kwargs: TemplateValue) -> Namespace:
    made = _Namespace()
    for name, value in dict(*args, **kwargs).items():
        made[name] = value
    return made


class TemplateSandbox(ImmutableSandboxedEnvironment):
    """The sandbox; `running.meter` is the account of the rendering that this thread is at."""

    intercepted_binops = frozenset(["+", "*", "**", "%"])

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,  # nothing is computed while compiling, where no meter runs
            extensions=[_Generation, loopcontrols],
            finalize=self._show,
        )
        self.running = threading.local()
        self.filters = self._filters()
        self.tests = {**tests.TESTS, **self._comparing_tests()}
        self.globals = {
            "range": safe_range,
            "dict": functools.partial(dict),
            "namespace": _make_namespace,
            "cycler": Cycler,
            "joiner": Joiner,
            "raise_exception": _raise_template_error,
        }

    def _filters(self) -> dict[str, Any]:
        offered = {name: filters.FILTERS[name] for name in _FILTERS.split()}
        return offered | {
            STEP: lambda steps: self.running.meter.spend(steps),
            MADE: lambda value: self.running.meter.count_size(value),
            READ: lambda value: self.running.meter.read(value),
            "indent": self._indent,
            "join": self._join,
            "replace": self._replace,
            "tojson": _to_json,
        }

    def _comparing_tests(self) -> dict[str, Any]:
        def comparing(test: TemplateValue) -> TemplateValue:
            def metered_test(value: TemplateValue, other: TemplateValue) -> TemplateValue:
                meter = self.running.meter
                return test(meter.read(value), meter.read(other))

            return metered_test

        names = ("eq", "equalto", "==", "ne", "!=", "in", "lt", "gt", "le", "ge")
        return {name: comparing(tests.TESTS[name]) for name in names}

    def _generate(
        self,
        source: nodes.Template,
        name: TemplateValue,
        filename: TemplateValue,
        defer_init: bool = False,
    ) -> str:
        if any(map(source.find, (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends))):
            raise jinja2.TemplateSyntaxError("no other template can be reached", 1, name, filename)
        return super()._generate(add_meter(source), name, filename, defer_init)

    @jinja2.pass_context  # with a context it is not called while compiling
    def _show(self, context: Context, value: TemplateValue) -> TemplateValue:
        if not isinstance(value, _SHOWN):
            raise TemplateError(f"the template shows a {type(value).__name__}")
        if isinstance(value, Undefined) and value._undefined_exception is SecurityError:
            raise SecurityError(value._undefined_message)
        return self.running.meter.count_size(value)

    def is_safe_attribute(self, obj: TemplateValue, attr: str, value: TemplateValue) -> bool:
        """Whether a template may use that attribute: a closed list for values of data."""
        allowed = next((names for kind, names in _METHODS.items() if isinstance(obj, kind)), None)
        if allowed is not None and attr not in allowed:
            return False
        return bool(super().is_safe_attribute(obj, attr, value))

    def wrap_str_format(self, value: TemplateValue) -> TemplateValue:
        """Format strings are not offered: a width in one is a text of any size."""
        return None

    def call(
        self, context: Context, obj: TemplateValue, /, *args: TemplateValue, **kwargs: TemplateValue
    ) -> TemplateValue:
        """Call something from a template."""
        meter = self.running.meter
        owner = getattr(obj, "__self__", None)
        if isinstance(owner, str):
            _check_method(meter, owner, obj.__name__, args)
        meter.spend(1)
        meter.depth += 1
        if meter.depth > MOST_DEPTH:
            raise TemplateError("the template calls itself too deeply on this record")
        result = ImmutableSandboxedEnvironment.call(self, context, obj, *args, **kwargs)
        meter.depth -= 1
        return meter.count_size(result)

    def call_binop(
        self, context: Context, operator: str, left: TemplateValue, right: TemplateValue
    ) -> TemplateValue:
        """Compute `+`, `*`, `**` or `%`."""
        meter = self.running.meter
        sizes = [len(one) for one in (left, right) if isinstance(one, str | list | tuple)]
        numbers = [int(one) for one in (left, right) if isinstance(one, int)]
        if operator == "%" and isinstance(left, str):
            raise SecurityError("format strings are not offered")
        if operator == "*" and sizes and numbers:
            meter.expect(sizes[0] * max(numbers[0], 0))
        elif sizes:
            meter.expect(sum(sizes))
        elif operator in ("*", "**") and any(abs(one) >= 1 << 32 for one in numbers):
            raise SecurityError("numbers are below 2^32")
        elif operator == "**" and numbers and abs(numbers[-1]) > 64:
            raise SecurityError("exponents are at most 64")
        return meter.count_size(super().call_binop(context, operator, left, right))

    def _indent(
        self, s: str, width: int | str = 4, first: bool = False, blank: bool = False
    ) -> str:
        size = len(width) if isinstance(width, str) else max(width, 0)
        self.running.meter.expect(len(s) + (1 + len(s.splitlines())) * size)
        return filters.do_indent(s, width, first, blank)

    @jinja2.pass_eval_context
    def _join(
        self,
        eval_ctx: TemplateValue,
        value: TemplateValue,
        d: TemplateValue = "",
        attribute: TemplateValue = None,
    ) -> TemplateValue:
        parts = list(value)
        self.running.meter.count_size(parts)
        self.running.meter.expect(len(str(d)) * len(parts))
        return filters.sync_do_join(eval_ctx, parts, d, attribute)

    @jinja2.pass_eval_context
    def _replace(
        self,
        eval_ctx: TemplateValue,
        s: TemplateValue,
        old: TemplateValue,
        new: TemplateValue,
        count: TemplateValue = None,
    ) -> TemplateValue:
        _check_replace(self.running.meter, str(s), str(old), str(new))
        return filters.do_replace(eval_ctx, s, old, new, count)


def _check_method(meter: RenderingMeter, text: str, name: str, args: tuple[Any, ...]) -> None:
    meter.read(text)
    if name == "replace" and len(args) > 1:
        _check_replace(meter, text, str(args[0]), str(args[1]))
    elif name == "join" and args and isinstance(args[0], list | tuple | str):
        meter.count_size(args[0])
        meter.expect(len(text) * len(args[0]))
    elif name == "join":
        raise SecurityError("join takes a list")


def _check_replace(meter: RenderingMeter, text: str, old: str, new: str) -> None:
    meter.expect(len(text) + text.count(old) * len(new))


def _raise_template_error(message: str) -> None:
    raise jinja2.TemplateError(str(message))


def _to_json(
    value: TemplateValue,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    if (indent is not None and not 0 <= indent <= 16) or len("".join(separators or ())) > 16:
        raise SecurityError("tojson indents by at most 16, with separators of a few characters")
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


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


class TemplateProgram:
    """A compiled template; usable from any thread.

    Attributes:
        names: variables that it reads.
        generation: it says itself what the assistant writes, by `{% generation %}` blocks.
    """

    def __init__(self, source: str) -> None:
        """Compile a template."""
        if len(source) > LARGEST_TEMPLATE:
            raise TemplateError(f"longer than {LARGEST_TEMPLATE} characters")
        self._environment = TemplateSandbox()
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
        marks: MarkSet | None = None,
    ) -> str:
        """Render once."""
        self._environment.running.meter = RenderingMeter(messages, chars, marks)
        try:
            text = "".join(self._pieces(variables))
            text.encode()  # half a surrogate pair, from an escape, is no text
        except _REFUSALS as error:
            raise TemplateError(self._problem(error)) from error
        if len(text) > LARGEST_RENDERING + 8 * chars:
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
