"""Kernels take structures: few parameters, so that a call can be read."""

import ast
from pathlib import Path

from tests.packaging.house import ROOT, modules

MOST = 8


def kernels(file: Path) -> dict[str, int]:
    """The kernels of a file with how many parameters each takes."""
    functions = (
        node
        for node in ast.parse(file.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef)
    )
    return {
        f"{file.relative_to(ROOT)}:{node.name}": len(
            [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        )
        for node in functions
        if any(
            word in ast.unparse(decorator)
            for decorator in node.decorator_list
            for word in ("kernel", "njit")
        )
    }


def test_kernels_take_few_parameters() -> None:
    counted = {name: count for file in modules().values() for name, count in kernels(file).items()}
    assert len(counted) > 100
    assert {name: count for name, count in counted.items() if count > MOST} == {}
