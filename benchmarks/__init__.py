"""Benchmarks, run by `./dev bench NAME`. Compare figures only within one run: machines differ, and so do minutes."""
