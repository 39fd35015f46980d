"""A function of a benchmark: it looks at each document, as feed.py does."""


def handle(changes):
    visited = 0
    for change in changes:
        visited += change.document["id"] != ""
