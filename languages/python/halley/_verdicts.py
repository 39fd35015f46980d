"""The verdicts of a function, and how they become an answer."""

from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, Union

from ._types import Change

Error = Union[str, BaseException]

MAX_ERROR = 16 << 10  # characters; Halley shows fewer


class Verdict(Exception):
    """A verdict that a function raises or returns: Failed, FailedFrom, RetryAfter or Skip."""

    status = "retry"

    def __init__(self, error: Error, *changes: Change) -> None:
        if type(self) is Verdict:
            raise TypeError("Verdict is a base class: use Failed, FailedFrom, RetryAfter or Skip")
        for change in changes:
            if not isinstance(change, Change):
                raise TypeError(f"{type(self).__name__}({error!r}, …) names {change!r}, which is not a Change")
        super().__init__(describe(error))
        self.changes: Tuple[Change, ...] = changes

    def fields(self) -> Dict[str, Any]:
        return {"status": self.status, "error": str(self)}


class Failed(Verdict):
    """These changes failed, and all others were handled. Without changes, the whole batch failed.

    If a change of a partition key failed, name the later ones of its key, too: only the
    named ones are delivered again.
    """


class FailedFrom(Verdict):
    """The batch was handled up to this change, but not including it."""

    def __init__(self, error: Error, first: Change) -> None:
        super().__init__(error, first)


class RetryAfter(Verdict):
    """The changes, or the batch, can be handled after so many seconds and not before.

    Halley keeps them in the dead letter store until then.
    """

    def __init__(self, error: Error, seconds: float, *changes: Change) -> None:
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
            raise TypeError(f"RetryAfter({error!r}, {seconds!r}): the seconds must be a number above 0")
        super().__init__(error, *changes)
        self.seconds = seconds

    def fields(self) -> Dict[str, Any]:
        return {**super().fields(), "retryAfter": self.seconds}


class Skip(Verdict):
    """The changes, or the batch, can never be handled: Halley keeps them as dead letters at once."""

    status = "skip"


def describe(error: Error) -> str:
    if isinstance(error, BaseException) and not isinstance(error, Verdict):
        text = f"{type(error).__name__}: {error}"
    else:
        text = str(error)
    return text[:MAX_ERROR] or "failed without a message"


def answer(call: int, returned: Any, changes: Sequence[Change]) -> Dict[str, Any]:
    """Returns the answer to a call. It raises TypeError if the function returned something else."""
    verdicts = list_of(returned)
    for verdict in verdicts:
        for change in verdict.changes:
            if change.index >= len(changes) or changes[change.index] is not change:
                raise TypeError(f"{type(verdict).__name__} names {change!r}, which is not a change of this call")
    for verdict in verdicts:
        if not verdict.changes or isinstance(verdict, FailedFrom):
            return whole(call, verdict, len(verdicts))
    return {"call": call, "results": results(verdicts)}


def list_of(returned: Any) -> List[Verdict]:
    if returned is None:
        return []
    if isinstance(returned, Verdict):
        return [returned]
    if isinstance(returned, Iterable) and not isinstance(returned, (str, bytes, dict)):
        verdicts = list(returned)
        if all(isinstance(verdict, Verdict) for verdict in verdicts):
            return verdicts
    text = repr(returned)
    raise TypeError(
        f"the function returned {text[:200]}{'…' if len(text) > 200 else ''}: "
        "return None, or a list of Failed, FailedFrom, RetryAfter and Skip"
    )


def whole(call: int, verdict: Verdict, count: int) -> Dict[str, Any]:
    """Returns the answer of a verdict on the batch, or on all changes from one on."""
    if count > 1:
        raise TypeError(f"{type(verdict).__name__}({str(verdict)!r}) is a verdict on more than its changes: return no other with it")
    first: Optional[int] = verdict.changes[0].index if isinstance(verdict, FailedFrom) else None
    return {"call": call, **verdict.fields(), **({} if first is None else {"failedFrom": first})}


def results(verdicts: Iterable[Verdict]) -> List[Dict[str, Any]]:
    """Returns the results of verdicts on changes. A change that two name has the worse one for its key: it is delivered again."""
    named: Dict[int, Dict[str, Any]] = {}
    for verdict in verdicts:
        for change in verdict.changes:
            earlier = named.get(change.index)
            if earlier is None or earlier["status"] == "skip":
                named[change.index] = {"index": change.index, **verdict.fields()}
    return list(named.values())
