"""Run chat templates in jinja's sandbox, within limits of time and size.

On top of jinja's sandbox a template reaches a closed list of methods and filters. A rendering ends
with an error when it takes too long or builds too much text: loops look at the time (`_LoopChecks`
puts that into the parsed template), and so does every call, filter and test; texts and lists are
measured where they are built.
"""

import functools
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import jinja2
from jinja2 import filters, meta, nodes
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
MOST_SECONDS: float = 10.0  # of one rendering, in the time of its own thread
LARGEST_RENDERING: Final = 1 << 24  # characters of one value, beside 8 times those of the record
_MOST_BUILT: Final = 1 << 27  # characters of all values, beside those for messages and contents
_BUILT_PER_MESSAGE: Final = 1 << 20
_ELEMENT: Final = 16  # what an element of a list counts, in characters
_TURN, _BUILT = "ingot turn", "ingot built"  # no template can spell these


class RenderingLimits:
    """What is left to one rendering; `blocks` counts the `{% generation %}` blocks it marked."""

    __slots__ = ("_end", "_largest", "_left", "blocks", "marks")

    def __init__(self, messages: int, chars: int, marks: MarkSet | None) -> None:
        self._end = time.thread_time() + MOST_SECONDS
        self._largest = LARGEST_RENDERING + 8 * chars
        self._left = _MOST_BUILT + _BUILT_PER_MESSAGE * messages + 32 * chars
        self.blocks = 0
        self.marks = marks

    def check_time(self) -> None:
        """Refuse to go on after the time limit."""
        if time.thread_time() > self._end:
            raise TemplateError("the template runs too long on this record")

    def take_turn(self, chars: int) -> None:
        """Count a turn of a loop, with the characters that stand in its body."""
        self.check_time()
        self.expect(chars)

    def expect(self, chars: int) -> None:
        """Refuse a text before it is made."""
        self._left -= chars
        if chars > self._largest or self._left < 0:
            raise TemplateError("the template builds too long a text on this record")

    def check_size(self, value: TemplateValue) -> TemplateValue:
        """Count what a value holds, shared parts as often as they occur in it; return it."""
        if isinstance(value, str):
            self.expect(len(value))
        elif isinstance(value, list | tuple | dict):
            self._weigh(value)
        return value

    def _weigh(self, value: TemplateValue) -> None:
        chars = 0
        waiting = [value]
        while waiting and chars <= self._largest:
            one = waiting.pop()
            if isinstance(one, str):
                chars += len(one)
            elif isinstance(one, list | tuple | dict):
                chars += _ELEMENT * (1 + len(one))
                waiting += [*one, *one.values()] if isinstance(one, dict) else one
        self.expect(chars)


class _LoopChecks(NodeTransformer):
    """Puts checks into a parsed template: of the time into loops, of the size around literals."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 - jinja2's name
        text = sum(len(data.data) for data in node.find_all(nodes.TemplateData))
        self.generic_visit(node)
        turn = nodes.Filter(nodes.Const(text), _TURN, [], [], None, None, lineno=node.lineno)
        node.body.insert(0, nodes.ExprStmt(turn))
        return node

    def visit_List(self, node: TemplateValue) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return nodes.Filter(node, _BUILT, [], [], None, None, lineno=node.lineno or 1)

    visit_Dict = visit_Concat = visit_List  # noqa: N815

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:  # noqa: N802
        return self.visit_List(node) if node.ctx == "load" else node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802
        if isinstance(node.arg, nodes.Slice):
            return self.visit_List(node)
        self.generic_visit(node)
        return node


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
# Python takes the product of both lengths for these, with no look at the time in between.
_SEARCHES_BACK: Final = frozenset(
    ["lstrip", "rfind", "rindex", "rpartition", "rsplit", "rstrip", "strip"]
)
_MOST_SOUGHT: Final = 64
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
        limits: RenderingLimits = environment.running.limits
        text = caller()
        if limits.marks is None:
            return text
        limits.blocks += 1
        return mark_text(text, limits.blocks - 1, limits.marks)


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
    """The sandbox; `running.limits` are those of the rendering that this thread is at."""

    intercepted_binops = frozenset(["+", "*", "**", "%"])

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,  # nothing is computed while compiling, where there are no limits
            extensions=[_Generation, loopcontrols],
            finalize=self._show,
        )
        self.running = threading.local()
        self.filters = self._filters()
        self.tests = {name: self._limited(test) for name, test in self.tests.items()}
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
        own = {"indent": self._indent, "join": self._join, "replace": self._replace, "trim": _trim}
        limited = {name: self._limited(one) for name, one in (offered | own).items()}
        return limited | {
            "tojson": self._limited(_to_json),
            _TURN: lambda chars: self.running.limits.take_turn(chars),
            _BUILT: lambda value: self.running.limits.check_size(value),
        }

    def _limited(self, function: TemplateValue) -> Callable[..., TemplateValue]:
        """A filter or test that looks at the time first, and at the size of its result."""

        @functools.wraps(function)
        def call(*args: TemplateValue, **kwargs: TemplateValue) -> TemplateValue:
            self.running.limits.check_time()
            made = self.running.limits.check_size(function(*args, **kwargs))
            return self._watched(made) if isinstance(made, Iterator) else made

        return call

    def _watched(self, elements: Iterator[TemplateValue]) -> Iterator[TemplateValue]:
        for one in elements:
            self.running.limits.check_time()
            yield one

    def _generate(
        self,
        source: nodes.Template,
        name: TemplateValue,
        filename: TemplateValue,
        defer_init: bool = False,
    ) -> str:
        if any(map(source.find, (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends))):
            raise jinja2.TemplateSyntaxError("no other template can be reached", 1, name, filename)
        return super()._generate(_LoopChecks().visit(source), name, filename, defer_init)

    @jinja2.pass_context  # with a context it is not called while compiling
    def _show(self, context: Context, value: TemplateValue) -> TemplateValue:
        if not isinstance(value, _SHOWN):
            raise TemplateError(f"the template shows a {type(value).__name__}")
        if isinstance(value, Undefined) and value._undefined_exception is SecurityError:
            raise SecurityError(value._undefined_message)
        return self.running.limits.check_size(value)

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
        limits = self.running.limits
        limits.check_time()
        owner = getattr(obj, "__self__", None)
        if isinstance(owner, str):
            _check_method(limits, owner, obj.__name__, args)
        return limits.check_size(
            ImmutableSandboxedEnvironment.call(self, context, obj, *args, **kwargs)
        )

    def call_binop(
        self, context: Context, operator: str, left: TemplateValue, right: TemplateValue
    ) -> TemplateValue:
        """Compute `+`, `*`, `**` or `%`."""
        limits = self.running.limits
        sizes = [len(one) for one in (left, right) if isinstance(one, str | list | tuple)]
        numbers = [int(one) for one in (left, right) if isinstance(one, int)]
        if operator == "%" and isinstance(left, str):
            raise SecurityError("format strings are not offered")
        if operator == "*" and sizes and numbers:
            limits.expect(sizes[0] * max(numbers[0], 0))
        elif sizes:
            limits.expect(sum(sizes))
        elif operator in ("*", "**") and any(abs(one) >= 1 << 32 for one in numbers):
            raise SecurityError("numbers are below 2^32")
        elif operator == "**" and numbers and abs(numbers[-1]) > 64:
            raise SecurityError("exponents are at most 64")
        return limits.check_size(super().call_binop(context, operator, left, right))

    def _indent(
        self, s: str, width: int | str = 4, first: bool = False, blank: bool = False
    ) -> str:
        size = len(width) if isinstance(width, str) else max(width, 0)
        self.running.limits.expect(len(s) + (1 + len(s.splitlines())) * size)
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
        self.running.limits.expect(len(str(d)) * len(parts))
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
        _check_replace(self.running.limits, str(s), str(old), str(new))
        return filters.do_replace(eval_ctx, s, old, new, count)


def _check_method(limits: RenderingLimits, text: str, name: str, args: tuple[Any, ...]) -> None:
    if name == "replace" and len(args) > 1:
        _check_replace(limits, text, str(args[0]), str(args[1]))
    elif name == "join" and args and isinstance(args[0], list | tuple | str):
        limits.expect(len(text) * len(args[0]))
    elif name == "join":
        raise SecurityError("join takes a list")
    elif name in _SEARCHES_BACK:
        _check_sought(args)


def _check_sought(args: tuple[Any, ...]) -> None:
    if any(isinstance(one, str) and len(one) > _MOST_SOUGHT for one in args):
        raise SecurityError(f"at most {_MOST_SOUGHT} characters are looked for from the end")


def _check_replace(limits: RenderingLimits, text: str, old: str, new: str) -> None:
    limits.expect(len(text) + text.count(old) * len(new))


def _trim(value: TemplateValue, chars: str | None = None) -> str:
    _check_sought((chars,))
    return filters.do_trim(value, chars)


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
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


LARGEST_TEMPLATE: Final = 1 << 20  # characters of source
_REFUSALS: Final = (  # what a template can raise by what it does
    jinja2.TemplateError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    NameError,  # jinja2 writes an infinite number into its code as a name
    RuntimeError,  # RecursionError among them
    TypeError,
    ValueError,
)


class TemplateProgram:
    """A compiled template; usable from any thread.

    `names` are the variables that it reads; with `generation` it says itself what the assistant
    writes, by `{% generation %}` blocks.
    """

    def __init__(self, source: str) -> None:
        if len(source) > LARGEST_TEMPLATE:
            raise TemplateError(f"longer than {LARGEST_TEMPLATE} characters")
        self._environment = TemplateSandbox()
        try:
            tree = self._environment.parse(source)
            self.names = frozenset(meta.find_undeclared_variables(tree))
            blocks = (block.call.node for block in tree.find_all(nodes.CallBlock))
            self.generation = any(isinstance(one, nodes.ExtensionAttribute) for one in blocks)
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
        self._environment.running.limits = RenderingLimits(messages, chars, marks)
        try:
            context = self._template.new_context(dict(variables))
            text = "".join(self._template.root_render_func(context))
            text.encode()  # half a surrogate pair, from an escape, is no text
        except _REFUSALS as error:
            raise TemplateError(self._problem(error)) from error
        if len(text) > LARGEST_RENDERING + 8 * chars:
            raise TemplateError("the template builds too long a text on this record")
        return text

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
