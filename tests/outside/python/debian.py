"""azure-cosmos 3: reads the change feed of each range and resumes by etag."""

import os
import unittest

import azure.cosmos.cosmos_client as cosmos_client

COLLECTION = "dbs/tests/colls/feed"


class Feed(unittest.TestCase):
    def setUp(self):
        # This release does not verify the certificate of a loopback address.
        self.client = cosmos_client.CosmosClient(os.environ["OUTSIDE_ENDPOINT"], {"masterKey": os.environ["OUTSIDE_KEY"]})
        self.client.CreateDatabase({"id": "tests"})
        definition = {"id": "feed", "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}}
        self.client.CreateContainer("dbs/tests", definition, {"offerThroughput": 20000})

    def write(self, begin, end):
        for i in range(begin, end):
            self.client.CreateItem(COLLECTION, {"id": str(i), "pk": "key%d" % (i % 20)})

    def read(self, ranges, start):
        """Reads every range until nothing is new; start gives the options of each."""
        found, etags = [], {}
        for r in ranges:
            options = dict(start(r), partitionKeyRangeId=r, maxItemCount=7)
            found += [item["id"] for item in self.client.QueryItemsChangeFeed(COLLECTION, options)]
            etags[r] = self.client.last_response_headers["etag"]
        return sorted(found), etags

    def test_resumes_by_etag(self):
        ranges = [r["id"] for r in self.client._ReadPartitionKeyRanges(COLLECTION)]
        self.assertEqual(ranges, ["0", "1"])
        self.write(0, 60)
        found, etags = self.read(ranges, lambda r: {"isStartFromBeginning": True})
        self.assertEqual(found, sorted(map(str, range(60))))
        self.write(60, 90)
        found, etags = self.read(ranges, lambda r: {"continuation": etags[r]})
        self.assertEqual(found, sorted(map(str, range(60, 90))))
        found, _ = self.read(ranges, lambda r: {"continuation": etags[r]})
        self.assertEqual(found, [])

        # From now: this release ignores isStartFromBeginning if it is False.
        found, etags = self.read(ranges, lambda r: {"continuation": "*"})
        self.assertEqual(found, [])
        self.write(90, 100)
        found, _ = self.read(ranges, lambda r: {"continuation": etags[r]})
        self.assertEqual(found, sorted(map(str, range(90, 100))))

        query = self.client.QueryItems(COLLECTION, "SELECT * FROM c WHERE c.pk = 'key3'", {"enableCrossPartitionQuery": True})
        self.assertEqual(sorted(item["id"] for item in query), ["23", "3", "43", "63", "83"])


if __name__ == "__main__":
    unittest.main()
