// A function that does what the property "do" of its first document says.
import { execSync, spawn } from "node:child_process";
import { writeSync } from "node:fs";

import { Failed, FailedFrom, RetryAfter, Skip } from "../../../languages/typescript/index.js";

const verdicts = {
  failed: (changes) => [new Failed("busy", changes[0], changes[2])],
  "failed from": (changes) => new FailedFrom("from here", changes[1]),
  "retry after": (changes) => [new RetryAfter("tomorrow", 3600, changes[1])],
  "retry all after": () => new RetryAfter("tomorrow", 3600),
  skip: (changes) => [new Skip(new RangeError("no total"), changes[0])],
  "skip all": () => new Skip("never"),
  garbage: () => "x".repeat(6 << 20),
  "a dictionary": () => ({ status: "ok" }),
  "a foreign change": () => [new Failed("busy", { index: 0, id: "?" })],
  "two on the batch": () => [new Failed("busy"), new Skip("never")],
  none: () => null,
};

const forever = () => new Promise((resolve) => setTimeout(resolve, 3_600_000));

const actions = {
  print(changes, context) {
    console.log("printed");
    console.error("complained");
    execSync("echo from a child", { stdio: "inherit" });
    context.log.warn("logged 7", { order: changes[0].id });
  },
  context(changes, context) {
    console.log(`${context.function} ${context.range} ${context.epoch} ${context.attempt} ${context.traceparent} ${context.deadline > new Date() ? "True" : "False"}`);
  },
  raise() {
    throw new TypeError("total");
  },
  "raise a verdict"(changes) {
    throw new Skip("never", changes[1]);
  },
  "raise 6 MB"() {
    throw new Error("x".repeat(6 << 20));
  },
  exit() {
    console.error("leaving");
    process.exit(3);
  },
  die: () => process.kill(process.pid, "SIGKILL"),
  hang() {
    spawn("sleep", ["3600"], { stdio: "inherit" });
    for (;;);
  },
  "answer twice": (changes, { call }) => void writeSync(4, `{"call":${call}}\n{"call":${call}}\n`),
  "write garbage": () => void writeSync(4, "hello\n"),
  "write 6 MB": () => void writeSync(4, `${"x".repeat(6 << 20)}\n`),
  wait(changes, { signal }) {
    console.log("waiting");
    return Promise.race([forever(), new Promise((resolve) => signal.addEventListener("abort", () => resolve()))]);
  },
};

const wish = (changes) => changes[0].document.do;

export default function handle(changes, context) {
  const todo = wish(changes);
  return verdicts[todo] ? verdicts[todo](changes) : actions[todo]?.(changes, context);
}

export async function handle_async(changes, { signal }) {
  if (wish(changes) === "raise") throw new TypeError("total");
  if (wish(changes) === "wait") {
    console.log("waiting");
    await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  }
}

export const handle_documents = (changes) => void wish(changes);

export function handle_three(changes, context, more) {}

export const not_a_function = 7;
