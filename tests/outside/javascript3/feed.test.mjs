// The legacy iterator of the change feed: of one partition key, done at 304.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

const { CosmosClient } = createRequire(`${process.env.OUTSIDE_PACKAGES}/`)("@azure/cosmos");
const client = new CosmosClient({ endpoint: process.env.OUTSIDE_ENDPOINT, key: process.env.OUTSIDE_KEY });

let container;
let next = 0;

async function write(n) {
  const ids = [];
  for (const end = next + n; next < end; next++) {
    await container.items.create({ id: `${next}`, pk: next % 2 ? "odd" : "even" });
    if (next % 2) {
      ids.push(`${next}`);
    }
  }
  return ids;
}

before(async () => {
  const { database } = await client.databases.createIfNotExists({ id: "tests" });
  ({ container } = await database.containers.createIfNotExists({ id: "feed", partitionKey: "/pk", throughput: 20000 }));
});

// drain reads until the iterator says that there is no more.
async function drain(iterator) {
  const found = [];
  for (;;) {
    const page = await iterator.fetchNext();
    found.push(...page.result.map((item) => item.id));
    assert.equal(iterator.hasMoreResults, page.statusCode !== 304);
    if (page.statusCode === 304) {
      return { found, continuation: page.continuation };
    }
    assert.equal(page.statusCode, 200);
  }
}

test("from the beginning to 304, and on from its etag", async () => {
  const first = await write(30);
  const { found, continuation } = await drain(container.items.changeFeed("odd", { startFromBeginning: true, maxItemCount: 4 }));
  assert.deepEqual(found, first);
  const more = await write(10);
  assert.deepEqual((await drain(container.items.changeFeed("odd", { continuation }))).found, more);
});

test("the async iterator ends", async () => {
  const found = [];
  for await (const page of container.items.changeFeed("odd", { startFromBeginning: true }).getAsyncIterator()) {
    found.push(...page.result);
  }
  assert.equal(found.length, next / 2);
});

test("from now, and again after 304", async () => {
  const iterator = container.items.changeFeed("odd", {});
  assert.deepEqual((await drain(iterator)).found, []);
  const more = await write(10);
  assert.deepEqual((await drain(iterator)).found, more);
});

test("from a time", async () => {
  await sleep(1100); // times of the feed are whole seconds
  const startTime = new Date();
  await sleep(1100);
  const more = await write(10);
  assert.deepEqual((await drain(container.items.changeFeed("odd", { startTime }))).found, more);
});

test("ordered pages with keys that are not ASCII", async () => {
  const names = ["ü", "ü", "ü", "ü", "z", "z", "a"];
  await Promise.all(names.map((name, i) => container.items.create({ id: `name${i}`, pk: "names", name })));
  for (const maxItemCount of [1, 3]) {
    const found = [];
    let continuationToken;
    do {
      const iterator = container.items.query("SELECT VALUE c.name FROM c ORDER BY c.name", { partitionKey: "names", maxItemCount, continuationToken });
      const page = await iterator.fetchNext();
      found.push(...page.resources);
      continuationToken = page.continuationToken;
    } while (continuationToken && found.length <= names.length);
    assert.deepEqual(found, ["a", "z", "z", "ü", "ü", "ü", "ü"]);
  }
});

test("groups", async () => {
  const query = "SELECT c.name, COUNT(1) AS count FROM c WHERE IS_DEFINED(c.name) GROUP BY c.name";
  const { resources } = await container.items.query(query).fetchAll();
  assert.deepEqual(
    resources.sort((a, b) => (a.name < b.name ? -1 : 1)),
    [{ name: "a", count: 1 }, { name: "z", count: 2 }, { name: "ü", count: 4 }],
  );
});
