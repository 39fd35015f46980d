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

/** A sink, as the processes of one run see it. */
export interface Sink {
  /** Returns the function as a new process makes it: it remembers nothing of another one. */
  start(): Handler<any> | Promise<Handler<any>>;
  /** Called after the last call of a function. */
  stop?(handle: Handler<any>): void | Promise<void>;
  /** Returns the content of the sink, without what may differ from run to run. */
  state(): unknown;
}

export interface Scenario {
  /** Returns an empty sink. */
  open(): Sink | Promise<Sink>;
  /** Returns a version of a document, from random alone: numbers from 0 to 1. */
  document(random: () => number, id: string, key: string): object;
  /** Returns the state that the sink must have, from the documents that exist at the end. */
  want?(documents: any[]): unknown;
  partitionKey?: string;
  softDeleteProperty?: string;
  allVersions?: boolean;
  blockKeys?: boolean;
  writeOnce?: boolean;
  /** The number of seeds: 20. */
  seeds?: number;
  /** The only seed that runs, to repeat a failure. */
  seed?: number;
}

/**
 * Tests that the sink of a function ends up the same whatever happens on the way. Halley
 * delivers a history of documents on an embedded account, once plainly and then with
 * redeliveries, crashes, late deliveries, failures and splits, by seeds that are always the
 * same. A failure names its seed.
 */
export function converges(scenario: Scenario): Promise<void>;
