import com.azure.cosmos.CosmosAsyncContainer;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import java.util.Map;

/** Groups items of several ranges: the client plans the query through the account and merges the groups itself. */
final class Groups {
    private static final List<String> CITIES = List.of("Aachen", "Bonn", "Celle", "Dresden", "Emden");
    private static final int ITEMS = 60;

    private final CosmosAsyncContainer container;

    private Groups(CosmosAsyncContainer container) {
        this.container = container;
    }

    /** Asks before and after a split, which divides groups further. */
    static String run(Account account) throws Exception {
        Groups groups = new Groups(account.items("groups", 4));
        groups.write();
        groups.ask();
        account.split(groups.container, "1");
        groups.ask();
        return ITEMS + " items in " + CITIES.size() + " groups, on 4 ranges and on 5";
    }

    /** Item n is in the city n modulo 5; one more item has no city. */
    private void write() {
        for (int n = 0; n < ITEMS; n++) {
            String id = "item-" + n;
            container.createItem(Map.of("id", id, "key", id, "city", CITIES.get(n % CITIES.size()), "n", n)).block();
        }
        container.createItem(Map.of("id", "nowhere", "key", "nowhere", "n", 7)).block();
    }

    private void ask() {
        answers("SELECT c.city, COUNT(1) AS count, MIN(c.n) AS least, MAX(c.n) AS most, SUM(c.n) AS sum, AVG(c.n) AS mean FROM c WHERE IS_DEFINED(c.city) GROUP BY c.city",
            "{'city':'Aachen','count':12,'least':0,'most':55,'sum':330.0,'mean':27.5}",
            "{'city':'Bonn','count':12,'least':1,'most':56,'sum':342.0,'mean':28.5}",
            "{'city':'Celle','count':12,'least':2,'most':57,'sum':354.0,'mean':29.5}",
            "{'city':'Dresden','count':12,'least':3,'most':58,'sum':366.0,'mean':30.5}",
            "{'city':'Emden','count':12,'least':4,'most':59,'sum':378.0,'mean':31.5}");
        answers("SELECT VALUE COUNT(1) FROM c WHERE c.n < 13 GROUP BY c.city", "1", "2", "2", "3", "3", "3");
        answers("SELECT c.city, COUNT(1) AS count FROM c WHERE c.n = 7 GROUP BY c.city", "{'city':'Celle','count':1}", "{'count':1}");
        answers("SELECT COUNT(1) AS count FROM c WHERE c.n > 100 GROUP BY c.city");
    }

    /** Compares the answers to a query, in any order, with the wanted ones. */
    private void answers(String query, String... wanted) {
        List<String> found = container.queryItems(query, new CosmosQueryRequestOptions(), JsonNode.class)
            .map(answer -> answer.toString().replace('"', '\''))
            .collectList()
            .block()
            .stream()
            .sorted()
            .toList();
        List<String> want = List.of(wanted).stream().sorted().toList();
        if (!found.equals(want)) {
            throw new AssertionError(query + ": " + found + ", want " + want);
        }
    }
}
