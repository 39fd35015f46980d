/** Tests of functions: one call, and its verdict as Halley reads it. */

import type { Change, Handler } from "./index.js";

export function change(
  operation: Change["operation"],
  document: object | null,
  key?: unknown,
  options?: { id?: string; previous?: object | null },
): Change<any>;
export function upsert(document: object, key?: unknown): Change<any>;
export function create(document: object, key?: unknown): Change<any>;
export function replace(document: object, previous: object, key?: unknown): Change<any>;
export function remove(id: string, key?: unknown): Change<any>;

/** The verdict of a call. The lists have the ids of documents, in the order of the call. */
export interface Delivery {
  readonly error: string;
  readonly handled: string[];
  readonly retried: string[];
  readonly skipped: string[];
  /** Seconds by ids. */
  readonly postponed: Record<string, number>;
}

/** Calls the function as Halley does. Errors of the function are in the verdict. */
export function deliver(
  handle: Handler<any>,
  changes: readonly Change<any>[],
  options?: { attempt?: number; epoch?: number },
): Promise<Delivery>;
