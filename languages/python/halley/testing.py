"""Tests of functions: one call, and its verdict as Halley reads it; and convergence by seeds.

    from halley.testing import deliver, upsert

    def test_bad_orders_are_skipped():
        delivery = deliver(handle, upsert({"id": "1", "customer": "ada"}, "ada"))
        assert delivery.skipped == ["1"]
"""

import asyncio
import inspect
import json
import os
import random
import shutil
import subprocess
import sys
from typing import Any, Callable, Dict, List, Mapping, Optional

from ._serve import describe_raised, with_context
from ._types import Change, Context, changes_of
from ._verdicts import Verdict, answer

Document = Mapping[str, Any]


def change(operation: str, document: Optional[Document], *key: Any, id: Optional[str] = None, previous: Optional[Document] = None) -> Change:
    """Returns a change. Its key is the values of the partition key."""
    columns = {
        "ids": [id if id is not None else str((document or {}).get("id", ""))],
        "partitionKeys": [list(key)],
        "operations": [operation],
        "lsns": [1],
        "times": ["2026-01-01T00:00:00Z"],
        "documents": [document],
        "previous": [previous],
    }
    return Change(columns, 0)


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
    request: Dict[str, List[Any]] = {name: [c._columns[name][c.index] for c in changes] for name in changes[0]._columns} if changes else {"documents": []}
    request["lsns"] = [c.lsn + i for i, c in enumerate(changes)]
    numbered = changes_of(request)
    context = Context({"function": "test", "range": "0", "epoch": epoch, "attempt": attempt, "call": 1})
    return Delivery(numbered, _reply(function, numbered, context))


def _reply(function: Callable[..., Any], changes: List[Change], context: Context) -> Dict[str, Any]:
    called = with_context(function, getattr(function, "__qualname__", "function"))
    try:
        returned = called(changes, context)
        if inspect.isawaitable(returned):
            returned = asyncio.run(_wait(returned))
        return answer(context.call, returned, changes)
    except Verdict as verdict:
        return answer(context.call, verdict, changes)
    except Exception as error:
        return {"call": context.call, "error": describe_raised(error)}


async def _wait(awaitable: Any) -> Any:
    return await awaitable


def converges(
    open: Callable[[], Any],
    document: Callable[[random.Random, str, str], Any],
    *,
    partition_key: str = "/key",
    want: Optional[Callable[[List[Any]], Any]] = None,
    soft_delete_property: str = "",
    all_versions: bool = False,
    block_keys: bool = False,
    write_once: bool = False,
    seeds: int = 20,
    seed: int = 0,
) -> None:
    """Tests that the sink of a function ends up the same whatever happens on the way.

    Halley delivers a history of documents on an embedded account, once plainly and then with
    redeliveries, crashes, late deliveries, failures and splits, by seeds that are always the
    same. open returns an empty sink: an object with start(), which returns the function as a
    new process makes it, and state(), which returns the content of the sink as JSON knows it.
    It may have stop(function). document returns a version of a document, from random alone.
    want returns the state that the sink must have, from the documents that exist at the end.
    A failure names its seed; seed repeats it alone.
    """
    scenario = {
        "partitionKey": partition_key,
        "softDeleteProperty": soft_delete_property,
        "allVersions": all_versions,
        "blockKeys": block_keys,
        "writeOnce": write_once,
        "want": want is not None,
        "seeds": seeds,
        "seed": seed,
    }
    kit = _Kit(open, document, want)
    with subprocess.Popen([_binary(), "test"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        failure = kit.serve(process, scenario)
    if failure:
        raise AssertionError(failure)


def _binary() -> str:
    """Returns the binary of the wheel: next to the interpreter, or in PATH."""
    found = shutil.which("halley", path=os.path.dirname(sys.executable)) or shutil.which("halley")
    if found is None:
        raise FileNotFoundError("halley is not in PATH: install the wheel of halley, whose binary runs the test")
    return found


class _Kit:
    """Answers the questions of halley test."""

    def __init__(self, open: Callable[[], Any], document: Callable[..., Any], want: Optional[Callable[..., Any]]) -> None:
        self._open, self._document, self._want = open, document, want
        self._sink: Any = None
        self._processes: Dict[int, Callable[..., Any]] = {}

    def serve(self, process: "subprocess.Popen[bytes]", scenario: Mapping[str, Any]) -> str:
        assert process.stdin is not None and process.stdout is not None
        message: Any = scenario
        while True:
            process.stdin.write(json.dumps(message, default=str).encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
            if not line:
                return f"halley test has ended with status {process.wait()}"
            question = json.loads(line)
            if question["ask"] == "done":
                return str(question.get("failure", ""))
            try:
                message = {"value": getattr(self, question["ask"])(question)}
            except Exception as error:
                message = {"error": describe_raised(error)}

    def open(self, question: Mapping[str, Any]) -> None:
        self._sink = self._open()

    def start(self, question: Mapping[str, Any]) -> None:
        self._processes[question["process"]] = self._sink.start()

    def call(self, question: Mapping[str, Any]) -> Any:
        request = question["request"]
        return _reply(self._processes[question["process"]], changes_of(request), Context(request))

    def stop(self, question: Mapping[str, Any]) -> None:
        function = self._processes.pop(question["process"])
        if hasattr(self._sink, "stop"):
            self._sink.stop(function)

    def state(self, question: Mapping[str, Any]) -> Any:
        return self._sink.state()

    def want(self, question: Mapping[str, Any]) -> Any:
        assert self._want is not None
        return self._want(question.get("documents", []))

    def document(self, question: Mapping[str, Any]) -> Any:
        return self._document(random.Random(question.get("random", 0)), question["id"], question["key"])
