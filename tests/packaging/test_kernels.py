"""Kernels take structures: few parameters, so that a call can be read."""

import ast
import sys
from pathlib import Path

from tests.packaging.house import ROOT, modules

MOST = 8
UNFINISHED: dict[str, int] = {
    "converters/recsys/monolith/features.py:_measure_entries": 11,
    "converters/recsys/monolith/frames/kernels.py:scan_frames": 11,
    "converters/recsys/monolith/line_ids.py:read_lines": 12,
    "converters/recsys/monolith/line_ids.py:fill_lines": 11,
    "converters/recsys/monolith/wire/batch_kernels.py:walk_lists": 10,
    "converters/recsys/monolith/wire/batch_kernels.py:_walk_list": 9,
    "converters/recsys/monolith/wire/batch_kernels.py:group_rows": 23,
    "converters/recsys/monolith/wire/batch_kernels.py:_group_row": 23,
    "converters/recsys/monolith/wire/example_kernels.py:walk_named": 9,
    "converters/recsys/monolith/wire/example_kernels.py:walk_examples": 15,
    "converters/recsys/monolith/wire/example_kernels.py:find_name_number": 9,
    "converters/recsys/monolith/wire/writer_kernels.py:measure_features": 9,
    "converters/recsys/monolith/wire/writer_kernels.py:measure_examples": 10,
    "converters/recsys/monolith/wire/writer_kernels.py:write_examples": 22,
    "converters/recsys/monolith/wire/writer_kernels.py:measure_lists": 13,
    "converters/recsys/monolith/wire/writer_kernels.py:write_lists": 19,
    "converters/recsys/monolith/wire/writer_kernels.py:write_row_fields": 10,
}
"""Kernels that still take more, by file and name; the numbers only go down."""


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
    wide = {name: count for name, count in counted.items() if count > MOST}
    assert {name: count for name, count in wide.items() if count > UNFINISHED.get(name, MOST)} == {}


if __name__ == "__main__":
    for file in modules().values():
        for name, count in kernels(file).items():
            if count > MOST:
                sys.stdout.write(f"    {name!r}: {count},\n")
