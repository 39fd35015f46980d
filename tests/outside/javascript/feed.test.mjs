// The change feed, pulled from every start, for every scope, with tokens that
// other clients resume, and across splits and merges while items are written.
// Items are written once, so that deliveries can be compared one by one.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { ChangeFeedStartFrom, connect, merge, newContainer, rejects, sorted, split } from "./account.mjs";

const write = (container, from, to) =>
  Promise.all(Array.from({ length: to - from }, (_, i) => container.items.create({ id: `${from + i}`, pk: `key${(from + i) % 40}` })));

const numbers = (from, to) => sorted(Array.from({ length: to - from }, (_, i) => `${from + i}`));

const feed = (container, start, maxItemCount = 10) =>
  container.items.getChangeFeedIterator({ changeFeedStartFrom: start, maxItemCount });

// drain reads until there is nothing new.
async function drain(iterator) {
  const found = [];
  for (;;) {
    const page = await iterator.readNext();
    if (page.statusCode === 304) {
      return { found, token: page.continuationToken };
    }
    assert.ok(page.requestCharge > 0 && page.result.length > 0);
    for (const item of page.result) {
      assert.equal(typeof item._lsn, "number");
      found.push(item.id);
    }
  }
}

const drained = async (iterator) => sorted((await drain(iterator)).found);

test("from the beginning, and on from a token", async () => {
  const container = await newContainer("beginning", 3);
  await write(container, 0, 100);
  const { found, token } = await drain(feed(container, ChangeFeedStartFrom.Beginning()));
  assert.deepEqual(sorted(found), numbers(0, 100));
  await write(container, 100, 130);
  await container.items.upsert({ id: "7", pk: "key7", n: 1 });
  await container.item("8", "key8").delete();
  assert.deepEqual(await drained(feed(container, ChangeFeedStartFrom.Continuation(token))), sorted([...numbers(100, 130), "7"]));
  assert.deepEqual(await drained(feed(container, ChangeFeedStartFrom.Beginning())), sorted(numbers(0, 130).filter((id) => id !== "8")));
});

test("order within a key", async () => {
  const container = await newContainer("order", 3);
  for (let i = 0; i < 60; i++) {
    await container.items.create({ id: `${i}`, pk: `key${i % 4}` });
  }
  const { found } = await drain(feed(container, ChangeFeedStartFrom.Beginning(), 7));
  for (let key = 0; key < 4; key++) {
    const ofKey = found.map(Number).filter((n) => n % 4 === key);
    assert.deepEqual(ofKey, ofKey.toSorted((a, b) => a - b));
  }
});

test("from now", async () => {
  const container = await newContainer("now", 3);
  await write(container, 0, 20);
  const iterator = feed(container, ChangeFeedStartFrom.Now());
  const { found, token } = await drain(iterator);
  assert.deepEqual(found, []);
  await write(container, 20, 50);
  assert.deepEqual(await drained(iterator), numbers(20, 50));
  assert.deepEqual(await drained(feed(container, ChangeFeedStartFrom.Continuation(token))), numbers(20, 50));
});

test("from a time", async () => {
  const container = await newContainer("time", 3);
  await write(container, 0, 20);
  await sleep(1100); // times of the feed are whole seconds
  const time = new Date();
  await sleep(1100);
  await write(container, 20, 50);
  const iterator = feed(container, ChangeFeedStartFrom.Time(time));
  assert.deepEqual(await drained(iterator), numbers(20, 50));
  const children = await split(container, "0");
  await write(container, 50, 80);
  assert.deepEqual(await drained(iterator), numbers(50, 80));

  // The SDK sends the time again with every token, without the capability that
  // the service asks for on merged ranges.
  await merge(container, ...children);
  await rejects(drain(iterator), 400);
});

test("of one key", async () => {
  const container = await newContainer("key", 3);
  await write(container, 0, 120);
  const want = ["3", "43", "83"];
  const start = ChangeFeedStartFrom.Beginning("key3");
  const { found, token } = await drain(feed(container, start, 2));
  assert.deepEqual(sorted(found), want);
  assert.deepEqual(await drained(feed(container, ChangeFeedStartFrom.Now("key3"))), []);
  const children = await split(container, "0");
  await merge(container, children[1], "1");
  await write(container, 120, 160);
  assert.deepEqual(await drained(feed(container, ChangeFeedStartFrom.Continuation(token))), ["123"]);
  assert.deepEqual((await drain(feed(container, start))).found, [...found, "123"]);
});

test("of each feed range, before and after splits and merges", async () => {
  const container = await newContainer("ranges", 3);
  await write(container, 0, 100);
  const ranges = await container.getFeedRanges();
  assert.equal(ranges.length, 3);
  const read = async () => {
    const each = await Promise.all(ranges.map((range) => drain(feed(container, ChangeFeedStartFrom.Beginning(range)))));
    for (const { found } of each) {
      assert.ok(found.length > 10, "a range is nearly empty");
    }
    return each;
  };
  const before = await read();
  assert.deepEqual(sorted(before.flatMap((r) => r.found)), numbers(0, 100));
  const children = await split(container, "1");
  await merge(container, "0", children[0]);
  await write(container, 100, 200);
  const rest = await Promise.all(before.map(({ token }) => drain(feed(container, ChangeFeedStartFrom.Continuation(token)))));
  assert.deepEqual(sorted(rest.flatMap((r) => r.found)), numbers(100, 200));
  assert.deepEqual(sorted((await read()).flatMap((r) => r.found)), numbers(0, 200));
});

// writeAndReshape writes while two ranges become three, two, three and two. It
// returns how many items it wrote.
async function writeAndReshape(container) {
  let written = 0;
  const some = async () => {
    for (const end = written + 80; written < end; written += 8) {
      await write(container, written, written + 8);
    }
  };
  await some();
  const [low, high] = await split(container, "0");
  await some();
  const merged = await merge(container, high, "1");
  await some();
  const [middle, top] = await split(container, merged);
  await some();
  const whole = await merge(container, low, middle);
  await some();
  await merge(container, whole, top);
  await some();
  return written;
}

// follow reads along until a 304 that was asked for after the last write.
async function follow(readNext, written) {
  const found = [];
  let finished = false;
  written.then(() => (finished = true));
  for (;;) {
    const last = finished;
    const page = await readNext();
    if (page.statusCode === 304 && last) {
      return found;
    }
    found.push(...(page.result ?? []).map((item) => item.id));
    await sleep(2);
  }
}

// reader reads a feed with one iterator.
const reader = (container, start) => {
  const iterator = feed(container, start, 5);
  return () => iterator.readNext();
};

// hopper takes another client for each page, which knows nothing but the token.
const hopper = (container, start) => async () => {
  const other = connect().database("tests").container(container.id);
  const page = await feed(other, start, 5).readNext();
  start = ChangeFeedStartFrom.Continuation(page.continuationToken);
  return page;
};

test("across splits and merges while items are written", async () => {
  const container = await newContainer("moving", 2);
  const ranges = await container.getFeedRanges();
  const now = reader(container, ChangeFeedStartFrom.Now());
  assert.equal((await now()).statusCode, 304);
  const written = writeAndReshape(container);
  const feeds = {
    reader: reader(container, ChangeFeedStartFrom.Beginning()),
    hopper: hopper(container, ChangeFeedStartFrom.Beginning()),
    now,
  };
  const all = Promise.all(Object.values(feeds).map((readNext) => follow(readNext, written)));
  const perRange = Promise.all(ranges.map((range) => follow(reader(container, ChangeFeedStartFrom.Beginning(range)), written)));
  const perKey = Promise.all([0, 1, 2, 3].map((key) => follow(reader(container, ChangeFeedStartFrom.Beginning(`key${key}`)), written)));
  const want = numbers(0, await written);
  for (const [i, found] of (await all).entries()) {
    assert.deepEqual(sorted(found), want, Object.keys(feeds)[i]);
  }
  assert.deepEqual(sorted((await perRange).flat()), want, "ranges");
  for (const [key, found] of (await perKey).entries()) {
    assert.deepEqual(found, Array.from({ length: want.length / 40 }, (_, i) => `${40 * i + key}`), "keys");
  }
});
