"""Looks for what breaks a parser, guided by coverage, for as long as asked; each target in a process of its own.

It ends with 1 and the input at the first error that is not ours, which then belongs into `test_parsed.py`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any


def main() -> int:
    words = argparse.ArgumentParser(prog="./dev fuzz", description=__doc__)
    words.add_argument("targets", nargs="*", metavar="TARGET", help="such as frame or cron; all where none is named")
    words.add_argument("--minutes", type=float, default=1.0, help="for all of them together")
    words.add_argument("--in", dest="alone", metavar="TARGET", help=argparse.SUPPRESS)
    words.add_argument("--seconds", type=int, help=argparse.SUPPRESS)
    given = words.parse_args()
    if given.alone:
        look(given.alone, given.seconds)
    from tests.fuzz.targets import BYTES, TEXTS

    known = [*BYTES, *TEXTS]
    if unknown := set(given.targets) - set(known):
        words.error(f"there is no target {', '.join(unknown)}: one of {', '.join(known)}")
    targets = given.targets or known
    seconds = max(1, round(given.minutes * 60 / len(targets)))
    for name in targets:
        print(f"{name}: {seconds} s", flush=True)
        command = [sys.executable, "-m", "tests.fuzz", "--in", name, "--seconds", str(seconds)]
        if subprocess.run(command, check=False).returncode:
            print(f"{name}: found something; its input stands above", flush=True)
            return 1
    return 0


def look(name: str, seconds: int) -> None:
    """Never returns: the fuzzer ends the process."""
    import atheris

    with atheris.instrument_imports(include=["rota", "cronsim"]):
        import cronsim  # noqa: F401 - imported late by what uses it

        from tests.fuzz.targets import BYTES, RIGHT, RIGHT_BYTES, TEXTS, refuses

    def one(data: bytes) -> None:
        if name in BYTES:
            BYTES[name](data)
        else:
            refuses(lambda: TEXTS[name](data.decode("utf-8", "replace")))

    folder = tempfile.mkdtemp(prefix="rota-fuzz-")
    seeds = Path(folder, "seeds")
    seeds.mkdir()
    (seeds / "right").write_bytes(RIGHT_BYTES.get(name) or RIGHT[name].encode())
    options: list[Any] = [f"-max_total_time={seconds}", "-max_len=4096", "-timeout=20", f"-artifact_prefix={folder}/"]
    atheris.Setup([sys.argv[0], *options, "-verbosity=0", "-print_final_stats=1", str(seeds)], one)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
