// Serves one function to Halley: node node_modules/halley/run.js MODULE[:EXPORT]

import { isAscii } from "node:buffer";
import { writeSync } from "node:fs";
import { Socket } from "node:net";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

import { answer, changesOf, describe, Verdict } from "./index.js";

const version = 2; // of the protocol
const oldest = 20; // Node.js

/** Ends the process before it is ready. Halley shows the text. */
function refuse(text) {
  console.error(text);
  process.exit(1);
}

/** The channel that Halley has given this process: lines of JSON on two descriptors. */
function openChannel() {
  const named = process.env.HALLEY_CHANNEL;
  delete process.env.HALLEY_CHANNEL;
  if (!named) refuse("run.js is started by halley: set HALLEY_<FUNCTION>_COMMAND to this command, and run halley dev");
  const [reader, writer] = named.split(",").map(Number);
  if (reader === 0) process.stdout.write = process.stderr.write.bind(process.stderr); // console.log goes to the log
  return {
    reader,
    send(message) {
      const text = Buffer.from(`${JSON.stringify(message)}\n`);
      for (let sent = 0; sent < text.length; ) sent += writeSync(writer, text, sent);
    },
  };
}

/**
 * Calls take with each line that is read, and end at the end. Lines may have megabytes, for
 * which node:readline is slow, and so is a stream: it allocates each chunk that it reads.
 */
function eachLine(reader, take, end) {
  let buffer = Buffer.allocUnsafeSlow(1 << 20); // as much as Halley's pipe has
  let filled = 0;
  const receive = (count) => {
    let start = 0;
    const received = buffer.subarray(0, filled + count);
    for (let stop = received.indexOf(10, filled); stop >= 0; stop = received.indexOf(10, start)) {
      take(textOf(received.subarray(start, stop)));
      start = stop + 1;
    }
    if (start > 0) received.copyWithin(0, start);
    filled = received.length - start;
    return true;
  };
  const room = () => {
    if (filled === buffer.length) buffer = Buffer.concat([buffer], 2 * filled);
    return buffer.subarray(filled);
  };
  new Socket({ fd: reader, readable: true, writable: false, onread: { buffer: room, callback: receive } }).on("close", end).resume();
}

/** Decodes bytes. Most requests are ASCII, which is decoded in a sixth of the time of UTF-8. */
function textOf(bytes) {
  return bytes.toString(isAscii(bytes) ? "latin1" : "utf8");
}

/** Returns the function of MODULE[:EXPORT]. */
async function load(name) {
  const [, file, exportName = "default"] = /^(.+?)(?::([\w$]+))?$/.exec(name);
  const module = await import(pathToFileURL(resolve(file)).href);
  const found = module[exportName];
  if (typeof found !== "function") {
    const fix = exportName === "default" ? "export default function handle(changes) {…}" : `export function ${exportName}(changes) {…}`;
    refuse(`${file} has no function as ${exportName} export: write ${fix}`);
  }
  if (found.length > 2) {
    refuse(`the function ${found.name} of ${file} has ${found.length} parameters: it must take (changes) or (changes, context)`);
  }
  return found;
}

/** Returns the error and the lines of the function that led to it. */
function describeThrown(error) {
  const own = new URL(".", import.meta.url).href;
  const frames = String(error?.stack ?? "").split("\n").filter((line) => /^\s+at /.test(line) && !line.includes(own) && !line.includes("node:"));
  return [describe(error), ...frames].join("\n");
}

function contextOf(request, signal, log) {
  return {
    function: request.function,
    range: request.range,
    epoch: request.epoch,
    attempt: request.attempt,
    call: request.call,
    traceparent: request.traceparent ?? "",
    deadline: request.deadline ? new Date(request.deadline) : null,
    signal,
    log,
  };
}

async function reply(handle, request, context) {
  const { call } = request;
  const changes = changesOf(request);
  if (changes.length === 0) return { call }; // the command check tries the function
  try {
    return answer(call, await handle(changes, context), changes);
  } catch (error) {
    if (!(error instanceof Verdict)) return { call, error: describeThrown(error) };
    try {
      return answer(call, error, changes);
    } catch (misuse) {
      return { call, error: describeThrown(misuse) };
    }
  }
}

/** Returns a logger of Halley's log. */
function logOf({ send }) {
  const write = (level) => (message, fields = {}) => send({ log: { level, message: String(message), fields } });
  return { debug: write("debug"), info: write("info"), warn: write("warn"), error: write("error") };
}

function serve(channel, handle) {
  const log = logOf(channel);
  let running = null; // the call that the function has: its number and how to abort it
  const take = async (line) => {
    const request = JSON.parse(line);
    if (request.cancel !== undefined) {
      if (running?.call === request.cancel) running.abort.abort(new Error("Halley has cancelled the call"));
      return;
    }
    const abort = new AbortController();
    running = { call: request.call, abort };
    const message = await reply(handle, request, contextOf(request, abort.signal, log));
    running = null;
    channel.send(message);
  };
  // If Halley is gone in a call, its changes are another process's by now.
  eachLine(channel.reader, take, () => process.exit(running ? 1 : 0));
  channel.send({ ready: version });
}

if (Number(process.versions.node.split(".")[0]) < oldest) {
  refuse(`halley needs Node.js ${oldest} or later, and this is ${process.versions.node}: name a newer node in the command`);
}
if (process.argv.length !== 3) refuse("usage: node node_modules/halley/run.js MODULE[:EXPORT]");
const channel = openChannel();
serve(channel, await load(process.argv[2]));
