"""A function that does what the property "do" of its first document says."""
import asyncio
import logging
import os
import signal
import sys
import time

from halley import Failed, FailedFrom, RetryAfter, Skip
from halley.testing import upsert

VERDICTS = {
    "failed": lambda changes: [Failed("busy", changes[0], changes[2])],
    "failed from": lambda changes: FailedFrom("from here", changes[1]),
    "retry after": lambda changes: [RetryAfter("tomorrow", 3600, changes[1])],
    "retry all after": lambda changes: RetryAfter("tomorrow", 3600),
    "skip": lambda changes: [Skip(ValueError("no total"), changes[0])],
    "skip all": lambda changes: Skip("never"),
    "garbage": lambda changes: "x" * (6 << 20),
    "a dictionary": lambda changes: {"status": "ok"},
    "a foreign change": lambda changes: [Failed("busy", upsert({"id": "?"}))],
    "two on the batch": lambda changes: [Failed("busy"), Skip("never")],
    "none": lambda changes: None,
}


def handle(changes, context):
    todo = wish(changes)
    if todo in VERDICTS:
        return VERDICTS[todo](changes)
    if todo == "print":
        print("printed")
        sys.stderr.write("complained\n")
        os.system("echo from a child")
        logging.getLogger("shop").warning("logged %d", 7, extra={"order": changes[0].id})
    if todo == "context":
        print(f"{context.function} {context.range} {context.epoch} {context.attempt} {context.traceparent} {context.remaining > 0}")
    if todo == "raise":
        raise KeyError("total")
    if todo == "raise a verdict":
        raise Skip("never", changes[1])
    if todo == "raise 6 MB":
        raise ValueError("x" * (6 << 20))
    if todo == "exit":
        print("leaving", file=sys.stderr)
        sys.exit(3)
    if todo == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if todo == "hang":
        if os.fork() == 0:
            time.sleep(3600)
        time.sleep(3600)
    if todo == "fork" and os.fork() == 0:
        return [Skip("the fork answers", changes[0])]
    if todo == "answer twice":
        os.write(4, b'{"call":%d}\n{"call":%d}\n' % (context.call, context.call))
    if todo == "write garbage":
        os.write(4, b"hello\n")
    if todo == "write 6 MB":
        os.write(4, b"x" * (6 << 20) + b"\n")
    if todo == "wait":
        print("waiting")
        context.wait_cancelled(3600)


async def handle_async(changes, context):
    todo = wish(changes)
    if todo == "raise":
        raise KeyError("total")
    if todo == "wait":
        print("waiting")
        await asyncio.sleep(3600)
    await asyncio.sleep(0)


def handle_documents(changes):
    wish(changes)


def handle_three(changes, context, more):
    pass


def wish(changes):
    return changes[0].document.get("do")


not_a_function = 7
