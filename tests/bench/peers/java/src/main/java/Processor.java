import com.azure.cosmos.ChangeFeedProcessor;
import com.azure.cosmos.ChangeFeedProcessorBuilder;
import com.azure.cosmos.CosmosAsyncClient;
import com.azure.cosmos.CosmosAsyncDatabase;
import com.azure.cosmos.CosmosClientBuilder;
import com.azure.cosmos.models.ChangeFeedProcessorOptions;
import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * A client of a benchmark: the change feed processor of azure-cosmos. It reads the feed again and again, with new
 * leases each time, and prints the median of the processor time for a million changes after some passes in which its
 * code is compiled.
 */
public final class Processor {
    private static final int WARM_UP = 4;

    private Processor() {}

    public static void main(String[] arguments) throws InterruptedException {
        int changes = Integer.parseInt(System.getenv("BENCH_CHANGES"));
        try (CosmosAsyncClient client = new CosmosClientBuilder()
            .endpoint(System.getenv("BENCH_ENDPOINT"))
            .key(System.getenv("BENCH_KEY"))
            .contentResponseOnWriteEnabled(true)
            .gatewayMode()
            .buildAsyncClient()) {
            CosmosAsyncDatabase database = client.getDatabase("bench");
            String name = "java-" + ProcessHandle.current().pid();
            for (int pass = 0; pass < WARM_UP; pass++) {
                read(database, name + "-warm-up-" + pass, changes);
            }
            double[] seconds = new double[Integer.parseInt(System.getenv("BENCH_WINDOWS"))];
            for (int pass = 0; pass < seconds.length; pass++) {
                seconds[pass] = read(database, name + "-" + pass, changes);
            }
            Arrays.sort(seconds);
            System.out.printf("{\"changes\": %d, \"cpuPerMillion\": %f}%n", changes, seconds[seconds.length / 2] / changes * 1e6);
        }
        System.exit(0); // the client leaves threads
    }

    /** Reads so many changes with new leases. Returns the processor time in seconds. */
    private static double read(CosmosAsyncDatabase database, String prefix, int changes) throws InterruptedException {
        OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        AtomicInteger handled = new AtomicInteger();
        CountDownLatch complete = new CountDownLatch(1);
        ChangeFeedProcessor processor = new ChangeFeedProcessorBuilder()
            .hostName(prefix)
            .feedContainer(database.getContainer("items"))
            .leaseContainer(database.getContainer("leases"))
            .options(new ChangeFeedProcessorOptions()
                .setLeasePrefix(prefix)
                .setMaxItemCount(Integer.parseInt(System.getenv("BENCH_PAGE")))
                .setFeedPollDelay(Duration.ofMillis(100))
                .setStartFromBeginning(true))
            .handleChanges(documents -> {
                if (handled.addAndGet(documents.size()) >= changes) {
                    complete.countDown();
                }
            })
            .buildChangeFeedProcessor();
        long before = system.getProcessCpuTime();
        processor.start().block();
        if (!complete.await(4, TimeUnit.MINUTES)) {
            throw new IllegalStateException("only " + handled + " of " + changes + " changes were handled");
        }
        double seconds = (system.getProcessCpuTime() - before) / 1e9;
        processor.stop().block();
        return seconds;
    }
}
