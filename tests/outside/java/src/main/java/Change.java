/** A change of an item that a processor received, with its position in the feed of its range. */
record Change(String id, long lsn, String text) {}
