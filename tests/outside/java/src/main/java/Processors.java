import com.azure.cosmos.CosmosAsyncContainer;
import java.util.List;
import java.util.Map;

/** Runs a form of the change feed processor through a day in its life. */
final class Processors {
    private Processors() {}

    static String run(Account account, Form form) throws Exception {
        CosmosAsyncContainer items = account.items(form.name(), 4);
        CosmosAsyncContainer leases = account.leases(form + "-leases");
        try (Fleet fleet = new Fleet(form, items, leases)) {
            fleet.start("a");
            fleet.start("b");
            fleet.awaitBalance(4);
            Writer writer = new Writer(items, form.hasAllVersions());
            writer.more(200);
            List<String> children = account.split(items, "1");
            fleet.awaitBalance(5);
            writer.more(200);
            fleet.stop("a");
            fleet.awaitBalance(5);
            fleet.start("c");
            fleet.awaitBalance(5);
            if (form.survivesMerges()) {
                account.merge(items, children);
            }
            writer.more(200);
            Map<String, List<String>> expected = writer.finish(form);
            fleet.awaitTold(expected);
            fleet.awaitNoLag(writer);
            return String.format("%d items, %d changes seen", expected.size(), fleet.changes());
        }
    }
}
