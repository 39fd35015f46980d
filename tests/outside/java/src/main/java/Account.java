import com.azure.cosmos.ConsistencyLevel;
import com.azure.cosmos.CosmosAsyncClient;
import com.azure.cosmos.CosmosAsyncContainer;
import com.azure.cosmos.CosmosClientBuilder;
import com.azure.cosmos.models.ChangeFeedPolicy;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.ThroughputProperties;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.List;
import java.util.Map;

/** The account under test: its client, its containers, and the splits and merges that it is told to make. */
final class Account implements AutoCloseable {
    private static final String DATABASE = "java";
    private static final int RU_PER_RANGE = 10_000;
    private static final ObjectMapper JSON = new ObjectMapper();

    private final URI endpoint = URI.create(System.getenv("OUTSIDE_ENDPOINT"));
    private final HttpClient http = HttpClient.newHttpClient();
    private final CosmosAsyncClient client = new CosmosClientBuilder()
        .endpoint(endpoint.toString())
        .key(System.getenv("OUTSIDE_KEY"))
        .consistencyLevel(ConsistencyLevel.SESSION)
        .contentResponseOnWriteEnabled(true)
        .gatewayMode()
        .buildAsyncClient();

    Account() {
        client.createDatabaseIfNotExists(DATABASE).block();
    }

    /** Creates a container of several ranges, which keeps all versions of its items. */
    CosmosAsyncContainer items(String name, int ranges) {
        CosmosContainerProperties properties = new CosmosContainerProperties(name, "/key");
        properties.setChangeFeedPolicy(ChangeFeedPolicy.createAllVersionsAndDeletesPolicy(Duration.ofMinutes(10)));
        return create(properties, ranges);
    }

    /** Creates a container for leases, which the processor wants partitioned by id. */
    CosmosAsyncContainer leases(String name) {
        return create(new CosmosContainerProperties(name, "/id"), 1);
    }

    private CosmosAsyncContainer create(CosmosContainerProperties properties, int ranges) {
        ThroughputProperties throughput = ThroughputProperties.createManualThroughput(ranges * RU_PER_RANGE);
        client.getDatabase(DATABASE).createContainer(properties, throughput).block();
        return client.getDatabase(DATABASE).getContainer(properties.getId());
    }

    /** Divides a range in two, and returns their ids. */
    List<String> split(CosmosAsyncContainer container, String range) throws IOException, InterruptedException {
        JsonNode answer = reshape("split", Map.of("database", DATABASE, "container", container.getId(), "range", range));
        return List.of(answer.at("/children/0").asText(), answer.at("/children/1").asText());
    }

    /** Makes one range of several. */
    void merge(CosmosAsyncContainer container, List<String> ranges) throws IOException, InterruptedException {
        reshape("merge", Map.of("database", DATABASE, "container", container.getId(), "ranges", ranges));
    }

    private JsonNode reshape(String how, Map<String, Object> what) throws IOException, InterruptedException {
        HttpRequest request = HttpRequest.newBuilder(endpoint.resolve("/_emulator/" + how))
            .POST(HttpRequest.BodyPublishers.ofString(JSON.writeValueAsString(what)))
            .build();
        HttpResponse<String> response = http.send(request, HttpResponse.BodyHandlers.ofString());
        if (response.statusCode() != 200) {
            throw new IOException(how + " " + what + ": " + response.statusCode() + " " + response.body());
        }
        return JSON.readTree(response.body());
    }

    /** All documents of a container that satisfy a condition on c. */
    static List<JsonNode> query(CosmosAsyncContainer container, String condition) {
        return container.queryItems("SELECT * FROM c WHERE " + condition, new CosmosQueryRequestOptions(), JsonNode.class)
            .collectList()
            .block();
    }

    @Override
    public void close() {
        client.close();
    }
}
