import com.azure.cosmos.ChangeFeedProcessor;
import com.azure.cosmos.ChangeFeedProcessorBuilder;
import com.azure.cosmos.CosmosAsyncContainer;
import com.azure.cosmos.models.ChangeFeedProcessorOptions;
import com.azure.cosmos.models.ChangeFeedProcessorState;
import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicInteger;

/** Processors that share leases, and all changes that they received. */
final class Fleet implements AutoCloseable {
    private final Form form;
    private final CosmosAsyncContainer items;
    private final CosmosAsyncContainer leases;
    private final Map<String, ChangeFeedProcessor> processors = new TreeMap<>();
    private final Map<String, TreeMap<Long, String>> told = new TreeMap<>();
    private int changes;

    Fleet(Form form, CosmosAsyncContainer items, CosmosAsyncContainer leases) {
        this.form = form;
        this.items = items;
        this.leases = leases;
    }

    void start(String name) {
        ChangeFeedProcessorOptions options = new ChangeFeedProcessorOptions()
            .setLeaseAcquireInterval(Duration.ofMillis(500))
            .setLeaseRenewInterval(Duration.ofSeconds(1))
            .setLeaseExpirationInterval(Duration.ofSeconds(5))
            .setFeedPollDelay(Duration.ofMillis(100))
            .setStartFromBeginning(!form.hasAllVersions());
        ChangeFeedProcessorBuilder builder = new ChangeFeedProcessorBuilder()
            .hostName(name)
            .feedContainer(items)
            .leaseContainer(leases)
            .options(options);
        form.handle(builder, this::tell);
        ChangeFeedProcessor processor = builder.buildChangeFeedProcessor();
        processor.start().block();
        processors.put(name, processor);
    }

    void stop(String name) {
        processors.remove(name).stop().block();
    }

    private synchronized void tell(Change change) {
        changes++;
        told.computeIfAbsent(change.id(), id -> new TreeMap<>()).put(change.lsn(), change.text());
    }

    synchronized int changes() {
        return changes;
    }

    /** Waits until so many leases are divided evenly among the processors, and each has a position. */
    void awaitBalance(int count) throws InterruptedException {
        Await.none(count + " leases among " + processors.keySet(), () -> {
            List<JsonNode> documents = Account.query(leases, "IS_DEFINED(c.LeaseToken)");
            Map<String, Integer> owners = new TreeMap<>();
            processors.keySet().forEach(name -> owners.put(name, 0));
            documents.forEach(lease -> owners.merge(lease.path("Owner").asText(), 1, Integer::sum));
            boolean even = documents.size() == count
                && owners.size() == processors.size()
                && owners.values().stream().allMatch(held -> held == count / owners.size() || held == (count - 1) / owners.size() + 1);
            boolean placed = documents.stream().noneMatch(lease -> lease.path("ContinuationToken").asText("").isEmpty());
            return even && placed ? null : "owners are " + owners + (placed ? "" : ", and some lease has no position");
        });
    }

    /** Waits until everything was told that is expected of each item. */
    void awaitTold(Map<String, List<String>> expected) throws InterruptedException {
        Await.none("received changes", () -> {
            for (Map.Entry<String, List<String>> item : expected.entrySet()) {
                List<String> story = told(item.getKey());
                if (!story.equals(item.getValue())) {
                    return String.format("of %s: %s, not %s", item.getKey(), story, item.getValue());
                }
            }
            return null;
        });
    }

    /** All changes of an item in order; if the feed has only latest versions, the last one. */
    private synchronized List<String> told(String id) {
        TreeMap<Long, String> story = told.getOrDefault(id, new TreeMap<>());
        return form.hasAllVersions() || story.isEmpty() ? new ArrayList<>(story.values()) : List.of(story.lastEntry().getValue());
    }

    /**
     * Waits until the estimate of every lease is 0. A renewal that loses the race against a checkpoint puts the
     * older position back (DocumentServiceLeaseUpdaterImpl), so there is something new to checkpoint now and then.
     */
    void awaitNoLag(Writer writer) throws InterruptedException {
        ChangeFeedProcessor any = processors.values().iterator().next();
        AtomicInteger looks = new AtomicInteger();
        Await.none("lag", () -> {
            List<String> behind = new ArrayList<>();
            for (ChangeFeedProcessorState lease : any.getCurrentState().block()) {
                if (lease.getEstimatedLag() != 0) {
                    behind.add(String.format("%s of %s by %d", lease.getLeaseToken(), lease.getHostName(), lease.getEstimatedLag()));
                }
            }
            if (!behind.isEmpty() && looks.incrementAndGet() % 40 == 0) {
                writer.write(20);
            }
            return behind.isEmpty() ? null : "behind are leases " + behind;
        });
    }

    @Override
    public void close() {
        processors.values().forEach(processor -> processor.stop().block());
    }
}
