"""MySQL and MariaDB: unbuffered rows of one consistent snapshot that may only be read."""

import os
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from ingot.converters.sources.databases.server_tables import (
    BATCH_ROWS,
    ServerTable,
    missing_package,
    no_key_error,
    translate_server_errors,
)

_PORT = 3306
_KEY = (
    "SELECT table_schema, table_name, column_name FROM information_schema.key_column_usage "
    "WHERE constraint_name = 'PRIMARY' AND table_name = %s "
    "AND table_schema = COALESCE(%s, DATABASE()) ORDER BY ordinal_position"
)


def read_mysql(place: ServerTable) -> Iterator[Sequence[Any]]:
    """Yield the names of the columns, then rows, some at a time. Raises SourceError."""
    try:
        import pymysql
        from pymysql.constants import FIELD_TYPE
        from pymysql.converters import conversions
    except ImportError as error:
        raise missing_package(place, "pymysql", "mysql") from error
    at = urlsplit(place.url)
    convert = {kind: one for kind, one in conversions.items() if kind != FIELD_TYPE.TIME}
    with translate_server_errors(place, pymysql.Error):
        connection = pymysql.connect(
            host=at.hostname or "localhost",
            port=at.port or _PORT,
            user=unquote(at.username) if at.username else None,
            password=os.environ.get("MYSQL_PWD", ""),
            database=unquote(at.path.strip("/")) or None,
            charset="utf8mb4",
            conv=convert,
            local_infile=False,
        )
        rows_cursor = connection.cursor(pymysql.cursors.SSCursor)
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                cursor.execute("SET SESSION TRANSACTION READ ONLY")
                cursor.execute("SET SESSION time_zone = '+00:00'")
                cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
            query = place.query or _table_query(connection, place)
            rows_cursor.execute(query)
            yield [column[0] for column in rows_cursor.description or ()]
            while rows := rows_cursor.fetchmany(BATCH_ROWS):
                yield rows
        finally:
            connection.close()
            rows_cursor.connection = None  # closing the cursor would read all rows that are left


def _table_query(connection: Any, place: ServerTable) -> str:  # noqa: ANN401
    """Select all of a table in the order of its primary key."""
    schema, _, table = (place.table or "").rpartition(".")
    with connection.cursor() as cursor:
        cursor.execute(_KEY, (table, schema or None))
        key = cursor.fetchall()
    if not key:
        raise no_key_error(place)
    names = [[f"`{str(name).replace('`', '``')}`" for name in found] for found in key]
    order = ", ".join(column for _, _, column in names)
    return f"SELECT * FROM {names[0][0]}.{names[0][1]} ORDER BY {order}"
