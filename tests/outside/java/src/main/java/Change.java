/** What a processor was told of an item, and where in the feed of its range. */
record Change(String id, long lsn, String text) {}
