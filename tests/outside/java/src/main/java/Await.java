import java.time.Duration;
import java.time.Instant;
import java.util.function.Supplier;

/** Waits for what other threads bring about. */
final class Await {
    private static final Duration PATIENCE = Duration.ofSeconds(40);

    private Await() {}

    /** Returns when problem gives null, or fails with what it gives until then. */
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
