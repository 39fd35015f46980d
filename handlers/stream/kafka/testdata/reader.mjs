// Reads a topic with kafkajs and prints each record as a line of JSON:
//
//	node reader.mjs KAFKAJS BROKERS TOPIC COUNT
//
// "expected" is the partition that kafkajs selects for the record's key, as Kafka's own
// producer does.

import { createRequire } from "node:module";

const [kafkajs, brokers, topic, count] = process.argv.slice(2);
const { Kafka, Partitioners, logLevel } = createRequire(import.meta.url)(kafkajs);

const kafka = new Kafka({ brokers: brokers.split(","), logLevel: logLevel.ERROR });
const admin = kafka.admin();
await admin.connect();
const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
await admin.disconnect();

const select = Partitioners.DefaultPartitioner();
const consumer = kafka.consumer({ groupId: topic });
await consumer.connect();
await consumer.subscribe({ topic, fromBeginning: true });
let read = 0;
await consumer.run({
  eachMessage: async ({ partition, message }) => {
    const { source, op, after } = JSON.parse(message.value.toString());
    const expected = select({ topic, partitionMetadata: topics[0].partitions, message });
    const id = message.headers["halley-id"].toString();
    console.log(JSON.stringify({ key: message.key.toString(), partition, expected, id, source: source.id, op, document: after.id }));
    if (++read === Number(count)) setImmediate(() => consumer.disconnect());
  },
});
