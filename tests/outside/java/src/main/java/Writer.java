import com.azure.cosmos.CosmosAsyncContainer;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.PartitionKey;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;

/** Creates, replaces and deletes items, one item after the other, until it is told to stop. */
final class Writer {
    private final CosmosAsyncContainer container;
    private final boolean deletes;
    private final AtomicInteger items = new AtomicInteger();
    private final CompletableFuture<Void> work;
    private volatile boolean stopping;

    Writer(CosmosAsyncContainer container, boolean deletes) {
        this.container = container;
        this.deletes = deletes;
        this.work = CompletableFuture.runAsync(this::run);
    }

    private void run() {
        while (!stopping) {
            write(1);
        }
    }

    /** Writes so many items; others may call it once the writer is finished. */
    void write(int count) {
        for (int i = 0; i < count; i++) {
            String id = "item-" + items.get();
            container.createItem(item(id, 1)).block();
            container.replaceItem(item(id, 2), id, new PartitionKey(id)).block();
            if (deletes) {
                container.deleteItem(id, new PartitionKey(id), new CosmosItemRequestOptions()).block();
            }
            items.incrementAndGet();
        }
    }

    private static Map<String, Object> item(String id, int version) {
        return Map.of("id", id, "key", id, "version", version);
    }

    /** Returns when so many more items were written. */
    void more(int count) throws InterruptedException {
        int target = items.get() + count;
        Await.none("write", () -> {
            if (work.isCompletedExceptionally()) {
                work.join();
            }
            return items.get() < target ? "only " + items.get() + " of " + target + " items" : null;
        });
    }

    /** Stops, and returns the changes that a feed must have for each item. */
    Map<String, List<String>> finish(Form form) {
        stopping = true;
        work.join();
        List<String> story = form.hasAllVersions()
            ? List.of("CREATE as 1", "REPLACE as 2", "DELETE")
            : List.of("is 2");
        Map<String, List<String>> expected = new TreeMap<>();
        for (int i = 0; i < items.get(); i++) {
            expected.put("item-" + i, new ArrayList<>(story));
        }
        return expected;
    }
}
