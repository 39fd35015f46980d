"""Tests sinks by the seeds of halley test: a correct one, and some with one mistake each.

    python3 kit.py NAME    prints how NAME fails, or that it converges
"""
import sys

from halley.testing import converges


class Table:
    """Rows by id: their epoch, their LSN and the balance, None if they are deleted."""

    def __init__(self):
        self.rows = {}

    def state(self):
        return {id: row[2] for id, row in self.rows.items() if row[2] is not None}

    def start(self):
        return self.mirror

    def mirror(self, changes, context):
        for change in changes:
            row = row_of(change, context)
            if is_newer(row, self.rows.get(change.id)):
                self.rows[change.id] = row


def row_of(change, context):
    return (context.epoch, change.lsn, None if change.deleted else change.document["balance"])


def is_newer(row, stored):
    return stored is None or row[:2] >= stored[:2]


def each(apply):
    """Makes a table whose processes apply the changes one by one, with a memory of their own."""

    class Wrong(Table):
        def start(self):
            memory = {}

            def handle(changes, context):
                for change in changes:
                    apply(self.rows, memory, change.id, row_of(change, context))

            return handle

    return Wrong


def add(rows, row, difference):
    rows["total"] = (0, 0, rows.get("total", (0, 0, 0))[2] + difference)


def sum_up(rows, memory, id, row):
    add(rows, row, row[2] or 0)


def last_delivery_wins(rows, memory, id, row):
    rows[id] = row


def deletes_dropped(rows, memory, id, row):
    if row[2] is not None and is_newer(row, rows.get(id)):
        rows[id] = row


def not_fenced(rows, memory, id, row):
    if is_newer(row, memory.get(id)):
        memory[id] = rows[id] = row


def order_across_keys_assumed(rows, memory, id, row):
    if row[1] >= rows.get("position", (0, 0))[1]:
        rows["position"] = (0, row[1], None)
        rows[id] = row


def positions_remembered(rows, memory, id, row):
    if is_newer(row, memory.get(id)):
        add(rows, row, (row[2] or 0) - (memory.get(id, (0, 0, 0))[2] or 0))
        memory[id] = rows[id] = row


def position_forgotten_on_delete(rows, memory, id, row):
    if is_newer(row, rows.get(id)):
        rows[id] = row
        if row[2] is None:
            del rows[id]


class AcknowledgedBeforeWritten(Table):
    def start(self):
        waiting = []

        def handle(changes, context):
            for earlier in waiting:
                self.mirror(*earlier)
            waiting[:] = [(changes, context)]

        handle.waiting = waiting
        return handle

    def stop(self, handle):
        for earlier in handle.waiting:
            self.mirror(*earlier)


class FailsOnWhatItHas(Table):
    def mirror(self, changes, context):
        for change in changes:
            if self.rows.get(change.id, (0, 0))[1] == change.lsn:
                raise ValueError("duplicate key " + change.id)
        super().mirror(changes, context)


class Asynchronous(Table):
    def start(self):
        async def handle(changes, context):
            self.mirror(changes, context)

        return handle


SINKS = {
    "correct": Table,
    "correct and asynchronous": Asynchronous,
    "sum": each(sum_up),
    "last delivery wins": each(last_delivery_wins),
    "acknowledged before written": AcknowledgedBeforeWritten,
    "deletes dropped": each(deletes_dropped),
    "not fenced": each(not_fenced),
    "order across keys assumed": each(order_across_keys_assumed),
    "positions remembered in the process": each(positions_remembered),
    "position forgotten on delete": each(position_forgotten_on_delete),
    "fails on what it has": FailsOnWhatItHas,
}

try:
    converges(
        SINKS[sys.argv[1]],
        lambda random, id, key: {"id": id, "key": key, "balance": random.randrange(100)},
        all_versions=True,
        want=None if sys.argv[1].startswith("sum") or "remembered" in sys.argv[1] else lambda documents: {d["id"]: d["balance"] for d in documents},
    )
    print("it converges")
except AssertionError as failure:
    print(failure)
