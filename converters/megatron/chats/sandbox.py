"""Chat templates run in a sandbox that bounds what they reach, how long they run, what they build.

A template is hostile text. It sees the values it is given and nothing else: no attributes of
Python objects, no files, no clock, no random numbers; what it does is metered (`meter`).
"""

import functools
import json
import threading
from collections.abc import Callable
from typing import Any, Final

import jinja2
from jinja2 import filters, nodes, tests
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment, safe_range
from jinja2.utils import Cycler, Joiner, Namespace

from ingot.converters.megatron.chats.marks import marked
from ingot.converters.megatron.chats.meter import (
    DEPTH,
    MADE,
    READ,
    STEP,
    Meter,
    Value,
    metered,
)
from ingot.converters.megatron.chats.render import TemplateError

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
        environment: Value = self.environment
        meter: Meter = environment.running.meter
        text = caller()
        if meter.marks is None:
            return text
        meter.blocks += 1
        return marked(text, meter.blocks - 1, meter.marks)


class _Namespace(Namespace):
    """Holds no private names and shows nothing of what it holds, which may be itself."""

    def __setitem__(self, name: str, value: Value) -> None:
        if str(name).startswith("_"):
            raise SecurityError(f"a namespace holds no {name!r}")
        super().__setitem__(name, value)

    def __repr__(self) -> str:
        return "<namespace>"


def _namespace(*args: Value, **kwargs: Value) -> Namespace:
    made = _Namespace()
    for name, value in dict(*args, **kwargs).items():
        made[name] = value
    return made


class Environment(ImmutableSandboxedEnvironment):
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
            "namespace": _namespace,
            "cycler": Cycler,
            "joiner": Joiner,
            "raise_exception": _raise_exception,
        }

    def _filters(self) -> dict[str, Any]:
        offered = {name: filters.FILTERS[name] for name in _FILTERS.split()}
        return offered | {
            STEP: lambda steps: self.running.meter.spend(steps),
            MADE: lambda value: self.running.meter.made(value),
            READ: lambda value: self.running.meter.read(value),
            "indent": self._indent,
            "join": self._join,
            "replace": self._replace,
            "tojson": _tojson,
        }

    def _comparing_tests(self) -> dict[str, Any]:
        def comparing(test: Value) -> Value:
            def metered_test(value: Value, other: Value) -> Value:
                meter = self.running.meter
                return test(meter.read(value), meter.read(other))

            return metered_test

        names = ("eq", "equalto", "==", "ne", "!=", "in", "lt", "gt", "le", "ge")
        return {name: comparing(tests.TESTS[name]) for name in names}

    def _generate(
        self, source: nodes.Template, name: Value, filename: Value, defer_init: bool = False
    ) -> str:
        if any(map(source.find, (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends))):
            raise jinja2.TemplateSyntaxError("no other template can be reached", 1, name, filename)
        return super()._generate(metered(source), name, filename, defer_init)

    @jinja2.pass_context  # with a context it is not called while compiling
    def _show(self, context: Context, value: Value) -> Value:
        if not isinstance(value, _SHOWN):
            raise TemplateError(f"the template shows a {type(value).__name__}")
        if isinstance(value, Undefined) and value._undefined_exception is SecurityError:
            raise SecurityError(value._undefined_message)
        return self.running.meter.made(value)

    def is_safe_attribute(self, obj: Value, attr: str, value: Value) -> bool:
        """Whether a template may use that attribute: a closed list for values of data."""
        allowed = next((names for kind, names in _METHODS.items() if isinstance(obj, kind)), None)
        if allowed is not None and attr not in allowed:
            return False
        return bool(super().is_safe_attribute(obj, attr, value))

    def wrap_str_format(self, value: Value) -> Value:
        """Format strings are not offered: a width in one is a text of any size."""
        return None

    def call(self, context: Context, obj: Value, /, *args: Value, **kwargs: Value) -> Value:
        """Call something from a template."""
        meter = self.running.meter
        owner = getattr(obj, "__self__", None)
        if isinstance(owner, str):
            _check_method(meter, owner, obj.__name__, args)
        meter.spend(1)
        meter.depth += 1
        if meter.depth > DEPTH:
            raise TemplateError("the template calls itself too deeply on this record")
        result = ImmutableSandboxedEnvironment.call(self, context, obj, *args, **kwargs)
        meter.depth -= 1
        return meter.made(result)

    def call_binop(self, context: Context, operator: str, left: Value, right: Value) -> Value:
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
        return meter.made(super().call_binop(context, operator, left, right))

    def _indent(
        self, s: str, width: int | str = 4, first: bool = False, blank: bool = False
    ) -> str:
        size = len(width) if isinstance(width, str) else max(width, 0)
        self.running.meter.expect(len(s) + (1 + len(s.splitlines())) * size)
        return filters.do_indent(s, width, first, blank)

    @jinja2.pass_eval_context
    def _join(self, eval_ctx: Value, value: Value, d: Value = "", attribute: Value = None) -> Value:
        parts = list(value)
        self.running.meter.made(parts)
        self.running.meter.expect(len(str(d)) * len(parts))
        return filters.sync_do_join(eval_ctx, parts, d, attribute)

    @jinja2.pass_eval_context
    def _replace(
        self, eval_ctx: Value, s: Value, old: Value, new: Value, count: Value = None
    ) -> Value:
        _check_replace(self.running.meter, str(s), str(old), str(new))
        return filters.do_replace(eval_ctx, s, old, new, count)


def _check_method(meter: Meter, text: str, name: str, args: tuple[Any, ...]) -> None:
    meter.read(text)
    if name == "replace" and len(args) > 1:
        _check_replace(meter, text, str(args[0]), str(args[1]))
    elif name == "join" and args and isinstance(args[0], list | tuple | str):
        meter.made(args[0])
        meter.expect(len(text) * len(args[0]))
    elif name == "join":
        raise SecurityError("join takes a list")


def _check_replace(meter: Meter, text: str, old: str, new: str) -> None:
    meter.expect(len(text) + text.count(old) * len(new))


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(str(message))


def _tojson(
    value: Value,
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
