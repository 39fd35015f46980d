"""azure-cosmos 4: change feed of container, ranges and keys, items and queries."""

import json
import os
import time
import unittest
import urllib.request
from datetime import datetime, timezone

from azure.core import MatchConditions
from azure.cosmos import CosmosClient, PartitionKey, ThroughputProperties, exceptions

ENDPOINT = os.environ["OUTSIDE_ENDPOINT"]


def connect():
    # The SDK does not verify the certificate of a loopback address.
    return CosmosClient(ENDPOINT, os.environ["OUTSIDE_KEY"])


def manage(action, container, **body):
    body.update(database="pypi", container=container.id)
    request = urllib.request.Request(f"{ENDPOINT}_emulator/{action}", json.dumps(body).encode())
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def numbers(begin, end):
    return sorted(map(str, range(begin, end)))


class Account(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.database = connect().create_database_if_not_exists("pypi")

    def new_container(self, name, ranges):
        key = PartitionKey("/pk")
        return self.database.create_container(name, key, offer_throughput=10000 * ranges)

    def write(self, container, begin, end):
        for i in range(begin, end):
            container.create_item({"id": str(i), "pk": f"key{i % 20}", "n": i})

    def read(self, container, **options):
        """Reads a feed to its end and returns ids and the token to go on with."""
        found = [item["id"] for item in container.query_items_change_feed(max_item_count=7, **options)]
        return sorted(found), container.client_connection.last_response_headers["etag"]

    def test_feed_resumes_by_etag(self):
        container = self.new_container("resume", 3)
        self.write(container, 0, 60)
        found, token = self.read(container, start_time="Beginning")
        self.assertEqual(found, numbers(0, 60))
        self.write(container, 60, 90)
        found, token = self.read(container, continuation=token)
        self.assertEqual(found, numbers(60, 90))
        found, token = self.read(container, continuation=token)
        self.assertEqual(found, [])

        # Another client, across a split and a merge.
        children = manage("split", container, range="0")["children"]
        self.write(container, 90, 120)
        container = connect().get_database_client("pypi").get_container_client("resume")
        found, token = self.read(container, continuation=token)
        self.assertEqual(found, numbers(90, 120))
        manage("merge", container, ranges=[children[1], "1"])
        self.write(container, 120, 150)
        container = connect().get_database_client("pypi").get_container_client("resume")
        found, token = self.read(container, continuation=token)
        self.assertEqual(found, numbers(120, 150))

    def test_feed_from_now_and_from_a_time(self):
        container = self.new_container("start", 2)
        self.write(container, 0, 20)
        found, now = self.read(container, start_time="Now")
        self.assertEqual(found, [])
        time.sleep(1.1)  # times of the feed are whole seconds
        start = datetime.now(timezone.utc)
        time.sleep(1.1)
        self.write(container, 20, 40)
        self.assertEqual(self.read(container, continuation=now)[0], numbers(20, 40))
        self.assertEqual(self.read(container, start_time=start)[0], numbers(20, 40))

    def test_feed_of_ranges_and_keys(self):
        container = self.new_container("scope", 3)
        self.write(container, 0, 100)
        ranges = list(container.read_feed_ranges())
        self.assertEqual(len(ranges), 3)
        each = [self.read(container, feed_range=r, start_time="Beginning") for r in ranges]
        self.assertEqual(sorted(sum((found for found, _ in each), [])), numbers(0, 100))
        found, token = self.read(container, partition_key="key3", start_time="Beginning")
        self.assertEqual(found, ["23", "3", "43", "63", "83"])
        self.write(container, 100, 120)
        rest = [self.read(container, continuation=token)[0] for _, token in each]
        self.assertEqual(sorted(sum(rest, [])), numbers(100, 120))
        self.assertEqual(self.read(container, continuation=token)[0], ["103"])

    def test_feed_of_all_versions(self):
        policy = {"retentionDuration": 10}
        container = self.database.create_container("versions", PartitionKey("/pk"), change_feed_policy=policy)

        def read(**options):
            changes = list(container.query_items_change_feed(mode="AllVersionsAndDeletes", **options))
            return [c["metadata"]["operationType"] for c in changes], container.client_connection.last_response_headers["etag"]

        operations, token = read(start_time="Now")
        self.assertEqual(operations, [])
        container.create_item({"id": "1", "pk": "a"})
        container.upsert_item({"id": "1", "pk": "a", "n": 1})
        container.delete_item("1", "a")
        operations, token = read(continuation=token)
        self.assertEqual(operations, ["create", "replace", "delete"])
        self.assertEqual(read(continuation=token)[0], [])

    def test_items(self):
        container = self.new_container("items", 2)
        item = container.create_item({"id": "1", "pk": "a", "n": 1})
        with self.assertRaises(exceptions.CosmosResourceExistsError):
            container.create_item({"id": "1", "pk": "a"})
        container.upsert_item({"id": "1", "pk": "a", "n": 2})
        with self.assertRaises(exceptions.CosmosAccessConditionFailedError):
            container.replace_item("1", {"id": "1", "pk": "a"}, etag=item["_etag"], match_condition=MatchConditions.IfNotModified)
        patched = container.patch_item("1", "a", [{"op": "incr", "path": "/n", "value": 5}], filter_predicate="from c where c.n = 2")
        self.assertEqual(patched["n"], 7)
        results = container.execute_item_batch([("create", ({"id": "2", "pk": "a"},)), ("delete", ("1",))], "a")
        self.assertEqual([r["statusCode"] for r in results], [201, 204])
        with self.assertRaises(exceptions.CosmosBatchOperationError):
            container.execute_item_batch([("create", ({"id": "3", "pk": "a"},)), ("delete", ("1",))], "a")
        with self.assertRaises(exceptions.CosmosResourceNotFoundError):
            container.read_item("3", "a")

    def test_queries(self):
        container = self.new_container("queries", 4)
        self.write(container, 0, 60)

        def ask(query, **options):
            return list(container.query_items(query, enable_cross_partition_query=True, max_item_count=7, **options))

        self.assertEqual(ask("SELECT VALUE c.n FROM c ORDER BY c.n DESC"), list(range(59, -1, -1)))
        self.assertEqual(ask("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 5 LIMIT 10"), list(range(5, 15)))
        self.assertEqual(ask("SELECT TOP 3 VALUE c.n FROM c ORDER BY c.n"), [0, 1, 2])
        self.assertEqual(ask("SELECT VALUE COUNT(1) FROM c"), [60])
        self.assertEqual(ask("SELECT VALUE SUM(c.n) FROM c"), [1770])
        self.assertEqual(ask("SELECT VALUE AVG(c.n) FROM c"), [29.5])
        self.assertEqual(ask("SELECT VALUE MIN(c.n) FROM c WHERE c.n > @n", parameters=[{"name": "@n", "value": 7}]), [8])
        self.assertEqual(sorted(ask("SELECT DISTINCT VALUE c.pk FROM c")), sorted(f"key{i}" for i in range(20)))
        self.assertEqual(sorted(container.query_items("SELECT VALUE c.n FROM c", partition_key="key3")), [3, 23, 43])

    def test_ordered_pages_with_keys_that_are_not_ascii(self):
        container = self.new_container("names", 2)
        for i, name in enumerate(["ü", "ü", "ü", "ü", "z", "z", "a"]):
            container.create_item({"id": str(i), "pk": "names", "name": name})
        for size in (1, 3):
            found, token = [], None
            while len(found) <= 7:
                pages = container.query_items("SELECT VALUE c.name FROM c ORDER BY c.name", partition_key="names", max_item_count=size).by_page(token)
                found += list(next(pages))
                token = pages.continuation_token
                if not token:
                    break
            self.assertEqual(found, ["a", "z", "z", "ü", "ü", "ü", "ü"])

    def test_groups_are_refused_and_not_returned_in_parts(self):
        container = self.new_container("groups", 2)
        self.write(container, 0, 20)
        with self.assertRaisesRegex(exceptions.CosmosHttpResponseError, "Cross partition query only supports 'VALUE <AggregateFunc>' for aggregates"):
            list(container.query_items("SELECT c.pk, COUNT(1) AS n FROM c GROUP BY c.pk", enable_cross_partition_query=True))
        grouped = "SELECT c.pk, COUNT(1) AS n FROM c GROUP BY c.pk"
        self.assertEqual(list(container.query_items(grouped, partition_key="key3")), [{"pk": "key3", "n": 1}])

    def test_unique_keys(self):
        policy = {"uniqueKeys": [{"paths": ["/email"]}]}
        container = self.database.create_container("unique", PartitionKey("/pk"), unique_key_policy=policy)
        container.create_item({"id": "1", "pk": "a", "email": "x"})
        with self.assertRaises(exceptions.CosmosResourceExistsError):
            container.create_item({"id": "2", "pk": "a", "email": "x"})
        container.create_item({"id": "2", "pk": "b", "email": "x"})

    def test_offers(self):
        container = self.database.create_container("offers", PartitionKey("/pk"), offer_throughput=ThroughputProperties(auto_scale_max_throughput=5000))
        offer = container.get_throughput()
        self.assertEqual(offer.auto_scale_max_throughput, 5000)
        offer.auto_scale_max_throughput = 7000
        container.replace_throughput(offer)
        self.assertEqual(container.get_throughput().auto_scale_max_throughput, 7000)
        manual = self.new_container("manual", 1)
        manual.replace_throughput(500)
        self.assertEqual(manual.get_throughput().offer_throughput, 500)

    def test_all_items_of_a_key_are_deleted(self):
        container = self.new_container("deletion", 2)
        self.write(container, 0, 60)
        container.delete_all_items_by_partition_key("key3")
        left = list(container.query_items("SELECT VALUE c.n FROM c", enable_cross_partition_query=True))
        self.assertEqual(sorted(left), [i for i in range(60) if i % 20 != 3])


if __name__ == "__main__":
    unittest.main()
