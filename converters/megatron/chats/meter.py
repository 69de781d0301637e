"""What a rendering may cost: steps and characters that are counted, never seconds.

Counting is what makes a refusal the same on every machine. A step goes for every turn of a loop and
every call, more for every text or list that is built or searched: loops, literals, slices,
comparisons and filters are counted by nodes put into the parsed template (`_Metering`), calls,
operators and output by the environment it runs in.
"""

from typing import Any, Final, TypeAlias

from jinja2 import nodes
from jinja2.visitor import NodeTransformer

from ingot.converters.megatron.chats.marks import Marks
from ingot.converters.megatron.chats.render import TemplateError

Value: TypeAlias = Any  # what a template computes, or jinja2 passes on
STEPS: Final = 1_000_000  # of one rendering, whatever the record
STEPS_PER_MESSAGE: Final = 10_000
CHARS_PER_STEP: Final = 128  # building or searching text; a list counts a step per element
LARGEST_TEXT: Final = 1 << 24  # characters of one value, beside 8 times those of the record
DEPTH: Final = 60  # calls within calls: stays below Python's own limit, which moves
STEP, MADE, READ = "ingot step", "ingot made", "ingot read"  # no template can spell these
_UNMETERED: Final = (nodes.Const, nodes.TemplateData)


class Meter:
    """The account of one rendering; `blocks` counts the `{% generation %}` blocks it marked."""

    __slots__ = ("blocks", "depth", "largest", "left", "marks")

    def __init__(self, messages: int, chars: int, marks: Marks | None) -> None:
        self.left = STEPS + STEPS_PER_MESSAGE * messages + chars // 4
        self.largest = LARGEST_TEXT + 8 * chars
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

    def made(self, value: Value) -> Value:
        """Count what a value holds, shared parts as often as they occur in it."""
        if isinstance(value, str):
            self.expect(len(value))
        elif isinstance(value, list | tuple | dict):
            self._weigh(value)
        return value

    def _weigh(self, value: Value) -> None:
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

    def read(self, value: Value) -> Value:
        """Count a value that is searched or compared."""
        if isinstance(value, str | list | tuple | dict):
            self.spend(1 + len(value) // CHARS_PER_STEP)
        return value


class _Metering(NodeTransformer):
    """Puts the meter into a parsed template; every node that is not named here calls it anyway."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 - jinja2's name
        return self._stepping(node)

    visit_Macro = visit_CallBlock = visit_Block = visit_For  # noqa: N815

    def _stepping(self, node: Value) -> nodes.Node:
        text = sum(len(data.data) for data in node.find_all(nodes.TemplateData))
        self.generic_visit(node)
        count = nodes.Const(1 + text // CHARS_PER_STEP)
        node.body.insert(0, nodes.ExprStmt(_filtered(count, STEP)))
        return node  # type: ignore[no-any-return]

    def visit_List(self, node: Value) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        constant = all(isinstance(one, _UNMETERED) for one in node.iter_child_nodes())
        return node if constant else _filtered(node, MADE)

    visit_Dict = visit_Concat = visit_List  # noqa: N815

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:  # noqa: N802
        return self.visit_List(node) if node.ctx == "load" else node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _filtered(node, MADE) if isinstance(node.arg, nodes.Slice) else node

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        for operand in node.ops:
            if not isinstance(operand.expr, nodes.Const):
                operand.expr = _filtered(operand.expr, READ)
        return node

    def visit_Filter(self, node: nodes.Filter) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        if node.node is None:  # of a block: what it gives is counted where it is shown
            return node
        node.node = _filtered(node.node, READ)
        return _filtered(node, MADE)

    def visit_FilterBlock(self, node: nodes.FilterBlock) -> nodes.Node:  # noqa: N802
        node.body = [self.visit(one) for one in node.body]
        return node

    def visit_AssignBlock(self, node: nodes.AssignBlock) -> nodes.Node:  # noqa: N802
        node.body = [self.visit(one) for one in node.body]
        return node


def metered(tree: nodes.Template) -> nodes.Template:
    """A parsed template with the meter in it."""
    return _Metering().visit(tree)  # type: ignore[no-any-return]


def _filtered(node: nodes.Expr, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno or 1)
