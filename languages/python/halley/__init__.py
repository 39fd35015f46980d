"""Functions in Python that Halley calls with the changes of an Azure Cosmos DB container.

A function gets the changes of one call, in the order of the feed, and may be async:

    from halley import Change, Context, Skip

    def handle(changes: list[Change], context: Context) -> None:
        for change in changes:
            print(change.id, change.document)

It returns None if all changes are handled. What it raises or returns otherwise is its
verdict: Failed, FailedFrom, RetryAfter or Skip, or a list of them. Any other exception fails
the whole batch, which Halley delivers again. All that it prints or logs is in Halley's log.

    python3 -m halley orders           the function handle of the module orders
    python3 -m halley orders:archive   another function of it
"""

from ._types import Change, Context
from ._verdicts import Failed, FailedFrom, RetryAfter, Skip, Verdict

__all__ = ["Change", "Context", "Failed", "FailedFrom", "RetryAfter", "Skip", "Verdict"]
