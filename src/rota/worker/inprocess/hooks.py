"""The two hooks of `run_worker`, `execute` and `capture_io`: how they are called, and how their answers are read."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rota.core.claim import Failed
from rota.core.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.job import Job

PATHS = ("transcript_path", "stderr_path")
LONGEST_PATH = 4096
_MISSING = object()


def check(execute: object, capture_io: object) -> None:
    """Refuse hooks that cannot be called as `run_worker` calls them."""
    if not callable(execute):
        raise BadInput(f"execute must be a function, execute(job, ctx), not {execute!r:.60}")
    if capture_io is not None and not callable(capture_io):
        raise BadInput(f"capture_io must be a function, capture_io(run_id, job), not {capture_io!r:.60}")
    if callable(capture_io):
        with_job(capture_io)


def with_job(capture_io: Callable[..., Any]) -> Callable[[str, Job], Any]:
    """Return the hook as a function of the run's id and the job, though it may take only the run's id."""
    try:
        signature = inspect.signature(capture_io)
    # A function written in C may have no signature.
    except ValueError:
        return capture_io
    for count in (2, 1):
        try:
            signature.bind(*range(count))
        except TypeError:
            continue
        return capture_io if count == 2 else lambda run_id, job: capture_io(run_id)
    raise BadInput(f"capture_io takes (run_id, job) or (run_id), not {signature}")


def failure(answer: Any) -> Failed | None:
    """Return the failure that an answer of `execute` reports: one with a `success` that is false."""
    success = _field(answer, "success")
    if success is _MISSING or success:
        return None
    error = _field(answer, "error")
    text = "" if error is _MISSING or error is None else str(error)
    return Failed(text.encode("utf-8", "replace").decode() or "execute was not successful, and did not say why")


def result(answer: Any) -> Any:
    """Return the job's result: `result` or `output` of a success; an answer without `success` as it is."""
    if _field(answer, "success") is _MISSING:
        return answer
    for name in ("result", "output"):
        value = _field(answer, name)
        if value is not _MISSING and value is not None:
            return value
    return None


def paths(answer: Any) -> tuple[str | None, str | None]:
    """Return the two paths that `capture_io` named, made absolute."""
    if answer is None:
        return None, None
    if isinstance(answer, Mapping):
        unknown = [name for name in answer if name not in PATHS]
        if unknown:
            raise BadInput(f"capture_io names {unknown[0]!r}: it may name {' and '.join(PATHS)}")
    elif all(_field(answer, name) is _MISSING for name in PATHS):
        raise BadInput(f"capture_io answered {answer!r:.60}: it must name {' and '.join(PATHS)}, or be None")
    transcript, stderr = (_path(name, _field(answer, name)) for name in PATHS)
    return transcript, stderr


def _path(name: str, value: Any) -> str | None:
    if value is _MISSING or value is None:
        return None
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text or len(text) > LONGEST_PATH:
        raise BadInput(f"{name} of capture_io must be a path of at most {LONGEST_PATH} characters, not {value!r:.60}")
    return os.path.abspath(text)


def _field(answer: Any, name: str) -> Any:
    return answer.get(name, _MISSING) if isinstance(answer, Mapping) else getattr(answer, name, _MISSING)
