"""What commands wrote, as files beside the database: found for readers, removed with their runs."""

from __future__ import annotations

import os

from rota.core.capture import ERR, OUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.core.claim import Captured


def known(folder: str, captured: Captured) -> Captured:
    """The same with rota's own files, for a run that named none and has them."""
    if captured.transcript_path is not None or captured.stderr_path is not None:
        return captured
    start = os.path.join(folder, captured.run_id)
    if not os.path.exists(start + OUT):
        return captured
    return captured.but(transcript_path=start + OUT, stderr_path=start + ERR)


def remove(folder: str, runs: Iterable[str]) -> None:
    """Forget what these runs wrote."""
    if not os.path.isdir(folder):
        return
    for run in runs:
        for ending in (OUT, ERR):
            try:
                os.unlink(os.path.join(folder, run + ending))
            except FileNotFoundError:
                pass
