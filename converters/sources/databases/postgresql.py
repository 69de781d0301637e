"""PostgreSQL: rows of a cursor on the server, in one transaction that may only read."""

from collections.abc import Iterator, Sequence
from typing import Any

from ingot.converters.sources.databases.server_tables import (
    BATCH_ROWS,
    ServerTable,
    missing_package,
    no_key_error,
    translate_server_errors,
)

_OPTIONS = (
    "-c default_transaction_read_only=on -c TimeZone=UTC -c DateStyle=ISO "
    "-c IntervalStyle=iso_8601 -c extra_float_digits=1"
)
_KEY = (
    "SELECT n.nspname, c.relname, a.attname FROM pg_index i "
    "JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
    "CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k(number, place) "
    "JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number "
    "WHERE i.indisprimary AND c.relname = %s AND (n.nspname = %s OR "
    "%s::text IS NULL AND pg_table_is_visible(c.oid)) ORDER BY k.place"
)


def read_postgresql(place: ServerTable) -> Iterator[Sequence[Any]]:
    """Yield the names of the columns, then rows, some at a time. Raises SourceError."""
    try:
        import psycopg
        from psycopg import sql
    except ImportError as error:
        raise missing_package(place, "psycopg", "postgres") from error
    with (
        translate_server_errors(place, psycopg.Error),
        psycopg.connect(place.url, options=_OPTIONS) as connection,
    ):
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        _keep_texts(connection)
        query: Any = place.query
        if place.table is not None:
            schema, _, table = place.table.rpartition(".")
            key = connection.execute(_KEY, (table, schema, schema or None)).fetchall()
            if not key:
                raise no_key_error(place)
            query = sql.SQL("SELECT * FROM {} ORDER BY {}").format(
                sql.Identifier(*key[0][:2]),
                sql.SQL(", ").join(sql.Identifier(name) for _, _, name in key),
            )
        with connection.cursor(name="ingot") as cursor:
            cursor.execute(query)
            yield [column.name for column in cursor.description or ()]
            while rows := cursor.fetchmany(BATCH_ROWS):
                yield rows


def _keep_texts(connection: Any) -> None:  # noqa: ANN401
    """Times as the server writes them, as ISO 8601: Python has no infinity and no year 10,000."""
    from psycopg.adapt import Loader

    class TimeLoader(Loader):
        def load(self, data: Any) -> str:  # noqa: ANN401
            text = bytes(data).decode().replace(" ", "T", 1).replace("TBC", " BC")
            return f"{text}:00" if text.endswith("+00") else text

    for name in ("timestamp", "timestamptz", "timetz", "time", "date", "interval"):
        connection.adapters.register_loader(name, TimeLoader)
