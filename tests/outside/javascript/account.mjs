// What the tests have in common: the client, and the management of the account.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const packages = createRequire(`${process.env.OUTSIDE_PACKAGES}/`);
export const {
  BulkOperationType,
  ChangeFeedMode,
  ChangeFeedPolicy,
  ChangeFeedRetentionTimeSpan,
  ChangeFeedStartFrom,
  CosmosClient,
  PartitionKeyBuilder,
} = packages("@azure/cosmos");

const endpoint = process.env.OUTSIDE_ENDPOINT;

// A client caches ranges: tests of splits want one that still knows the old ones.
export const connect = () => new CosmosClient({ endpoint, key: process.env.OUTSIDE_KEY });

export const client = connect();

// newContainer is an empty container, keyed by /pk unless options say otherwise.
export async function newContainer(name, ranges = 1, options = {}) {
  const { database } = await client.databases.createIfNotExists({ id: "tests" });
  const { container } = await database.containers.create({
    id: name,
    partitionKey: { paths: ["/pk"], version: 2 },
    throughput: ranges * 10000,
    ...options,
  });
  const { resources } = await container.readPartitionKeyRanges().fetchAll();
  assert.equal(resources.length, ranges);
  return container;
}

async function manage(action, body) {
  const response = await fetch(`${endpoint}_emulator/${action}`, { method: "POST", body: JSON.stringify(body) });
  const answer = await response.json();
  assert.equal(response.status, 200, JSON.stringify(answer));
  return answer;
}

export const split = (container, range) =>
  manage("split", { database: "tests", container: container.id, range }).then((answer) => answer.children);

export const merge = (container, ...ranges) =>
  manage("merge", { database: "tests", container: container.id, ranges }).then((answer) => answer.child);

// rejects asserts that a promise fails with a status code.
export const rejects = (promise, code) =>
  assert.rejects(promise, (error) => {
    assert.equal(error.code, code, `${error.code}: ${error.message}`);
    return true;
  });

// sorted is a copy in the order of its texts.
export const sorted = (list) => [...list].sort();
