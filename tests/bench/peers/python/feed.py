"""A client of a benchmark: azure-cosmos reads the change feed with
query_items_change_feed, as its documentation shows. It reads until there is nothing
new, and prints the processor time for a million changes.
"""

import json
import os
import time

from azure.cosmos import CosmosClient

client = CosmosClient(os.environ["BENCH_ENDPOINT"], os.environ["BENCH_KEY"])
container = client.get_database_client("bench").get_container_client("items")

container.read()  # opens the connection
before = time.process_time()
changes = 0
for page in container.query_items_change_feed(start_time="Beginning", max_item_count=int(os.environ["BENCH_PAGE"])).by_page():
    for document in page:
        changes += document["id"] != ""
print(json.dumps({"changes": changes, "cpuPerMillion": (time.process_time() - before) / changes * 1e6}))
