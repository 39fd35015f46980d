// Verdicts of a function, and how they become an answer. The types are in index.d.ts.

const maxError = 16 << 10; // characters; Halley shows fewer

/** A verdict on changes: Failed, FailedFrom, RetryAfter or Skip. */
export class Verdict extends Error {
  constructor(error, ...changes) {
    super(describe(error));
    if (new.target === Verdict) throw new TypeError("Verdict is a base class: use Failed, FailedFrom, RetryAfter or Skip");
    this.name = new.target.name;
    this.status = "retry";
    this.changes = changes;
  }

  fields() {
    return { status: this.status, error: this.message };
  }
}

export class Failed extends Verdict {}

export class FailedFrom extends Verdict {
  constructor(error, first) {
    super(error, first);
  }
}

export class RetryAfter extends Verdict {
  constructor(error, seconds, ...changes) {
    super(error, ...changes);
    if (!(typeof seconds === "number" && seconds > 0)) {
      throw new TypeError(`new RetryAfter(${JSON.stringify(this.message)}, ${String(seconds)}): the seconds must be a number above 0`);
    }
    this.seconds = seconds;
  }

  fields() {
    return { ...super.fields(), retryAfter: this.seconds };
  }
}

export class Skip extends Verdict {
  constructor(error, ...changes) {
    super(error, ...changes);
    this.status = "skip";
  }
}

/** Returns the text of anything that was thrown. */
export function describe(error) {
  const named = error instanceof Error && !(error instanceof Verdict);
  const text = named ? `${error.name}: ${error.message}` : error instanceof Error ? error.message : String(error);
  return text.slice(0, maxError) || "failed without a message";
}

/** Returns the answer to a call. It throws a TypeError if the function returned something else. */
export function answer(call, returned, changes) {
  const verdicts = listOf(returned);
  for (const verdict of verdicts) {
    const stranger = verdict.changes.find((change) => !change || changes[change.index] !== change);
    if (stranger !== undefined || verdict.changes.includes(undefined)) {
      throw new TypeError(`${verdict.name} names ${show(stranger)}, which is not a change of this call`);
    }
  }
  const onBatch = verdicts.find((verdict) => verdict instanceof FailedFrom || verdict.changes.length === 0);
  return onBatch ? whole(call, onBatch, verdicts.length) : { call, results: results(verdicts) };
}

/** Returns the changes of a call, which lists each field of all changes together. */
export function changesOf({ ids, partitionKeys, operations, lsns, times, documents, previous }) {
  return documents.map((document, index) => ({
    index,
    id: ids ? ids[index] : document.id, // without a list of ids the documents have them
    partitionKey: Array.isArray(partitionKeys[index]) ? partitionKeys[index] : [partitionKeys[index]],
    operation: operations ? operations[index] : "upsert",
    lsn: lsns[index],
    time: times[index],
    document,
    previous: previous ? previous[index] : null,
  }));
}

function listOf(returned) {
  if (returned === undefined || returned === null) return [];
  const verdicts = Array.isArray(returned) ? returned : [returned];
  if (verdicts.every((verdict) => verdict instanceof Verdict)) return verdicts;
  throw new TypeError(`the function returned ${show(returned)}: return nothing, or an array of Failed, FailedFrom, RetryAfter and Skip`);
}

function show(value) {
  let text;
  try {
    text = JSON.stringify(value) ?? String(value);
  } catch {
    text = String(value);
  }
  return text.length > 200 ? `${text.slice(0, 200)}…` : text;
}

/** Returns the answer of a verdict on the batch, or on all changes from one on. */
function whole(call, verdict, count) {
  if (count > 1) {
    throw new TypeError(`${verdict.name} (${verdict.message}) is a verdict on more than its changes: return no other with it`);
  }
  const first = verdict instanceof FailedFrom ? { failedFrom: verdict.changes[0].index } : {};
  return { call, ...verdict.fields(), ...first };
}

/** Returns the results of verdicts on changes. A change that is skipped and fails is delivered again. */
function results(verdicts) {
  const named = new Map();
  for (const verdict of verdicts) {
    for (const { index } of verdict.changes) {
      const earlier = named.get(index);
      if (!earlier || earlier.status === "skip") named.set(index, { index, ...verdict.fields() });
    }
  }
  return [...named.values()];
}
