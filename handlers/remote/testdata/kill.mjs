// A function that keeps a journal, and waits in each change until the killer lets it go on.
import { once } from "node:events";
import { openSync, writeSync } from "node:fs";
import { connect } from "node:net";

const journal = openSync(process.env.JOURNAL, "a", 0o600);
const killer = connect(Number(process.env.KILLER), "127.0.0.1");

export default async function handle(changes) {
  for (const change of changes) {
    const named = `${process.pid} ${change.partitionKey[0]} ${change.document.number}\n`;
    writeSync(journal, `begin ${named}`);
    killer.write(`${process.pid}\n`);
    await once(killer, "data");
    writeSync(journal, `end ${named}`);
  }
}
