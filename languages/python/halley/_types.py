"""The arguments of a function."""

import threading
import time
from datetime import datetime, timezone
from typing import Any, Dict, List, Mapping, Optional


def moment(text: str) -> datetime:
    """Reads a time of the protocol, whose fraction may have any number of digits."""
    seconds, _, fraction = text.rstrip("Z").partition(".")
    microseconds = int((fraction + "000000")[:6]) if fraction else 0
    return datetime.strptime(seconds, "%Y-%m-%dT%H:%M:%S").replace(microsecond=microseconds, tzinfo=timezone.utc)


class Change:
    """One change of a document. Its properties are those of the feed."""

    __slots__ = ("index", "_columns")

    def __init__(self, columns: Mapping[str, List[Any]], index: int) -> None:
        self.index = index  # the place in the call
        self._columns = columns

    @property
    def id(self) -> str:
        """The document's id."""
        return self._columns["ids"][self.index]

    @property
    def partition_key(self) -> List[Any]:
        """The values of the partition key. One that the document lacks is {}."""
        key = self._columns["partitionKeys"][self.index]
        return key if isinstance(key, list) else [key]

    @property
    def operation(self) -> str:
        """upsert; in all-versions mode create, replace, delete or expire; delete for a soft delete."""
        operations = self._columns.get("operations")
        return operations[self.index] if operations else "upsert"

    @property
    def deleted(self) -> bool:
        """Whether the document is deleted, or has expired."""
        return self.operation in ("delete", "expire")

    @property
    def lsn(self) -> int:
        """The position in the range. With the epoch of the context it orders the versions of a document."""
        return self._columns["lsns"][self.index]

    @property
    def time(self) -> datetime:
        """The time at which the document was written."""
        return moment(self._columns["times"][self.index])

    @property
    def document(self) -> Any:
        """The document after the change; None for a delete in all-versions mode."""
        return self._columns["documents"][self.index]

    @property
    def previous(self) -> Optional[Dict[str, Any]]:
        """The document before the change; None if the service does not say."""
        previous = self._columns.get("previous")
        return previous[self.index] if previous else None

    def __repr__(self) -> str:
        return f"Change({self.operation} {self.id!r}, lsn={self.lsn})"


def changes_of(request: Dict[str, Any]) -> List[Change]:
    """Returns the changes of a call. It lists each field of all changes together."""
    documents = request["documents"]
    if "ids" not in request:  # then the documents have them; the function may change those
        request["ids"] = [document["id"] for document in documents]
    return [Change(request, index) for index in range(len(documents))]


class Context:
    """One call of the function."""

    __slots__ = ("function", "range", "epoch", "attempt", "call", "traceparent", "deadline", "_cancelled")

    def __init__(self, request: Mapping[str, Any]) -> None:
        self.function: str = request["function"]
        self.range: str = request["range"]
        self.epoch: int = request["epoch"]  # acquisitions of the range so far
        self.attempt: int = request["attempt"]  # 1 on the first delivery of these changes
        self.call: int = request["call"]
        self.traceparent: str = request.get("traceparent", "")  # W3C Trace Context
        deadline = request.get("deadline")
        self.deadline: Optional[datetime] = moment(deadline) if deadline else None  # then the process is killed
        self._cancelled = threading.Event()

    @property
    def remaining(self) -> Optional[float]:
        """Seconds until the deadline; None if the call has none."""
        return None if self.deadline is None else self.deadline.timestamp() - time.time()

    @property
    def cancelled(self) -> bool:
        """Whether Halley has cancelled the call: the host stops or has lost the range.

        An async function is also cancelled as a task.
        """
        return self._cancelled.is_set()

    def wait_cancelled(self, seconds: float) -> bool:
        """Waits, and returns True at once when the call is cancelled."""
        return self._cancelled.wait(seconds)
