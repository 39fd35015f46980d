// Databases, containers and items: every operation and its errors.
import assert from "node:assert/strict";
import { test } from "node:test";
import { BulkOperationType, PartitionKeyBuilder, client, newContainer, rejects, sorted } from "./account.mjs";

const ifMatch = (etag) => ({ accessCondition: { type: "IfMatch", condition: etag } });

test("account", async () => {
  const { resource } = await client.getDatabaseAccount();
  assert.equal(resource.consistencyPolicy, "Session");
  assert.equal(resource.writableLocations.length, 1);
});

test("databases", async () => {
  const { database, statusCode } = await client.databases.create({ id: "life" });
  assert.equal(statusCode, 201);
  await rejects(client.databases.create({ id: "life" }), 409);
  assert.equal((await client.databases.createIfNotExists({ id: "life" })).statusCode, 200);
  assert.equal((await database.read()).resource.id, "life");
  assert.ok((await client.databases.readAll().fetchAll()).resources.some((d) => d.id === "life"));
  const found = client.databases.query({ query: "SELECT * FROM d WHERE d.id = @id", parameters: [{ name: "@id", value: "life" }] });
  assert.equal((await found.fetchAll()).resources.length, 1);
  await database.delete();
  await rejects(database.read(), 404);
});

test("containers", async () => {
  const { database } = await client.databases.createIfNotExists({ id: "tests" });
  const { container, resource } = await database.containers.create({ id: "life", partitionKey: "/pk" });
  assert.deepEqual(resource.partitionKey.paths, ["/pk"]);
  assert.equal(resource.partitionKey.kind, "Hash");
  await rejects(database.containers.create({ id: "life", partitionKey: "/pk" }), 409);
  assert.equal((await container.replace({ ...resource, defaultTtl: 3600 })).resource.defaultTtl, 3600);
  assert.ok((await database.containers.readAll().fetchAll()).resources.some((c) => c.id === "life"));
  const found = database.containers.query("SELECT VALUE c.id FROM c WHERE c.id = 'life'");
  assert.deepEqual((await found.fetchAll()).resources, ["life"]);
  await container.delete();
  await rejects(container.read(), 404);
  await rejects(container.items.create({ id: "1", pk: "a" }), 404);
  const again = await database.containers.create({ id: "life", partitionKey: "/pk" });
  assert.notEqual(again.resource._rid, resource._rid);
});

test("throughput", async () => {
  const container = await newContainer("throughput");
  const { offer, resource } = await container.readOffer();
  assert.equal(resource.content.offerThroughput, 10000);
  resource.content.offerThroughput = 5000;
  await offer.replace(resource);
  assert.equal((await container.readOffer()).resource.content.offerThroughput, 5000);
});

test("autoscale", async () => {
  const { database } = await client.databases.createIfNotExists({ id: "tests" });
  const { container } = await database.containers.create({ id: "autoscale", partitionKey: "/pk", maxThroughput: 4000 });
  const { offer, resource } = await container.readOffer();
  assert.equal(resource.content.offerAutopilotSettings.maxThroughput, 4000);
  resource.content.offerAutopilotSettings.maxThroughput = 6000;
  await offer.replace(resource);
  const { resource: replaced } = await container.readOffer();
  assert.equal(replaced.content.offerAutopilotSettings.maxThroughput, 6000);
  assert.equal(replaced.content.offerMinimumThroughputParameters.maxThroughputEverProvisioned, 6000);
});

test("unique keys", async () => {
  const container = await newContainer("unique", 2, { uniqueKeyPolicy: { uniqueKeys: [{ paths: ["/email"] }] } });
  await container.items.create({ id: "1", pk: "a", email: "x" });
  await rejects(container.items.create({ id: "2", pk: "a", email: "x" }), 409);
  await rejects(container.items.upsert({ id: "2", pk: "a", email: "x" }), 409);
  await container.items.create({ id: "2", pk: "b", email: "x" });
});

test("items", async () => {
  const container = await newContainer("items", 2);
  const { resource, statusCode, item, etag, requestCharge } = await container.items.create({ id: "1", pk: "a", n: 1 });
  assert.equal(statusCode, 201);
  assert.equal(etag, resource._etag);
  assert.ok(requestCharge > 0);
  await rejects(container.items.create({ id: "1", pk: "a" }), 409);
  assert.equal((await container.items.create({ id: "1", pk: "b" })).statusCode, 201);
  assert.equal((await item.read()).resource.n, 1);
  assert.equal((await item.read({ accessCondition: { type: "IfNoneMatch", condition: etag } })).statusCode, 304);

  const replaced = await item.replace({ id: "1", pk: "a", n: 2 }, ifMatch(etag));
  assert.equal(replaced.statusCode, 200);
  await rejects(item.replace({ id: "1", pk: "a", n: 3 }, ifMatch(etag)), 412);
  assert.equal((await container.items.upsert({ id: "1", pk: "a", n: 4 })).statusCode, 200);
  assert.equal((await container.items.upsert({ id: "2", pk: "a" })).statusCode, 201);
  await rejects(container.items.upsert({ id: "1", pk: "a" }, ifMatch(etag)), 412);
  await rejects(container.item("1", "a").replace({ id: "1", pk: "b" }), 400);

  assert.equal((await container.items.readAll().fetchAll()).resources.length, 3);
  await rejects(item.delete(ifMatch(etag)), 412);
  assert.equal((await item.delete()).statusCode, 204);
  assert.equal((await item.read()).statusCode, 404);
  await rejects(item.delete(), 404);
  await rejects(container.items.create({ id: "large", pk: "a", text: "x".repeat(2 << 20) }), 413);
});

test("partition keys of all types", async () => {
  const container = await newContainer("keys", 3);
  for (const key of ["text", "", "žluť", 1, -0.5, 1e300, true, false, null]) {
    const id = `id ${JSON.stringify(key)}`.replaceAll(/[/\\?#]/g, "-");
    await container.items.create({ id, pk: key });
    assert.equal((await container.item(id, key).read()).resource.pk, key, JSON.stringify(key));
  }
  await container.items.create({ id: "none" });
  assert.equal((await container.item("none", undefined).read()).resource.id, "none");
});

test("hierarchical partition keys", async () => {
  const container = await newContainer("hierarchy", 3, {
    partitionKey: { paths: ["/tenant", "/user/id", "/session"], kind: "MultiHash", version: 2 },
  });
  for (let i = 0; i < 12; i++) {
    await container.items.create({ id: `${i}`, tenant: `t${i % 2}`, user: { id: i % 3 }, session: `s${i}` });
  }
  const key = new PartitionKeyBuilder().addValue("t1").addValue(2).addValue("s5").build();
  assert.equal((await container.item("5", key).read()).resource.session, "s5");
  const prefix = (...values) => container.items.query("SELECT VALUE c.id FROM c", { partitionKey: values }).fetchAll();
  assert.deepEqual(sorted((await prefix("t1", 2)).resources), ["11", "5"]);
  assert.equal((await prefix("t0")).resources.length, 6);
});

test("patch", async () => {
  const container = await newContainer("patch");
  const { item } = await container.items.create({ id: "1", pk: "a", n: 1, list: [1, 3], old: true, deep: { a: 1 } });
  const operations = [
    { op: "add", path: "/list/1", value: 2 },
    { op: "set", path: "/new", value: { x: 1 } },
    { op: "replace", path: "/deep/a", value: 2 },
    { op: "incr", path: "/n", value: 2.5 },
    { op: "remove", path: "/old" },
    { op: "move", from: "/deep", path: "/moved" },
  ];
  const { resource } = await item.patch(operations);
  const { n, list, moved, old, deep } = resource;
  assert.deepEqual({ n, list, new: resource.new, moved, old, deep }, { n: 3.5, list: [1, 2, 3], new: { x: 1 }, moved: { a: 2 }, old: undefined, deep: undefined });
  await rejects(item.patch([{ op: "replace", path: "/none", value: 1 }]), 400);
  const conditional = (condition) => item.patch({ condition, operations: [{ op: "incr", path: "/n", value: 1 }] });
  assert.equal((await conditional("from c where c.n = 3.5")).resource.n, 4.5);
  await rejects(conditional("from c where c.n = 3.5"), 412);
  await rejects(container.item("none", "a").patch(operations), 404);
});

test("transactional batch", async () => {
  const container = await newContainer("batch", 2);
  const create = (id) => ({ operationType: BulkOperationType.Create, resourceBody: { id, pk: "a" } });
  const done = await container.items.batch([create("1"), create("2"), { operationType: BulkOperationType.Read, id: "1" }, { operationType: BulkOperationType.Delete, id: "2" }], "a");
  assert.equal(done.code, 200);
  assert.deepEqual(done.result.map((r) => r.statusCode), [201, 201, 200, 204]);
  assert.equal(done.result[2].resourceBody.id, "1");

  const undone = await container.items.batch([create("3"), create("1"), create("4")], "a");
  assert.equal(undone.code, 207);
  assert.deepEqual(undone.result.map((r) => r.statusCode), [424, 409, 424]);
  assert.equal((await container.item("3", "a").read()).statusCode, 404);

  const patched = await container.items.batch([{ operationType: BulkOperationType.Patch, id: "1", resourceBody: { operations: [{ op: "add", path: "/n", value: 1 }] } }], "a");
  assert.equal(patched.result[0].resourceBody.n, 1);
});

test("bulk", async () => {
  const container = await newContainer("bulk", 4);
  const creates = Array.from({ length: 250 }, (_, i) => ({ operationType: BulkOperationType.Create, partitionKey: `key${i}`, resourceBody: { id: `${i}`, pk: `key${i}` } }));
  const created = await container.items.executeBulkOperations(creates, { contentResponseOnWriteEnabled: false });
  assert.deepEqual(new Set(created.map((r) => r.response?.statusCode)), new Set([201]));
  assert.deepEqual(new Set(created.map((r) => r.response.resourceBody)), new Set([undefined]));
  const mixed = await container.items.executeBulkOperations([
    { operationType: BulkOperationType.Read, id: "7", partitionKey: "key7" },
    { operationType: BulkOperationType.Create, partitionKey: "key8", resourceBody: { id: "8", pk: "key8" } },
    { operationType: BulkOperationType.Replace, id: "9", partitionKey: "key9", resourceBody: { id: "9", pk: "key9", n: 1 } },
    { operationType: BulkOperationType.Patch, id: "10", partitionKey: "key10", resourceBody: { operations: [{ op: "add", path: "/n", value: 2 }] } },
    { operationType: BulkOperationType.Delete, id: "11", partitionKey: "key11" },
    { operationType: BulkOperationType.Delete, id: "none", partitionKey: "key11" },
  ]);
  assert.deepEqual(mixed.map((r) => r.response?.statusCode ?? r.error?.code), [200, 409, 200, 200, 204, 404]);

  const old = await container.items.bulk(creates.slice(0, 20).map((o) => ({ ...o, operationType: BulkOperationType.Upsert })));
  assert.deepEqual(new Set(old.map((r) => r.statusCode)), new Set([200, 201]));
  assert.equal((await container.items.readAll().fetchAll()).resources.length, 250);
});
