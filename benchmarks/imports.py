"""What importing a module costs a program that lives for a few milliseconds.

./dev bench imports
"""

from __future__ import annotations

import sys

from benchmarks import _report
from benchmarks._processes import BARE, seconds

MODULES = (
    "apsw",
    "argparse",
    "dataclasses",
    "json",
    "logging",
    "pathlib",
    "typing",
    "rota.core.job",
    "rota.store.store",
)


def main() -> None:
    options = _report.arguments("What importing a module costs, on top of bare Python.").parse_args()
    samples: dict[str, list[float]] = {"bare Python": [], **{module: [] for module in MODULES}}
    for _ in range(options.rounds or 20):
        for module, found in samples.items():
            command = (sys.executable, "-c", f"import {module}") if module in MODULES else BARE
            found.append(seconds(*command) * 1e3)
    bare = _report.median(samples["bare Python"])
    table: list[dict[str, _report.Cell]] = [
        {
            "import": module,
            "p50 ms": round(_report.median(found), 1),
            "on top": round(_report.median(found) - bare, 1),
            "spread": _report.spread(found),
            "ratio": _report.median(found) / bare,
        }
        for module, found in samples.items()
    ]
    _report.show("imports: one process each, interleaved", table, options.json)


if __name__ == "__main__":
    main()
