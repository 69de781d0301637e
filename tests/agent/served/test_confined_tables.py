"""A served order for a table reads nothing outside of its folder."""

from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("deltalake", reason="deltalake is not installed: make test-more brings it")
pytest.importorskip("pyiceberg", reason="pyiceberg is not installed: make test-more brings it")
from deltalake import write_deltalake

from ingot.agent.proposing.order import Order
from ingot.agent.served.order_input import check_confined
from ingot.converters.errors import ConversionError
from tests.converters.sources.tables.iceberg_tables import make_table

pytestmark = pytest.mark.more


def test_a_metadata_file_leads_to_no_table_outside(tmp_path: Path) -> None:
    table = make_table(tmp_path / "lake", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1]}))
    metadata = Path(table.metadata_location.removeprefix("file://"))
    check_confined(Order(source=str(metadata), out=None), tmp_path)
    with pytest.raises(ConversionError, match="lies outside"):
        check_confined(Order(source=str(metadata), out=None), metadata.parent)


def test_a_version_of_a_table_may_be_named(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "a/t", pa.table({"id": [1]}))
    check_confined(Order(source=f"{tmp_path}/a/t@0", out=None), tmp_path)
    with pytest.raises(ConversionError, match="lies outside"):
        check_confined(Order(source=f"{tmp_path}/a/t@0", out=None), tmp_path / "b")
