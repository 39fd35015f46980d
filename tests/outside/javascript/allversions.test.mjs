// The change feed of all versions and deletes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ChangeFeedMode, ChangeFeedPolicy, ChangeFeedRetentionTimeSpan, ChangeFeedStartFrom, newContainer, rejects, split } from "./account.mjs";

const newHistory = (name, ranges) =>
  newContainer(name, ranges, { changeFeedPolicy: new ChangeFeedPolicy(ChangeFeedRetentionTimeSpan.fromMinutes(10)) });

const feed = (container, start) =>
  container.items.getChangeFeedIterator({ changeFeedStartFrom: start, changeFeedMode: ChangeFeedMode.AllVersionsAndDeletes, maxItemCount: 3 });

async function drain(iterator) {
  const found = [];
  for (;;) {
    const page = await iterator.readNext();
    if (page.statusCode === 304) {
      return { found, token: page.continuationToken };
    }
    found.push(...page.result);
  }
}

const operations = (changes) => changes.map(({ current, metadata }) => `${metadata.operationType} ${current?.id ?? metadata.id} ${current?.n ?? ""}`.trim());

test("every version and delete, in order, across a split", async () => {
  const container = await newHistory("versions", 1);
  const iterator = feed(container, ChangeFeedStartFrom.Now());
  const { found, token } = await drain(iterator);
  assert.deepEqual(found, []);
  const { item } = await container.items.create({ id: "1", pk: "a", n: 1 });
  await item.replace({ id: "1", pk: "a", n: 2 });
  await container.items.upsert({ id: "1", pk: "a", n: 3 });
  await item.delete();
  const first = ["create 1 1", "replace 1 2", "replace 1 3", "delete 1"];
  const changes = (await drain(iterator)).found;
  assert.deepEqual(operations(changes), first);
  for (const { metadata } of changes) {
    assert.ok(metadata.lsn > 0 && metadata.crts > 0);
  }
  await split(container, "0");
  await container.items.create({ id: "2", pk: "a", n: 1 });
  assert.deepEqual(operations((await drain(iterator)).found), ["create 2 1"]);
  assert.deepEqual(operations((await drain(feed(container, ChangeFeedStartFrom.Continuation(token)))).found), [...first, "create 2 1"]);
});

test("invalid requests are refused", async () => {
  const container = await newHistory("refused", 1);
  await rejects(drain(feed(container, ChangeFeedStartFrom.Beginning())), 400);
  await rejects(drain(feed(container, ChangeFeedStartFrom.Time(new Date()))), 400);
  const plain = await newContainer("plain", 1);
  await rejects(drain(feed(plain, ChangeFeedStartFrom.Now())), 400);
});
