// Queries over several ranges: the SDK asks for a plan, sends the rewritten query
// to each range and puts the results together. What it must find is computed here.
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { connect, merge, newContainer, sorted, split } from "./account.mjs";

const cities = ["Oslo", "Bern", "Rome", "Bonn", "Nice"];
const people = Array.from({ length: 60 }, (_, i) => ({
  id: `${i}`.padStart(2, "0"),
  pk: `key${i % 23}`,
  city: cities[i % 5],
  n: (i * 37) % 61,
  tags: [`t${i % 3}`, "all"],
}));
const byNumber = people.toSorted((a, b) => a.n - b.n);
const ids = (list) => list.map((p) => p.id);

let container;

before(async () => {
  container = await newContainer("queries", 4);
  await Promise.all(people.map((p) => container.items.create(p)));
});

const ask = async (query, options, ...parameters) => {
  const spec = { query, parameters: parameters.map(([name, value]) => ({ name, value })) };
  return (await container.items.query(spec, options).fetchAll()).resources;
};

test("filters", async () => {
  assert.deepEqual(sorted(await ask("SELECT VALUE c.id FROM c WHERE c.n < 10")), sorted(ids(people.filter((p) => p.n < 10))));
  assert.deepEqual(sorted(await ask("SELECT VALUE c.id FROM c WHERE c.city = @city AND STARTSWITH(c.id, '1')", {}, ["@city", "Rome"])), ["12", "17"]);
  assert.equal((await ask("SELECT t AS tag, c.id FROM c JOIN t IN c.tags WHERE t != 'all'")).length, 60);
  assert.equal((await ask("SELECT * FROM c WHERE c.none = 1")).length, 0);
});

test("one key", async () => {
  const want = people.filter((p) => p.pk === "key3").toReversed();
  for (const options of [{}, { forceQueryPlan: true }]) {
    assert.deepEqual(await ask("SELECT VALUE c.id FROM c WHERE c.pk = 'key3' ORDER BY c.id DESC", options), ids(want));
  }
  assert.deepEqual(await ask("SELECT VALUE c.id FROM c ORDER BY c.id DESC", { partitionKey: "key3" }), ids(want));
  assert.deepEqual(await ask("SELECT VALUE COUNT(1) FROM c", { partitionKey: "key3" }), [3]);
});

test("order", async () => {
  assert.deepEqual(await ask("SELECT VALUE c.id FROM c ORDER BY c.n"), ids(byNumber));
  assert.deepEqual((await ask("SELECT * FROM c ORDER BY c.n DESC", { maxItemCount: 7 })).map((p) => p.n), byNumber.toReversed().map((p) => p.n));
  assert.deepEqual(await ask("SELECT c.id, c.city FROM c WHERE c.n > 20 ORDER BY c.city DESC, c.n ASC"), byNumber.filter((p) => p.n > 20).toSorted((a, b) => (a.city < b.city ? 1 : a.city > b.city ? -1 : 0)).map(({ id, city }) => ({ id, city })));
  assert.deepEqual(await ask("SELECT VALUE c.id FROM c ORDER BY c.none"), []);
});

test("top, offset and limit", async () => {
  assert.deepEqual(await ask("SELECT TOP 7 VALUE c.id FROM c ORDER BY c.n"), ids(byNumber.slice(0, 7)));
  assert.deepEqual(await ask("SELECT VALUE c.id FROM c ORDER BY c.n OFFSET 5 LIMIT @n", {}, ["@n", 10]), ids(byNumber.slice(5, 15)));
  assert.equal((await ask("SELECT TOP 7 * FROM c")).length, 7);
  assert.equal((await ask("SELECT * FROM c OFFSET 55 LIMIT 10")).length, 5);
});

test("aggregates", async () => {
  const sum = people.reduce((total, p) => total + p.n, 0);
  assert.deepEqual(await ask("SELECT VALUE COUNT(1) FROM c"), [60]);
  assert.deepEqual(await ask("SELECT VALUE COUNT(1) FROM c WHERE c.n < 0"), [0]);
  assert.deepEqual(await ask("SELECT VALUE SUM(c.n) FROM c"), [sum]);
  assert.deepEqual(await ask("SELECT VALUE AVG(c.n) FROM c"), [sum / 60]);
  assert.deepEqual(await ask("SELECT VALUE MIN(c.n) FROM c WHERE c.n > 3"), [Math.min(...people.map((p) => p.n).filter((n) => n > 3))]);
  assert.deepEqual(await ask("SELECT VALUE MAX(c.city) FROM c"), ["Rome"]);
  assert.deepEqual(await ask("SELECT VALUE MAX(c.none) FROM c"), []);
  assert.deepEqual(await ask("SELECT COUNT(1) AS count, SUM(c.n) AS sum, AVG(c.n) FROM c"), [{ count: 60, sum, $1: sum / 60 }]);
});

test("groups", async () => {
  const groups = await ask("SELECT c.city, COUNT(1) AS count, MAX(c.n) AS most FROM c GROUP BY c.city");
  const want = cities.map((city) => ({ city, count: 12, most: Math.max(...people.filter((p) => p.city === city).map((p) => p.n)) }));
  assert.deepEqual(groups.toSorted((a, b) => (a.city < b.city ? -1 : 1)), want.toSorted((a, b) => (a.city < b.city ? -1 : 1)));
  assert.deepEqual(await ask("SELECT VALUE COUNT(1) FROM c GROUP BY c.city"), [12, 12, 12, 12, 12]);
  assert.deepEqual(sorted(await ask("SELECT VALUE c.city FROM c GROUP BY c.city")), sorted(cities));
});

test("distinct", async () => {
  assert.deepEqual(sorted(await ask("SELECT DISTINCT VALUE c.city FROM c")), sorted(cities));
  assert.deepEqual(await ask("SELECT DISTINCT VALUE c.city FROM c ORDER BY c.city"), sorted(cities));
  assert.equal((await ask("SELECT DISTINCT c.city, c.tags[0] AS tag FROM c")).length, 15);
});

// No range holds a multiple of nine items: after a full page at the end of a range
// the SDK's token asks that range again for ever.
test("pages and continuation", async () => {
  for (const [query, want] of [
    ["SELECT * FROM c ORDER BY c.n", ids(byNumber)],
    ["SELECT * FROM c", sorted(ids(people))],
  ]) {
    const found = [];
    let continuationToken;
    do {
      const iterator = container.items.query(query, { maxItemCount: 9, enableQueryControl: true, continuationToken });
      const page = await iterator.fetchNext();
      found.push(...ids(page.resources));
      continuationToken = page.continuationToken;
    } while (continuationToken && found.length <= want.length);
    assert.deepEqual(query.includes("ORDER") ? found : sorted(found), want);
  }
});

// A client of its own: one that knows ranges which are gone asks for them without end.
test("after a split and a merge", async () => {
  const children = await split(container, "0");
  const { id } = container;
  container = connect().database("tests").container(id);
  assert.deepEqual(await ask("SELECT VALUE c.id FROM c ORDER BY c.n"), ids(byNumber));
  await merge(container, children[1], "1");
  container = connect().database("tests").container(id);
  assert.deepEqual(await ask("SELECT VALUE c.id FROM c ORDER BY c.n"), ids(byNumber));
  assert.deepEqual(await ask("SELECT VALUE COUNT(1) FROM c"), [60]);
});

// Node.js reads headers as Latin-1: a continuation must not hold other characters.
test("ordered pages with keys that are not ASCII", async () => {
  const names = ["ü", "ü", "ü", "ü", "z", "z", "a"];
  await Promise.all(names.map((name, i) => container.items.create({ id: `name${i}`, pk: "names", name })));
  for (const maxItemCount of [1, 3]) {
    for (const options of [{ partitionKey: "names" }, { enableQueryControl: true }]) {
      const found = [];
      let continuationToken;
      do {
        const iterator = container.items.query("SELECT VALUE c.name FROM c WHERE IS_DEFINED(c.name) ORDER BY c.name", { ...options, maxItemCount, continuationToken });
        const page = await iterator.fetchNext();
        found.push(...(page.resources ?? []));
        continuationToken = page.continuationToken;
      } while (continuationToken && found.length <= names.length);
      assert.deepEqual(found, ["a", "z", "z", "ü", "ü", "ü", "ü"]);
    }
  }
});

test("conditional counts, lists and sets", async () => {
  const [result] = await ask("SELECT COUNTIF(c.n > 20) AS many, MAKELIST(c.city) AS list FROM c WHERE IS_DEFINED(c.city)");
  assert.equal(result.many, people.filter((p) => p.n > 20).length);
  assert.deepEqual(sorted(result.list), sorted(people.map((p) => p.city)));
});

test("counts of distinct results need an ability that the SDK lacks", async () => {
  await assert.rejects(ask("SELECT COUNT(DISTINCT c.city) AS n FROM c"), /Query contained DCount, which the calling client does not support/);
});

test("the most similar vectors", async () => {
  const vectors = await newContainer("vectors", 3, {
    vectorEmbeddingPolicy: { vectorEmbeddings: [{ path: "/v", dataType: "float32", distanceFunction: "euclidean", dimensions: 2 }] },
    indexingPolicy: { vectorIndexes: [{ path: "/v", type: "flat" }] },
  });
  await Promise.all(Array.from({ length: 30 }, (_, i) => vectors.items.create({ id: `${i}`, pk: `${i}`, v: [i, 0] })));
  const { resources } = await vectors.items.query("SELECT TOP 3 c.id, VectorDistance(c.v, [7.4, 0]) AS distance FROM c ORDER BY VectorDistance(c.v, [7.4, 0])").fetchAll();
  assert.deepEqual(ids(resources), ["7", "8", "6"]);
});

test("computed properties", async () => {
  const computed = await newContainer("computed", 2, {
    computedProperties: [{ name: "cp_lower", query: "SELECT VALUE LOWER(c.name) FROM c" }],
  });
  await Promise.all(["Bo", "AL", "cy"].map((name) => computed.items.create({ id: name, pk: name, name })));
  const { resources } = await computed.items.query("SELECT VALUE c.cp_lower FROM c WHERE c.cp_lower != 'cy' ORDER BY c.cp_lower").fetchAll();
  assert.deepEqual(resources, ["al", "bo"]);
});
