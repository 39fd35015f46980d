// Shop is a client that knows nothing of Halley: it writes orders over the REST API of
// Azure Cosmos DB, with nothing but Node.js.
//
// Orders are placed at a steady rate and wait in a queue; workers write them. Commands
// come from standard input, one on each line, and each is answered by a JSON object on
// standard output:
//
//	pause                      finish the writes under way; later orders wait in the queue
//	resume CONTAINER PROPERTY  write to this container, whose partition key is /PROPERTY
//	stop                       place no more orders, write the queue, and end
//	compare A B                read both containers completely, and compare them
//	check CONTAINER            compare a container with all orders that were acknowledged
import { createHmac } from "node:crypto";
import { createInterface } from "node:readline";

const [endpoint, key, database, rate] = process.argv.slice(2);
const categories = ["books", "music", "games", "garden"];

async function send(method, type, parent, path, headers, body) {
  const date = new Date().toUTCString();
  const text = `${method}\n${type}\n${parent}\n${date}\n\n`.toLowerCase().replace(parent.toLowerCase(), parent);
  const signature = createHmac("sha256", Buffer.from(key, "base64")).update(text).digest("base64");
  const authorization = encodeURIComponent(`type=master&ver=1.0&sig=${signature}`);
  for (let attempt = 0; ; attempt++) {
    const response = await fetch(endpoint + path, {
      method, body, headers: { authorization, "x-ms-date": date, "x-ms-version": "2018-12-31", ...headers },
    });
    if (response.status === 429 && attempt < 20) {
      await response.arrayBuffer();
      await new Promise((done) => setTimeout(done, Number(response.headers.get("x-ms-retry-after-ms") ?? 10)));
      continue;
    }
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return response;
  }
}

function upsert(container, property, order) {
  const parent = `dbs/${database}/colls/${container}`;
  return send("POST", "docs", parent, `${parent}/docs`, {
    "x-ms-documentdb-is-upsert": "true",
    "x-ms-documentdb-partitionkey": JSON.stringify([order[property]]),
  }, JSON.stringify(order)).then((response) => response.arrayBuffer());
}

// read returns the documents of a container by their ids, without system properties and
// without the guard and the tombstones of the migration.
async function read(container) {
  const parent = `dbs/${database}/colls/${container}`;
  const found = new Map();
  let continuation;
  do {
    const headers = { "x-ms-max-item-count": "1000" };
    if (continuation) headers["x-ms-continuation"] = continuation;
    const response = await send("GET", "docs", parent, `${parent}/docs`, headers);
    for (const document of (await response.json()).Documents) {
      if (document._halley?.deleted) continue;
      for (const name of ["_rid", "_self", "_etag", "_attachments", "_ts", "_halley"]) delete document[name];
      if (found.has(document.id)) throw new Error(`${container} has two documents ${document.id}`);
      found.set(document.id, document);
    }
    continuation = response.headers.get("x-ms-continuation");
  } while (continuation);
  return found;
}

// canonical is the text of an order, whatever the order of its properties. The migration
// gives orders without a category the category "other".
const canonical = (order) => JSON.stringify(Object.entries({ category: "other", ...order }).sort());

function differences(a, b) {
  const different = [...a.keys()].filter((id) => !b.has(id) || canonical(a.get(id)) !== canonical(b.get(id)));
  return different.concat([...b.keys()].filter((id) => !a.has(id)));
}

const orders = new Map(); // as acknowledged, by id
const queue = [];
let target = { container: "orders", property: "customer" };
let paused = false, stopped = false, writing = 0, placed = 0, slowest = 0;

// place puts a new order into the queue, or a new version of one that was written. Before
// the move an order may change its category, which is its key afterwards.
function place() {
  const known = [...recent];
  let order;
  if (known.length > 20 && Math.random() < 0.5) {
    const former = known[Math.floor(Math.random() * known.length)];
    recent.delete(former);
    order = { ...orders.get(former), total: Math.round(Math.random() * 10000) / 100, version: orders.get(former).version + 1 };
    if (target.property === "customer" && Math.random() < 0.2) order.category = pick(categories);
  } else {
    order = { id: `order-${placed}`, customer: `customer-${placed % 97}`, total: Math.round(Math.random() * 10000) / 100, version: 1 };
    if (Math.random() < 0.8 || target.property === "category") order.category = pick(categories);
  }
  placed++;
  queue.push({ order, at: performance.now() });
}
const pick = (list) => list[Math.floor(Math.random() * list.length)];
const recent = new Set(); // ids of written orders that may get a new version

async function work() {
  while (!stopped || queue.length > 0) {
    if (paused || queue.length === 0) {
      await new Promise((done) => setTimeout(done, 2));
      continue;
    }
    const { order, at } = queue.shift();
    if (target.property === "category") { // it is the key now, and an order keeps it
      order.category = (orders.get(order.id) ?? order).category ?? "other";
    }
    writing++;
    await upsert(target.container, target.property, order);
    writing--;
    slowest = Math.max(slowest, performance.now() - at);
    orders.set(order.id, order);
    recent.add(order.id);
    if (recent.size > 500) recent.delete(recent.values().next().value);
  }
}

const answer = (fields) => console.log(JSON.stringify({ acknowledged: orders.size, placed, queued: queue.length, slowest: Math.round(slowest), ...fields }));
const until = async (condition) => {
  while (!condition()) await new Promise((done) => setTimeout(done, 2));
};

const began = performance.now();
const clock = setInterval(() => {
  while (placed < ((performance.now() - began) / 1000) * Number(rate)) place();
}, 5);
const workers = Array.from({ length: 6 }, work);
for (const worker of workers) worker.catch((e) => { console.error(e); process.exit(1); });

for await (const line of createInterface({ input: process.stdin })) {
  const [command, ...args] = line.split(" ");
  switch (command) {
    case "state":
      answer({});
      break;
    case "pause":
      paused = true;
      await until(() => writing === 0);
      answer({});
      break;
    case "resume":
      target = { container: args[0], property: args[1] };
      paused = false;
      answer({});
      break;
    case "compare": {
      const [a, b] = await Promise.all(args.map(read));
      answer({ documents: a.size, different: differences(a, b) });
      break;
    }
    case "stop":
      clearInterval(clock);
      stopped = true;
      await Promise.all(workers);
      answer({});
      break;
    case "check":
      answer({ documents: orders.size, different: differences(orders, await read(args[0])) });
      break;
  }
}
