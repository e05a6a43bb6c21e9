"""Plant deliberate bugs one by one in a scratch copy, and see that a test catches each: `./dev planted`.

It ends with 1 when a bug was not caught, no longer applies, or is described wrongly.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import threading
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from tests.planted import mutator
from tests.planted.data import BadData, load_bugs, load_parts, write_hint
from tests.planted.scratch import BROKEN, COLLECTION, PER_BUG, Scratch, Verdict
from tests.planted.sources import Sources

if TYPE_CHECKING:
    from tests.planted.data import Bug

ROOT = Path(__file__).parents[2]


def main(words: list[str]) -> int:
    if words[:1] == ["draw"]:
        return draw(words[1:])
    given = arguments().parse_args(words)
    try:
        bugs = chosen(load_bugs(), given.names, given.part)
        parts = load_parts()
    except BadData as error:
        print(f"dev: {error}", file=sys.stderr)
        return 2
    if given.list:
        for bug in bugs:
            print(f"{bug.name:<48} {bug.part:<14} {bug.symbol}")
        return 0
    for each in (signal.SIGINT, signal.SIGTERM):  # a shell that runs us in the background lets us ignore the first
        signal.signal(each, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="rp-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)  # some tests become another user
        if given.control:
            return control(bugs, Path(folder))
        verdicts = Run(bugs, parts, Path(folder), given.limit).with_copies(min(given.jobs, len(bugs)))
    if given.write_hints:
        for verdict in verdicts:
            if verdict.is_good and verdict.by and not verdict.bug.invariant and not verdict.by.endswith(COLLECTION):
                write_hint(verdict.bug, verdict.by)
    if given.json:
        Path(given.json).write_text(json.dumps([row(each) for each in verdicts], indent=1) + "\n", encoding="utf-8")
    return summarise(verdicts)


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./dev planted", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="plant only these bugs")
    parser.add_argument("--part", metavar="P", help="plant only the bugs of this part")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="how many copies work at once"
    )
    parser.add_argument("--limit", type=float, default=PER_BUG, metavar="S", help="seconds for one bug")
    parser.add_argument("--json", metavar="FILE", help="write the table of results to a file")
    parser.add_argument("--write-hints", action="store_true", help="write who caught each bug into the data")
    parser.add_argument("--control", action="store_true", help="only check that every hint passes on right sources")
    parser.add_argument("--list", action="store_true", help="list the bugs and plant none")
    return parser


def chosen(bugs: list[Bug], names: list[str], part: str | None) -> list[Bug]:
    if unknown := set(names) - {bug.name for bug in bugs}:
        raise BadData(f"no planted bug {', '.join(sorted(unknown))}: `./dev planted --list` lists them")
    found = [bug for bug in bugs if (not names or bug.name in names) and part in (None, bug.part)]
    if not found:
        raise BadData(f"no planted bug of part {part}")
    return found


class Run:
    """Looks for bugs in several scratch copies at once, each copy taking the next bug."""

    def __init__(self, bugs: list[Bug], parts: dict[str, list[str]], folder: Path, limit: float) -> None:
        self._bugs = bugs
        self._parts = parts
        self._folder = folder
        self._limit = limit
        # Storms take longest; started last, one of them would keep a single copy busy at the end.
        self._waiting = deque(sorted(range(len(bugs)), key=lambda place: bugs[place].invariant is None))
        self._verdicts: dict[int, Verdict] = {}
        self._printing = threading.Lock()

    def with_copies(self, count: int) -> list[Verdict]:
        """The verdicts, in the order of the bugs."""
        print(f"planting {len(self._bugs)} bugs in {count} scratch copies", flush=True)
        copies = [Scratch(ROOT, self._folder / str(number)) for number in range(count)]
        with ThreadPoolExecutor(count) as pool:
            working = [pool.submit(self._work, copy) for copy in copies]
            try:
                for each in working:
                    each.result()
            except BaseException:
                self._waiting.clear()
                for copy in copies:
                    copy.end_what_is_left()
                raise
        return [self._verdicts[place] for place in sorted(self._verdicts)]

    def _work(self, copy: Scratch) -> None:
        while True:
            try:
                place = self._waiting.popleft()
            except IndexError:
                return
            bug = self._bugs[place]
            if bug.invariant is None and bug.part not in self._parts:
                verdict = Verdict(bug, BROKEN, 0.0, text=f"parts.toml has no part {bug.part}")
            else:
                verdict = copy.look_for(bug, self._parts.get(bug.part, []), self._limit)
            with self._printing:
                self._verdicts[place] = verdict
                show(verdict, len(self._verdicts), len(self._bugs))


def show(verdict: Verdict, number: int, of: int) -> None:
    by = f" by {verdict.by}" if verdict.by else ""
    print(f"[{number:>3}/{of}] {verdict.outcome} in {verdict.seconds:.1f} s{by}  {verdict.bug.name}", flush=True)
    if verdict.text and not verdict.is_good:
        print("".join(f"    {line}\n" for line in verdict.text.splitlines()[-30:]), end="", flush=True)


def row(verdict: Verdict) -> dict[str, object]:
    bug = verdict.bug
    return {
        "name": bug.name,
        "part": bug.part,
        "symbol": bug.symbol,
        "breaks": bug.breaks,
        "seed": bug.seed,
        "outcome": verdict.outcome,
        "caught_by": verdict.by,
        "seconds": round(verdict.seconds, 1),
    }


def summarise(verdicts: list[Verdict]) -> int:
    counts = Counter(verdict.outcome for verdict in verdicts)
    seconds = sum(verdict.seconds for verdict in verdicts)
    print(f"{len(verdicts)} bugs, {seconds:.0f} s: " + ", ".join(f"{n} {outcome}" for outcome, n in counts.items()))
    for verdict in verdicts:
        if not verdict.is_good:
            print(f"{verdict.outcome}: {verdict.bug.name} ({verdict.bug.file.name}): {verdict.bug.breaks}")
    return 0 if all(verdict.is_good for verdict in verdicts) else 1


def control(bugs: list[Bug], folder: Path) -> int:
    """Run every hint once on right sources: a test that fails there as well catches nothing."""
    hints = sorted({bug.caught_by for bug in bugs if bug.caught_by})
    scratch = Scratch(ROOT, folder / "0")
    wrong = scratch.failing(hints)
    print(f"{len(hints)} hints, {len(wrong)} fail on right sources")
    for hint in wrong:
        print(f"fails: {hint}")
    return 1 if wrong else 0


def draw(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.planted draw", description="Draw mutants and print them.")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--package", required=True, choices=sorted(mutator.PACKAGES))
    given = parser.parse_args(words)
    for mutant in mutator.draw(Sources(ROOT), given.seed, given.count, given.package):
        print(mutator.as_toml(mutant))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
