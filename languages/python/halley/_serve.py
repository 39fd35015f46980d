"""Loads a function and answers Halley's calls."""

import asyncio
import importlib
import inspect
import logging
import os
import queue
import sys
import threading
import traceback
from typing import Any, Callable, Dict, List, Optional

from ._channel import VERSION, Channel, LogHandler, open_channel
from ._types import Change, Context, changes_of
from ._verdicts import MAX_ERROR, Verdict, answer, describe

Function = Callable[..., Any]


def main(arguments: List[str]) -> None:
    if len(arguments) != 1:
        sys.exit("usage: python3 -m halley MODULE[:FUNCTION]")
    channel = open_channel()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    logging.basicConfig(level=logging.INFO, handlers=[LogHandler(channel)])
    sys.path.insert(0, os.getcwd())
    calls = Calls(channel, load(arguments[0]))
    channel.send({"ready": VERSION})
    calls.serve()


def load(name: str) -> Function:
    """Returns the function of MODULE[:FUNCTION], with two parameters."""
    module, _, attribute = name.partition(":")
    if module.endswith(".py"):
        module = module[: -len(".py")].replace("/", ".")
    attribute = attribute or "handle"
    found = getattr(importlib.import_module(module), attribute, None)
    if found is None:
        sys.exit(f"module {module} has no function {attribute}: write def {attribute}(changes), or name another one as {module}:NAME")
    if not callable(found):
        sys.exit(f"{module}:{attribute} is {found!r}, which cannot be called: write def {attribute}(changes)")
    return with_context(found, f"{module}:{attribute}")


def with_context(function: Function, name: str) -> Function:
    """Returns the function as one of changes and context."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # of a builtin
        return function
    if fits(signature, 2):
        return function
    if fits(signature, 1):
        return lambda changes, _: function(changes)
    sys.exit(f"{name}{signature} cannot be called: it must take (changes) or (changes, context)")


def fits(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


class Calls:
    """Answers one call after the other, in the main thread. Another thread reads the channel.

    lock guards running and task.
    """

    def __init__(self, channel: Channel, function: Function) -> None:
        self._channel = channel
        self._function = function
        self._requests: "queue.SimpleQueue[Optional[Dict[str, Any]]]" = queue.SimpleQueue()
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        self._running: Optional[Context] = None
        self._task: "Optional[asyncio.Future[Any]]" = None

    def serve(self) -> None:
        """Returns when Halley has closed the channel between two calls."""
        threading.Thread(target=self._read, name="halley", daemon=True).start()
        for request in iter(self._requests.get, None):
            reply = self._reply(request)
            self._channel.leave_if_forked()
            with self._lock:
                self._running = self._task = None
            self._channel.send(reply)
        self._loop.close()

    def _read(self) -> None:
        for request in self._channel.requests():
            if "cancel" in request:
                self._cancel(request["cancel"])
            else:
                self._requests.put(request)
        with self._lock:
            if self._running is not None:
                os._exit(1)  # Halley is gone: its changes are another process's by now
        self._requests.put(None)

    def _cancel(self, call: int) -> None:
        with self._lock:
            if self._running is not None and self._running.call == call:
                self._running._cancelled.set()
                if self._task is not None:
                    self._loop.call_soon_threadsafe(self._task.cancel)

    def _reply(self, request: Dict[str, Any]) -> Dict[str, Any]:
        context, changes = Context(request), changes_of(request)
        if not changes:
            return {"call": context.call}  # the command check tries the function
        with self._lock:
            self._running = context
        try:
            return answer(context.call, self._call(changes, context), changes)
        except Verdict as verdict:
            return self._raised(verdict, context, changes)
        except (Exception, asyncio.CancelledError) as error:
            return {"call": context.call, "error": describe_raised(error)}

    def _call(self, changes: List[Change], context: Context) -> Any:
        returned = self._function(changes, context)
        if not inspect.isawaitable(returned):
            return returned
        task = asyncio.ensure_future(returned, loop=self._loop)
        with self._lock:
            self._task = task
            if context.cancelled:
                task.cancel()
        return self._loop.run_until_complete(task)

    def _raised(self, verdict: Verdict, context: Context, changes: List[Change]) -> Dict[str, Any]:
        try:
            return answer(context.call, verdict, changes)
        except TypeError as error:
            return {"call": context.call, "error": describe_raised(error)}


def describe_raised(error: BaseException) -> str:
    """Returns the error and the lines of the function that led to it."""
    own = os.path.dirname(__file__)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if os.path.dirname(frame.filename) != own]
    lines = "".join(traceback.format_list(frames)).rstrip()
    return f"{describe(error)}\n{lines}"[:MAX_ERROR].rstrip()
