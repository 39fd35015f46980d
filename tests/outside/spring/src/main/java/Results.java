import com.azure.spring.data.cosmos.repository.CosmosRepository;
import com.azure.spring.data.cosmos.repository.Query;
import java.util.Collection;
import java.util.List;
import org.springframework.data.domain.Page;
import org.springframework.data.domain.Pageable;
import org.springframework.data.domain.Slice;
import org.springframework.data.repository.query.Param;

/** Queries that Spring Data derives from names, or that are given. */
public interface Results extends CosmosRepository<Result, String> {
    List<Result> findByPlayerAndPointsGreaterThanEqualOrderByPointsDesc(String player, int points);

    List<Result> findByPlayerIn(Collection<String> players);

    List<Result> findTop3ByOrderByPointsDesc();

    Page<Result> findByPointsLessThan(int points, Pageable page);

    Slice<Result> findByPointsGreaterThan(int points, Pageable page);

    long countByPlayer(String player);

    boolean existsByPlayer(String player);

    @Query("SELECT VALUE SUM(c.points) FROM c WHERE c.player = @player")
    List<Long> sum(@Param("player") String player);

    @Query("SELECT DISTINCT VALUE c.player FROM c")
    List<String> players();

    @Query("SELECT * FROM c WHERE STARTSWITH(c.player, @prefix)")
    Page<Result> startingWith(@Param("prefix") String prefix, Pageable page);
}
