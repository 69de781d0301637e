"""Kernels take structures: few parameters, so that a call can be read."""

import ast

from tests.packaging.house import modules, parse_file

MOST = 8


def kernels(tree: ast.Module) -> dict[str, int]:
    """Return the kernels of a module with how many parameters each takes."""
    return {
        node.name: len([*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs])
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and any(
            word in ast.unparse(decorator)
            for decorator in node.decorator_list
            for word in ("kernel", "njit")
        )
    }


def too_many_parameters(counted: dict[str, int]) -> list[str]:
    """Return the kernels with more parameters than can be read in a call."""
    return [name for name, count in counted.items() if count > MOST]


def test_kernels_take_few_parameters() -> None:
    counted = {
        f"{module}.{name}": count
        for module, file in modules().items()
        for name, count in kernels(parse_file(file)).items()
    }
    assert len(counted) > 100
    assert too_many_parameters(counted) == []


def test_a_kernel_with_too_many_parameters_is_found() -> None:
    text = "@kernel(cache=True)\ndef wide(a, b, c, /, d, e, f, *, g, h, i): ...\n"
    text += "@inner_kernel\ndef narrow(a, b, c, d, e, f, g, h): ...\n"
    text += "def function(a, b, c, d, e, f, g, h, i): ...\n"
    counted = kernels(ast.parse(text))
    assert counted == {"wide": 9, "narrow": 8}
    assert too_many_parameters(counted) == ["wide"]
