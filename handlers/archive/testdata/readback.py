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
    total, rank, paid, epoch(due)::BIGINT AS due, name, dt, hour FROM {table} ORDER BY id, ts, lsn"""
cursor = database.execute(query)
names = [column[0] for column in cursor.description]
rows = [dict(zip(names, row)) for row in cursor.fetchall()]
stored = database.execute(f"SELECT count(*), count(DISTINCT change) FROM {table}").fetchone()

if kind == "parquet":
    arrow = pyarrow.dataset.dataset(directory + "/archive", format="parquet", partitioning="hive").to_table()
    kept = {}
    for row in arrow.to_pylist():
        kept.setdefault(row["change"], row)
    assert arrow.num_rows == stored[0] and len(kept) == stored[1] == len(rows), (arrow.num_rows, stored, len(rows))
    assert sorted((r["id"], r["lsn"], r["document"]) for r in kept.values()) == sorted((r["id"], r["lsn"], r["document"]) for r in rows)
    assert str(arrow.schema.field("ts").type) == "timestamp[ms, tz=UTC]", arrow.schema

json.dump({"stored": stored[0], "changes": rows}, sys.stdout)
