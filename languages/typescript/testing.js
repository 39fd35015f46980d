// Tests of functions: one call, and its verdict as Halley reads it. The types are in
// testing.d.ts.

import { answer, describe, Verdict } from "./index.js";

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
  const ignore = () => {};
  const context = {
    function: "test", range: "0", epoch, attempt, call: 1, traceparent: "", deadline: null,
    signal: new AbortController().signal, log: { debug: ignore, info: ignore, warn: ignore, error: ignore },
  };
  return verdictOf(numbered, await reply(handle, numbered, context));
}

async function reply(handle, changes, context) {
  try {
    return answer(1, await handle(changes, context), changes);
  } catch (error) {
    return error instanceof Verdict ? answer(1, error, changes) : { error: describe(error) };
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
