"""Ask one system, in its own environment: `python -m benchmarks.peers.run huey add 100 2`."""

import importlib
import sys

from benchmarks.peers import work

if __name__ == "__main__":
    # By name, so that what is added and what the workers load are the same module.
    work.main(importlib.import_module(f"benchmarks.peers.systems.{sys.argv[1]}").PEER, *sys.argv[2:])
