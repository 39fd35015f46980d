// Tests of functions: one call, and its verdict as Halley reads it; and convergence by
// seeds. The types are in testing.d.ts.

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { answer, changesOf, describe, Verdict } from "./index.js";

/** Returns a change. */
export function change(operation, document, key = [], { id, previous = null } = {}) {
  return {
    index: 0,
    id: id ?? String(document?.id ?? ""),
    partitionKey: Array.isArray(key) ? key : [key],
    operation,
    lsn: 1,
    time: "2026-01-01T00:00:00Z",
    document,
    previous,
  };
}

export const upsert = (document, key) => change("upsert", document, key);
export const create = (document, key) => change("create", document, key);
export const replace = (document, previous, key) => change("replace", document, key, { previous });
export const remove = (id, key) => change("delete", null, key, { id });

/** Calls the function as Halley does, and returns its verdict. Errors of the function are in it. */
export async function deliver(handle, changes, { attempt = 1, epoch = 1 } = {}) {
  const numbered = changes.map((each, index) => ({ ...each, index, lsn: each.lsn + index }));
  const context = contextOf({ function: "test", range: "0", epoch, attempt, call: 1 });
  return verdictOf(numbered, await reply(handle, numbered, context));
}

function contextOf(request) {
  const ignore = () => {};
  return {
    function: request.function, range: request.range, epoch: request.epoch, attempt: request.attempt, call: request.call,
    traceparent: "", deadline: null, signal: new AbortController().signal,
    log: { debug: ignore, info: ignore, warn: ignore, error: ignore },
  };
}

async function reply(handle, changes, context) {
  try {
    return answer(context.call, await handle(changes, context), changes);
  } catch (error) {
    return error instanceof Verdict ? answer(context.call, error, changes) : { call: context.call, error: describe(error) };
  }
}

function verdictOf(changes, message) {
  let results = message.results ?? [];
  if (message.error !== undefined) {
    const first = message.failedFrom ?? 0;
    results = changes.filter(({ index }) => index >= first).map(({ index }) => ({ status: "retry", ...message, index }));
  }
  results = [...results].sort((a, b) => a.index - b.index);
  const final = results.every(({ status }) => status === "skip");
  const idOf = ({ index }) => changes[index].id;
  const failed = new Set(results.map(({ index }) => index));
  const isPostponed = ({ retryAfter }) => retryAfter !== undefined;
  return {
    error: [...new Set(results.map(({ error }) => error))].join("; "),
    handled: changes.filter(({ index }) => !failed.has(index)).map(({ id }) => id),
    skipped: final ? results.map(idOf) : [],
    postponed: Object.fromEntries(results.filter(isPostponed).map((result) => [idOf(result), result.retryAfter])),
    retried: final ? [] : results.filter((result) => !isPostponed(result)).map(idOf),
  };
}

/** Tests that the sink of a function ends up the same whatever happens on the way. */
export async function converges({ open, document, want, partitionKey = "/key", ...options }) {
  const halley = spawn(binary(), ["test"], { stdio: ["pipe", "pipe", "inherit"] });
  const send = (message) => halley.stdin.write(`${JSON.stringify(message)}\n`);
  send({ partitionKey, want: want !== undefined, seeds: 20, ...options });
  const kit = kitOf({ open, document, want });
  for await (const line of createInterface({ input: halley.stdout, crlfDelay: Infinity })) {
    const question = JSON.parse(line);
    if (question.ask === "done") {
      halley.stdin.end();
      if (question.failure) throw new Error(question.failure);
      return;
    }
    try {
      send({ value: (await kit[question.ask](question)) ?? null });
    } catch (error) {
      send({ error: String(error?.stack ?? error) });
    }
  }
  throw new Error("halley test has ended without a result: it tells the reason on standard error");
}

/** Returns the binary of the npm package, or that in PATH. */
function binary() {
  const name = process.platform === "win32" ? "halley.exe" : "halley";
  const own = fileURLToPath(new URL(`bin/${name}`, import.meta.url));
  return existsSync(own) ? own : name;
}

/** Answers the questions of halley test. */
function kitOf({ open, document, want }) {
  const processes = new Map();
  let sink;
  return {
    open: async () => void (sink = await open()),
    start: async ({ process }) => void processes.set(process, await sink.start()),
    call: ({ process, request }) => reply(processes.get(process), changesOf(request), contextOf(request)),
    async stop({ process }) {
      const handle = processes.get(process);
      processes.delete(process);
      await sink.stop?.(handle);
    },
    state: () => sink.state(),
    want: ({ documents = [] }) => want(documents),
    document: ({ random = 0, id, key }) => document(randomOf(random), id, key),
  };
}

/** Returns a source of numbers from 0 to 1, which repeat with the seed (mulberry32). */
function randomOf(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}
