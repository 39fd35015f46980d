/** Functions that Halley calls with the changes of an Azure Cosmos DB container. */

/** One change of a document. */
export interface Change<Document = Record<string, unknown>> {
  /** The place in the call. */
  readonly index: number;
  /** The document's id. */
  readonly id: string;
  /** The values of the partition key. One that the document lacks is {}. */
  readonly partitionKey: readonly unknown[];
  /** upsert; in all-versions mode create, replace, delete or expire; delete for a soft delete. */
  readonly operation: "upsert" | "create" | "replace" | "delete" | "expire";
  /** The position in the range. With the epoch of the context it orders the versions of a document. */
  readonly lsn: number;
  /** The time at which the document was written, in ISO 8601. */
  readonly time: string;
  /** The document after the change; null for a delete in all-versions mode. */
  readonly document: Document | null;
  /** The document before the change; null if the service does not say. */
  readonly previous: Document | null;
}

/** A logger whose lines are in Halley's log. */
export interface Log {
  debug(message: string, fields?: Record<string, unknown>): void;
  info(message: string, fields?: Record<string, unknown>): void;
  warn(message: string, fields?: Record<string, unknown>): void;
  error(message: string, fields?: Record<string, unknown>): void;
}

/** One call of the function. */
export interface Context {
  readonly function: string;
  readonly range: string;
  /** Acquisitions of the range so far. */
  readonly epoch: number;
  /** 1 on the first delivery of these changes. */
  readonly attempt: number;
  readonly call: number;
  /** W3C Trace Context; "" if the call is not traced. */
  readonly traceparent: string;
  /** The process is killed then; null if the call has no deadline. */
  readonly deadline: Date | null;
  /** Aborted when Halley cancels the call: the host stops or has lost the range. */
  readonly signal: AbortSignal;
  readonly log: Log;
}

/** A verdict on changes, to be thrown or returned. */
export abstract class Verdict extends Error {
  readonly changes: readonly Change<any>[];
}

/** These changes failed, and all others were handled. Without changes, the whole batch failed. */
export class Failed extends Verdict {
  constructor(error: unknown, ...changes: Change<any>[]);
}

/** The batch was handled up to this change, but not including it. */
export class FailedFrom extends Verdict {
  constructor(error: unknown, first: Change<any>);
}

/** The changes, or the batch, can be handled after so many seconds and not before. */
export class RetryAfter extends Verdict {
  constructor(error: unknown, seconds: number, ...changes: Change<any>[]);
  readonly seconds: number;
}

/** The changes, or the batch, can never be handled: they become dead letters at once. */
export class Skip extends Verdict {
  constructor(error: unknown, ...changes: Change<any>[]);
}

/** Nothing if all changes are handled, or verdicts. */
export type Result = void | undefined | null | Verdict | readonly Verdict[];

/** The default export of a function's module. Any other error that it throws fails the whole batch. */
export type Handler<Document = Record<string, unknown>> = (
  changes: readonly Change<Document>[],
  context: Context,
) => Result | Promise<Result>;
