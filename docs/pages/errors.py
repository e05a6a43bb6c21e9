"""The errors page: exit codes, and the exception behind each."""

from __future__ import annotations

from docs.pages.markdown import code, first_paragraph, join, table
from rota.core import errors
from rota.core.errors import RotaError

INTRODUCTION = """\
# Exit codes and exceptions

Every failure has one class in Python and one exit code on the command line; the message says what was wrong and what
would be right. A refused call has changed nothing."""

CODES = {
    0: "it worked",
    1: "it failed: the store cannot be read or written, or `rota doctor` found something bad",
    2: "usage: the request itself is wrong",
    3: "not found: no such job, worker, queue or database",
    4: "conflict: someone else holds it, or its state does not allow this",
    5: "stale: the claim is no longer yours, because its token or its lease was lost",
    6: "refused, for now: queue full, paused, nothing ready, limit reached, not healthy, time ran out",
    7: "register again: this worker id is unknown",
}

IN_A_LOOP = """\
## In a loop

```console
$ rota claim "$JOB" "$WORKER_ID"
$ case $? in
>   0) ;;                          # it is yours
>   4) continue ;;                 # someone was faster: take the next
>   6) continue ;;                 # nothing to do, or not now
>   7) register_again; continue ;;
>   *) exit 1 ;;
> esac
```"""


def classes() -> list[type[RotaError]]:
    """Return every exception of rota, in the order of the source."""
    found = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, RotaError)]
    return [each for each in found if each.__module__ == errors.__name__]


def page() -> str:
    codes = [(code(str(number)), meaning, _names(number)) for number, meaning in CODES.items()]
    tree = [
        (code(each.__name__), code(each.__mro__[1].__name__), code(str(each.exit_code)), first_paragraph(each.__doc__))
        for each in classes()
    ]
    return join(
        INTRODUCTION,
        table(("exit code", "meaning", "exceptions"), codes),
        "## Exceptions\n\nAll of them are in `rota.core.errors`.",
        table(("exception", "is a", "exit code", "raised when"), tree),
        IN_A_LOOP,
    )


def _names(number: int) -> str:
    return ", ".join(code(each.__name__) for each in classes() if each.exit_code == number) or "–"
