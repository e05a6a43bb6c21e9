"""The codec of outcomes, shared by the pipe of a worker, the HTTP API and the store over HTTP.

In a document of an outcome, `result` is JSON as text; `delay` and `put_off` are in microseconds. Any program may have
written it, so decoding never raises: what makes no sense becomes a failure that says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

from rota.core import job as jobs
from rota.core.claim import Done, Failed, Released, Returned, Snoozed
from rota.core.frames import codec as frames
from rota.core.jsontext import encoder, sound
from rota.core.times import DAY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rota.core.claim import Outcome

LARGEST_RESULT = 256 * 1024
LONGEST_ERROR, LONGEST_NOTE = 16_384, 10_000
LONGEST_SNOOZE = 3650 * DAY
LOST_OUTCOME = "its outcome was lost: something else wrote into the worker's frame socket"
_encode_json = encoder()


def encode(outcome: Outcome) -> dict[str, Any]:
    """Return the document of an outcome, with long texts cut to what every reader keeps."""
    match outcome:
        case Done(result):
            return {"outcome": "done", "result": result}
        case Failed(error, again, reason, put_off):
            document = {"outcome": "failed", "error": error[:LONGEST_ERROR], "again": again, "reason": reason}
            return {**document, "put_off": put_off} if put_off else document
        case Snoozed(delay, note):
            return {"outcome": "snoozed", "delay": delay, "note": note and note[:LONGEST_NOTE]}
        case Released(note, jobs.UNKNOWN_KIND):
            return {"outcome": "released", "reason": jobs.UNKNOWN_KIND, "note": note and note[:LONGEST_NOTE]}
        case Released(note):
            return {"outcome": "released", "note": note and note[:LONGEST_NOTE]}
        case Returned():
            return {"outcome": "returned"}
        case other:
            assert_never(other)


def decode(document: Mapping[str, Any]) -> Outcome:
    """Return the outcome that a worker reports; one that makes no sense is a failure that says so."""
    # Nearly every outcome is this one, and an orchestrator decodes one for each job.
    if document.get("outcome") == "done":
        return _done(document.get("result"))
    note = text_of(document.get("note"), LONGEST_NOTE)
    match document:
        case {"outcome": "snoozed", "delay": int(delay)}:
            return Snoozed(min(max(1, delay), LONGEST_SNOOZE), note)
        # No other reason is a program's to give: the rest are the store's own.
        case {"outcome": "released"}:
            return Released(note, jobs.UNKNOWN_KIND if document.get("reason") == jobs.UNKNOWN_KIND else None)
        case {"outcome": "failed"}:
            error, reason = text_of(document.get("error"), LONGEST_ERROR), text_of(document.get("reason"), LONGEST_NOTE)
            return Failed(error or "failed, and did not say why", document.get("again") is not False, reason)
        case _:
            return Failed(f"reported no outcome that rota knows: {document.get('outcome')!r:.60}")


def decode_reported(document: Mapping[str, Any]) -> Outcome:
    """Return the outcome that a crew reports over HTTP: that of a worker, or one which only an orchestrator decides.

    A worker that could say of its own job that it spends no attempt might fail for ever.
    """
    if document.get("outcome") == "returned":
        return Returned()
    outcome, put_off = decode(document), document.get("put_off")
    if isinstance(outcome, Failed) and isinstance(put_off, int):
        return outcome.replace(put_off=min(max(0, put_off), LONGEST_SNOOZE))
    return outcome


def done_frame(job: int, token: int, outcome: Outcome) -> bytes:
    """Return the DONE frame of an outcome."""
    if isinstance(outcome, Done):
        # Written by hand, because a worker pays for this with every job.
        result = "null" if outcome.result is None else _encode_json(outcome.result)
        return f'DONE|{{"job":{job},"token":{token},"outcome":"done","result":{result}}}\n'.encode()
    return frames.encode(frames.DONE, {"job": job, "token": token, **encode(outcome)})


def json_text(value: object) -> str | None:
    """Return a result or checkpoint that a program reported; None if it is not JSON text, or too large."""
    return value if isinstance(value, str) and _problem(value) is None else None


def text_of(value: object, longest: int) -> str | None:
    """Return a reported text, cut and with half surrogate pairs replaced; None if it is no text."""
    return value[:longest].encode("utf-8", "replace").decode() if isinstance(value, str) else None


def _done(result: Any) -> Outcome:
    # The usual results, which need no check.
    if result is None or result == "null":
        return Done(result)
    problem = _problem(result)
    return Done(result) if problem is None else Failed(problem, again=False)


def _problem(result: object) -> str | None:
    """Return what is wrong with a result; None if it is JSON text that every reader takes."""
    if not isinstance(result, str) or len(result.encode("utf-8", "replace")) > LARGEST_RESULT:
        return f"the result is not text of at most {LARGEST_RESULT:,} bytes"
    try:
        sound(result)
    except ValueError as problem:
        return f"the result is not JSON: {problem}"
    return None
