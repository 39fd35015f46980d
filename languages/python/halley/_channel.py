"""The channel to Halley: lines of JSON on two descriptors."""

import gc
import json
import logging
import os
import sys
import threading
from typing import Any, Dict, Iterator, List, Tuple

from ._verdicts import MAX_ERROR

VARIABLE = "HALLEY_CHANNEL"
VERSION = 2
CHUNK = 1 << 20  # bytes of one read at most; Halley's pipe has as many


class Channel:
    """Reads requests and writes messages. Any thread may write."""

    def __init__(self, reader: int, writer: int) -> None:
        os.set_inheritable(reader, False)
        os.set_inheritable(writer, False)
        self._reader = reader
        self._writer = writer
        self._lock = threading.Lock()
        self._process = os.getpid()

    def requests(self) -> Iterator[Dict[str, Any]]:
        """Yields the messages of Halley until it closes the channel."""
        parts: List[bytes] = []  # of a line that has not ended
        while chunk := os.read(self._reader, CHUNK):  # io.BufferedReader is slow for lines of megabytes
            *ends, rest = chunk.split(b"\n")
            for end in ends:
                parts.append(end)
                line, parts = b"".join(parts), []
                yield parse(line)
            parts.append(rest)

    def send(self, message: Dict[str, Any]) -> None:
        if os.getpid() != self._process:
            return  # a fork of the function is not the function
        rest = memoryview(json.dumps(message, separators=(",", ":"), default=str).encode() + b"\n")
        with self._lock:
            while rest:
                rest = rest[os.write(self._writer, rest) :]

    def leave_if_forked(self) -> None:
        """Ends a fork that has returned from the function: it must not answer."""
        if os.getpid() != self._process:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)


def parse(line: bytes) -> Any:
    """Reads JSON. It has no cycles, so the collector need not look for them meanwhile."""
    collects = gc.isenabled()
    gc.disable()
    try:
        return json.loads(line)
    finally:
        if collects:
            gc.enable()


def open_channel() -> Channel:
    """Opens the channel that Halley has given this process."""
    named = os.environ.pop(VARIABLE, "")
    if not named:
        sys.exit("python3 -m halley is started by halley: set HALLEY_<FUNCTION>_COMMAND to this command, and run halley dev")
    reader, writer = (int(descriptor) for descriptor in named.split(","))
    if reader == 0:
        reader, writer = apart_from_output()
    return Channel(reader, writer)


def apart_from_output() -> Tuple[int, int]:
    """Moves the channel away from standard input and output, so that print goes to the log."""
    reader, writer = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    return reader, writer


class LogHandler(logging.Handler):
    """Sends records of the package logging to Halley's log, with their extra fields."""

    standard = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel

    def emit(self, record: logging.LogRecord) -> None:
        try:
            fields = {name: value for name, value in vars(record).items() if name not in self.standard}
            if record.name != "root":
                fields["source"] = record.name
            if record.exc_info:
                fields["error"] = logging.Formatter().formatException(record.exc_info)[:MAX_ERROR]
            self._channel.send({"log": {"level": level(record.levelno), "message": record.getMessage()[:MAX_ERROR], "fields": fields}})
        except Exception:
            self.handleError(record)


def level(number: int) -> str:
    if number >= logging.ERROR:
        return "error"
    if number >= logging.WARNING:
        return "warn"
    return "info" if number >= logging.INFO else "debug"
