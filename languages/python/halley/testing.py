"""Tests of functions: one call, and its verdict as Halley reads it.

    from halley.testing import deliver, upsert

    def test_bad_orders_are_skipped():
        delivery = deliver(handle, upsert({"id": "1", "customer": "ada"}, "ada"))
        assert delivery.skipped == ["1"]
"""

import asyncio
import inspect
from typing import Any, Callable, Dict, List, Mapping, Optional

from ._serve import describe_raised, with_context
from ._types import Change, Context
from ._verdicts import Verdict, answer

Document = Mapping[str, Any]


def change(operation: str, document: Optional[Document], *key: Any, id: Optional[str] = None, previous: Optional[Document] = None) -> Change:
    """Returns a change. Its key is the values of the partition key."""
    return Change(
        {
            "index": 0,
            "id": id if id is not None else str((document or {}).get("id", "")),
            "partitionKey": list(key),
            "operation": operation,
            "lsn": 1,
            "time": "2026-01-01T00:00:00Z",
            "document": document,
            "previous": previous,
        }
    )


def upsert(document: Document, *key: Any) -> Change:
    return change("upsert", document, *key)


def create(document: Document, *key: Any) -> Change:
    return change("create", document, *key)


def replace(document: Document, previous: Document, *key: Any) -> Change:
    return change("replace", document, *key, previous=previous)


def delete(id: str, *key: Any) -> Change:
    return change("delete", None, *key, id=id)


class Delivery:
    """The verdict of a call. The lists have the ids of documents, in the order of the call."""

    def __init__(self, changes: List[Change], reply: Mapping[str, Any]) -> None:
        by_index: Dict[int, Mapping[str, Any]] = {result["index"]: result for result in reply.get("results", [])}
        if "error" in reply:
            first = reply.get("failedFrom", 0)
            by_index = {c.index: {"status": "retry", **reply} for c in changes if c.index >= first}
        final = all(result["status"] == "skip" for result in by_index.values())
        ids = {c.index: c.id for c in changes}
        self.error: str = "; ".join(dict.fromkeys(result["error"] for result in by_index.values()))
        self.handled: List[str] = [c.id for c in changes if c.index not in by_index]
        self.skipped: List[str] = [ids[i] for i in sorted(by_index) if final]
        self.postponed: Dict[str, float] = {ids[i]: r["retryAfter"] for i, r in sorted(by_index.items()) if "retryAfter" in r}
        self.retried: List[str] = [ids[i] for i in sorted(by_index) if not final and ids[i] not in self.postponed]

    def __repr__(self) -> str:
        return f"Delivery(handled={self.handled}, retried={self.retried}, postponed={self.postponed}, skipped={self.skipped}, error={self.error!r})"


def deliver(function: Callable[..., Any], *changes: Change, attempt: int = 1, epoch: int = 1) -> Delivery:
    """Calls the function as Halley does, and returns its verdict. Errors of the function are in it."""
    called = with_context(function, getattr(function, "__qualname__", "function"))
    numbered = [Change({**c._raw, "index": i, "lsn": c.lsn + i}) for i, c in enumerate(changes)]
    context = Context({"function": "test", "range": "0", "epoch": epoch, "attempt": attempt, "call": 1})
    try:
        returned = called(numbered, context)
        if inspect.isawaitable(returned):
            returned = asyncio.run(_wait(returned))
        reply = answer(1, returned, numbered)
    except Verdict as verdict:
        reply = answer(1, verdict, numbered)
    except Exception as error:
        reply = {"error": describe_raised(error)}
    return Delivery(numbered, reply)


async def _wait(awaitable: Any) -> Any:
    return await awaitable
