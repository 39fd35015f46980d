import com.azure.cosmos.ChangeFeedProcessorBuilder;
import com.azure.cosmos.models.ChangeFeedOperationType;
import com.azure.cosmos.models.ChangeFeedProcessorItem;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import java.util.function.Consumer;

/** The forms of the change feed processor, named as the methods of its builder. */
enum Form {
    handleChanges {
        @Override
        void handle(ChangeFeedProcessorBuilder builder, Consumer<Change> each) {
            builder.handleChanges(documents -> documents.forEach(document -> each.accept(latest(document))));
        }
    },
    handleLatestVersionChanges {
        @Override
        void handle(ChangeFeedProcessorBuilder builder, Consumer<Change> each) {
            builder.handleLatestVersionChanges(items -> items.forEach(item -> each.accept(latest(item.getCurrent()))));
        }
    },
    handleAllVersionsAndDeletesChanges {
        @Override
        void handle(ChangeFeedProcessorBuilder builder, Consumer<Change> each) {
            builder.handleAllVersionsAndDeletesChanges(
                (List<ChangeFeedProcessorItem> items) -> items.forEach(item -> each.accept(version(item))));
        }
    };

    abstract void handle(ChangeFeedProcessorBuilder builder, Consumer<Change> each);

    boolean hasAllVersions() {
        return this == handleAllVersionsAndDeletesChanges;
    }

    /** Reports whether ranges may merge: the others know ranges by id, or are refused by the service then. */
    boolean survivesMerges() {
        return this == handleLatestVersionChanges;
    }

    private static Change latest(JsonNode document) {
        return new Change(document.get("id").asText(), document.get("_lsn").asLong(), "is " + document.get("version"));
    }

    /** A version has the operation, and the item before it. */
    private static Change version(ChangeFeedProcessorItem item) {
        ChangeFeedOperationType operation = item.getChangeFeedMetaData().getOperationType();
        String before = item.getPrevious() == null ? "" : " of " + item.getPrevious().get("version");
        String text = switch (operation) {
            case CREATE, REPLACE -> operation + " as " + item.getCurrent().get("version") + before;
            case DELETE -> operation + before;
        };
        JsonNode named = operation == ChangeFeedOperationType.DELETE ? item.toJsonNode().get("metadata") : item.getCurrent();
        return new Change(named.get("id").asText(), item.getChangeFeedMetaData().getLogSequenceNumber(), text);
    }
}
