// Tests sinks by the seeds of halley test: a correct one, and some with one mistake each.
//
//	node kit.mjs NAME    prints how NAME fails, or that it converges

import { converges } from "../../../languages/typescript/testing.js";

const isNewer = (row, stored) => !stored || row.epoch > stored.epoch || (row.epoch === stored.epoch && row.lsn >= stored.lsn);

const rowOf = ({ operation, document, lsn }, { epoch }) => ({
  epoch,
  lsn,
  balance: operation === "delete" || operation === "expire" ? null : document.balance,
});

/** Rows by id: their epoch, their LSN and the balance, null if they are deleted. */
class Table {
  rows = new Map();

  state() {
    return Object.fromEntries([...this.rows].filter(([, { balance }]) => balance !== null).map(([id, { balance }]) => [id, balance]));
  }

  start() {
    return (changes, context) => this.mirror(changes, context);
  }

  mirror(changes, context) {
    for (const change of changes) {
      const row = rowOf(change, context);
      if (isNewer(row, this.rows.get(change.id))) this.rows.set(change.id, row);
    }
  }
}

/** Makes a table whose processes apply the changes one by one, with a memory of their own. */
const each = (apply) =>
  class extends Table {
    start() {
      const memory = new Map();
      return async (changes, context) => {
        for (const change of changes) apply(this.rows, change.id, rowOf(change, context), memory);
      };
    }
  };

const add = (rows, difference) => rows.set("total", { balance: (rows.get("total")?.balance ?? 0) + difference });

class AcknowledgedBeforeWritten extends Table {
  waiting = new Map();

  start() {
    const handle = (changes, context) => {
      this.stop(handle);
      this.waiting.set(handle, [changes, context]);
    };
    return handle;
  }

  stop(handle) {
    if (this.waiting.has(handle)) this.mirror(...this.waiting.get(handle));
    this.waiting.delete(handle);
  }
}

class FailsOnWhatItHas extends Table {
  mirror(changes, context) {
    for (const { id, lsn } of changes) if (this.rows.get(id)?.lsn === lsn) throw new Error(`duplicate key ${id}`);
    super.mirror(changes, context);
  }
}

const sinks = {
  correct: Table,
  "correct and asynchronous": each((rows, id, row) => isNewer(row, rows.get(id)) && rows.set(id, row)),
  sum: each((rows, id, row) => add(rows, row.balance ?? 0)),
  "last delivery wins": each((rows, id, row) => rows.set(id, row)),
  "acknowledged before written": AcknowledgedBeforeWritten,
  "deletes dropped": each((rows, id, row) => row.balance !== null && isNewer(row, rows.get(id)) && rows.set(id, row)),
  "not fenced": each((rows, id, row, memory) => isNewer(row, memory.get(id)) && memory.set(id, row) && rows.set(id, row)),
  "order across keys assumed": each((rows, id, row) => {
    if (row.lsn < (rows.get("position")?.lsn ?? 0)) return;
    rows.set("position", { lsn: row.lsn, balance: null });
    rows.set(id, row);
  }),
  "positions remembered in the process": each((rows, id, row, memory) => {
    if (!isNewer(row, memory.get(id))) return;
    add(rows, (row.balance ?? 0) - (memory.get(id)?.balance ?? 0));
    memory.set(id, row);
    rows.set(id, row);
  }),
  "position forgotten on delete": each((rows, id, row) => {
    if (!isNewer(row, rows.get(id))) return;
    if (row.balance === null) rows.delete(id);
    else rows.set(id, row);
  }),
  "fails on what it has": FailsOnWhatItHas,
};

const name = process.argv[2];
const totals = name === "sum" || name.includes("remembered");
try {
  await converges({
    open: () => new sinks[name](),
    document: (random, id, key) => ({ id, key, balance: Math.floor(random() * 100) }),
    want: totals ? undefined : (documents) => Object.fromEntries(documents.map(({ id, balance }) => [id, balance])),
    allVersions: true,
  });
  console.log("it converges");
} catch (failure) {
  console.log(failure.message);
}
