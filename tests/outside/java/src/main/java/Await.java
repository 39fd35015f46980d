import java.time.Duration;
import java.time.Instant;
import java.util.function.Supplier;

/** Waits for effects of other threads. */
final class Await {
    private static final Duration PATIENCE = Duration.ofSeconds(40);

    private Await() {}

    /** Returns when problem returns null. If it does not in time, fails with its last result. */
    static void none(String what, Supplier<String> problem) throws InterruptedException {
        Instant end = Instant.now().plus(PATIENCE);
        for (String last = problem.get(); last != null; last = problem.get()) {
            if (Instant.now().isAfter(end)) {
                throw new AssertionError(what + ": after " + PATIENCE + " " + last);
            }
            Thread.sleep(50);
        }
    }
}
