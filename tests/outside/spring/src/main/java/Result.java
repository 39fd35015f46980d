import com.azure.spring.data.cosmos.core.mapping.Container;
import com.azure.spring.data.cosmos.core.mapping.PartitionKey;
import org.springframework.data.annotation.Id;
import org.springframework.data.annotation.Version;

/** An item of the container results, which has four ranges. */
@Container(containerName = "results", ru = "40000")
public class Result {
    @Id
    public String id;

    @PartitionKey
    public String player;

    public int points;

    @Version
    public String etag;

    public Result() {}

    Result(int number) {
        id = "result-" + number;
        player = "player-" + number % 7;
        points = number * 37 % 100; // each number below 100 once
    }
}
