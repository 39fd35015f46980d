"""Reads an archive whole, without the code that wrote it, and prints its changes as JSON.

readback.py DIRECTORY parquet|jsonl: each change once, with its partition of time. DuckDB
reads both formats, and pyarrow must find the same rows in Parquet.
"""
import json
import sys

import duckdb
import pyarrow.dataset

directory, kind = sys.argv[1:]
if kind == "parquet":
    table = f"read_parquet('{directory}/archive/*/*/*.parquet', hive_partitioning = true, hive_types_autocast = false)"
else:
    table = f"""read_json('{directory}/archive/*/*/*.jsonl.gz', format = 'newline_delimited', hive_partitioning = true,
        hive_types_autocast = false, columns = {{change: 'VARCHAR', id: 'VARCHAR', partition_key: 'VARCHAR', operation: 'VARCHAR', lsn: 'BIGINT',
        ts: 'TIMESTAMPTZ', document: 'JSON', total: 'DOUBLE', rank: 'BIGINT', paid: 'BOOLEAN', due: 'TIMESTAMPTZ', name: 'VARCHAR'}})"""
database = duckdb.connect()
database.execute("SET TimeZone = 'UTC'")
query = f"""SELECT DISTINCT ON (change) id, partition_key, operation, lsn, epoch(ts)::BIGINT AS ts, document,
    total, rank, paid, epoch_ms(due) AS due, name, dt, hour FROM {table}"""
cursor = database.execute(query)
names = [column[0] for column in cursor.description]
rows = [dict(zip(names, row)) for row in cursor.fetchall()]
stored = database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


def milliseconds(time):
    return None if time is None else round(time.timestamp() * 1000)


if kind == "parquet":
    arrow = pyarrow.dataset.dataset(directory + "/archive", format="parquet", partitioning=pyarrow.dataset.partitioning(
        pyarrow.schema([("dt", pyarrow.string()), ("hour", pyarrow.string())]), flavor="hive")).to_table()
    kept = {}
    for row in arrow.to_pylist():
        row["ts"], row["due"] = milliseconds(row["ts"]) // 1000, milliseconds(row["due"])
        kept.setdefault(row["change"], {name: row[name] for name in names})
    order = lambda row: json.dumps(row, sort_keys=True)
    assert arrow.num_rows == stored, (arrow.num_rows, stored)
    assert sorted(kept.values(), key=order) == sorted(rows, key=order), "pyarrow and DuckDB differ"
    assert str(arrow.schema.field("ts").type) == "timestamp[ms, tz=UTC]", arrow.schema

json.dump({"stored": stored, "changes": rows}, sys.stdout)
