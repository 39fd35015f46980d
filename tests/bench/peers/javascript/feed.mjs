// A client of a benchmark: @azure/cosmos reads the change feed with
// getChangeFeedIterator, as its documentation shows. It reads until there is nothing
// new, and prints the processor time for a million changes.
import { createRequire } from "node:module";

const { ChangeFeedStartFrom, CosmosClient } = createRequire(`${process.env.BENCH_PACKAGES}/`)("@azure/cosmos");

const client = new CosmosClient({ endpoint: process.env.BENCH_ENDPOINT, key: process.env.BENCH_KEY });
const container = client.database("bench").container("items");

await container.read(); // opens the connection
const before = process.cpuUsage();
const feed = container.items.getChangeFeedIterator({
  changeFeedStartFrom: ChangeFeedStartFrom.Beginning(),
  maxItemCount: Number(process.env.BENCH_PAGE),
});
let changes = 0;
for await (const page of feed.getAsyncIterator()) {
  if (page.statusCode === 304) {
    break;
  }
  for (const document of page.result) changes += document.id !== "";
}
const { user, system } = process.cpuUsage(before);
console.log(JSON.stringify({ changes, cpuPerMillion: (user + system) / changes }));
client.dispose();
