// A function of the handler remote, over HTTP or standard input and output.
//
// It keeps the last version of each document in memory. A change is applied if its epoch
// is greater than that of the stored version, or equal with an LSN that is not smaller.
//
//	node function.mjs stdio
//	node function.mjs http    prints its port, then answers POST / and GET /state

import { createServer } from "node:http";
import { createInterface } from "node:readline";

const documents = new Map();

/** Returns the answer to a request. */
function handle(request) {
  const results = [];
  for (const change of request.changes) {
    const deleted = change.operation === "delete" || change.operation === "expire";
    const document = deleted ? null : change.document;
    if (document?.do === "retry" || document?.do === "skip") {
      results.push({ index: change.index, status: document.do, error: `asked for ${document.do}` });
      continue;
    }
    const key = JSON.stringify([change.partitionKey, change.id]);
    const last = documents.get(key);
    if (!last || request.epoch > last.epoch || (request.epoch === last.epoch && change.lsn >= last.lsn)) {
      documents.set(key, { epoch: request.epoch, lsn: change.lsn, document });
    }
  }
  return { call: request.call, results };
}

function state() {
  return [...documents.keys()].sort().map((key) => documents.get(key).document).filter(Boolean);
}

/** The fault that the first document asks for, to test the handler. */
const wanted = (request) => request.changes[0]?.document?.fault;

async function stdio() {
  for await (const line of createInterface({ input: process.stdin })) {
    const request = JSON.parse(line);
    const fault = wanted(request);
    if (fault === "exit") {
      console.error("leaving");
      process.exit(3);
    }
    if (fault === "hang") await new Promise((resolve) => setTimeout(resolve, 3_600_000));
    if (fault === "noise") console.log("hello");
    console.log(fault === "empty" ? "" : JSON.stringify(handle(request)));
  }
}

async function body(message) {
  const parts = [];
  for await (const part of message) parts.push(part);
  return JSON.parse(Buffer.concat(parts));
}

function http() {
  const server = createServer(async (message, response) => {
    if (message.method === "GET") return response.end(JSON.stringify(state()));
    const request = await body(message);
    const fault = wanted(request);
    if (fault === "hang") return;
    const status = fault ? Number(fault) : 200;
    if (status === 429 || status === 503) response.setHeader("Retry-After", "1");
    response.statusCode = status;
    response.end(JSON.stringify(status === 200 ? handle(request) : { error: "asked for it" }));
  });
  server.listen(0, "127.0.0.1", () => console.log(server.address().port));
}

({ stdio, http })[process.argv[2]]();
