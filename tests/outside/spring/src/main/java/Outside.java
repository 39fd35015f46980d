import com.azure.cosmos.CosmosClientBuilder;
import com.azure.cosmos.models.CosmosPatchOperations;
import com.azure.cosmos.models.PartitionKey;
import com.azure.spring.data.cosmos.config.AbstractCosmosConfiguration;
import com.azure.spring.data.cosmos.core.query.CosmosPageRequest;
import com.azure.spring.data.cosmos.exception.CosmosAccessException;
import com.azure.spring.data.cosmos.repository.config.EnableCosmosRepositories;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.function.Function;
import java.util.function.ToIntFunction;
import java.util.stream.IntStream;
import java.util.stream.StreamSupport;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.data.domain.Page;
import org.springframework.data.domain.Pageable;
import org.springframework.data.domain.Slice;
import org.springframework.data.domain.Sort;

/** Walks a repository of Spring Data through items, pages, patches, queries and bulk writes. */
@Configuration
@EnableCosmosRepositories
public class Outside extends AbstractCosmosConfiguration {
    private static final int ITEMS = 100;

    @Bean
    public CosmosClientBuilder client() {
        return new CosmosClientBuilder()
            .endpoint(System.getenv("OUTSIDE_ENDPOINT"))
            .key(System.getenv("OUTSIDE_KEY"))
            .gatewayMode();
    }

    @Override
    protected String getDatabaseName() {
        return "spring";
    }

    private interface Test {
        void run(Results results);
    }

    public static void main(String[] arguments) {
        boolean failed = false;
        try (AnnotationConfigApplicationContext context = new AnnotationConfigApplicationContext(Outside.class)) {
            Results results = context.getBean(Results.class);
            results.saveAll(IntStream.range(0, ITEMS).mapToObj(Result::new).toList());
            failed |= !passes("items", Outside::items, results);
            failed |= !passes("sorted pages", Outside::sortedPages, results);
            failed |= !passes("pages of queries", Outside::pagesOfQueries, results);
            failed |= !passes("patch", Outside::patch, results);
            failed |= !passes("queries", Outside::queries, results);
            failed |= !passes("bulk", Outside::bulk, results);
        }
        System.exit(failed ? 1 : 0);
    }

    private static boolean passes(String name, Test test, Results results) {
        try {
            test.run(results);
            System.out.println(name + ": ok");
            return true;
        } catch (RuntimeException | AssertionError e) {
            System.out.println(name + ": " + e);
            e.printStackTrace();
            return false;
        }
    }

    private static void items(Results results) {
        Result written = new Result(1000);
        String first = results.save(written).etag;
        same("found", "player-6", results.findById("result-1000", new PartitionKey("player-6")).orElseThrow().player);
        same("count", ITEMS + 1L, results.count());
        Result read = results.findById("result-1000", new PartitionKey("player-6")).orElseThrow();
        read.points = 5;
        same("new etag", false, first.equals(results.save(read).etag));
        written.etag = first;
        try {
            results.save(written);
            throw new AssertionError("an older version was saved");
        } catch (CosmosAccessException e) {
            same("status", 412, e.getCosmosException().getStatusCode());
        }
        results.deleteById("result-1000", new PartitionKey("player-6"));
        same("deleted", true, results.findById("result-1000", new PartitionKey("player-6")).isEmpty());
        same("of a key", 15, list(results.findAll(new PartitionKey("player-0"))).size());
    }

    private static void sortedPages(Results results) {
        Sort order = Sort.by(Sort.Direction.DESC, "points");
        Page<Result> first = results.findAll(CosmosPageRequest.of(0, 30, order));
        same("total", (long) ITEMS, first.getTotalElements());
        List<Result> all = everyPage(first, results::findAll);
        same("points in order", IntStream.range(0, ITEMS).map(n -> ITEMS - 1 - n).boxed().toList(), all.stream().map(r -> r.points).toList());
        same("sorted list", 0, list(results.findAll(Sort.by("points"))).get(0).points);
    }

    private static void pagesOfQueries(Results results) {
        Pageable request = new CosmosPageRequest(0, 8, null, Sort.by("points", "player"));
        Page<Result> page = results.findByPointsLessThan(50, request);
        same("total", 50L, page.getTotalElements());
        same("points", IntStream.range(0, 50).boxed().toList(), everyPage(page, next -> results.findByPointsLessThan(50, next)).stream().map(r -> r.points).toList());
        List<Result> above = everySlice(results.findByPointsGreaterThan(89, CosmosPageRequest.of(0, 4, Sort.by("points"))), next -> results.findByPointsGreaterThan(89, next));
        same("slices", IntStream.range(90, 100).boxed().toList(), above.stream().map(r -> r.points).toList());
        Page<Result> annotated = results.startingWith("player-", CosmosPageRequest.of(0, 40, Sort.by("points")));
        same("given query", ITEMS, everyPage(annotated, next -> results.startingWith("player-", next)).size());
    }

    private static void patch(Results results) {
        Result item = new Result(3);
        results.save(item.id, new PartitionKey(item.player), Result.class, CosmosPatchOperations.create().increment("/points", 1000));
        same("patched", item.points + 1000, results.findById(item.id, new PartitionKey(item.player)).orElseThrow().points);
        results.save(item.id, new PartitionKey(item.player), Result.class, CosmosPatchOperations.create().set("/points", item.points));
        same("patched back", item.points, results.findById(item.id, new PartitionKey(item.player)).orElseThrow().points);
    }

    private static void queries(Results results) {
        List<Result> ofKey = IntStream.range(0, ITEMS).mapToObj(Result::new).filter(r -> r.player.equals("player-2")).toList();
        List<Integer> high = ofKey.stream().map(r -> r.points).filter(p -> p >= 40).sorted(Comparator.reverseOrder()).toList();
        same("derived", high, results.findByPlayerAndPointsGreaterThanEqualOrderByPointsDesc("player-2", 40).stream().map(r -> r.points).toList());
        same("in", 29, results.findByPlayerIn(List.of("player-0", "player-5")).size());
        same("top", List.of(99, 98, 97), results.findTop3ByOrderByPointsDesc().stream().map(r -> r.points).toList());
        same("count", (long) ofKey.size(), results.countByPlayer("player-2"));
        same("exists", List.of(true, false), List.of(results.existsByPlayer("player-2"), results.existsByPlayer("player-7")));
        same("sum", sum(ofKey, r -> r.points), results.sum("player-2").get(0));
        same("distinct", 7, results.players().size());
    }

    private static void bulk(Results results) {
        List<Result> more = IntStream.range(2000, 2300).mapToObj(Result::new).toList();
        List<Result> saved = list(results.saveAll(more));
        same("saved", more.size(), saved.size());
        same("count", ITEMS + 300L, results.count());
        results.deleteAll(saved);
        same("count after", (long) ITEMS, results.count());
    }

    private static long sum(List<Result> items, ToIntFunction<Result> value) {
        return items.stream().mapToInt(value).sum();
    }

    private static List<Result> everyPage(Page<Result> first, Function<Pageable, Page<Result>> read) {
        return everySlice(first, read::apply);
    }

    /** All items of a slice and of those after it. */
    private static List<Result> everySlice(Slice<Result> first, Function<Pageable, Slice<Result>> read) {
        List<Result> all = new ArrayList<>(first.getContent());
        for (Slice<Result> slice = first; slice.hasNext(); all.addAll(slice.getContent())) {
            slice = read.apply(slice.nextPageable());
        }
        return all;
    }

    private static List<Result> list(Iterable<Result> items) {
        return StreamSupport.stream(items.spliterator(), false).toList();
    }

    private static void same(String what, Object want, Object got) {
        if (!want.equals(got)) {
            throw new AssertionError(what + ": " + got + ", want " + want);
        }
    }
}
