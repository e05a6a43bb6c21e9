"""The worker protocol: lines `KIND|{json}` on a pipe, and the values that they carry, in both directions.

Pure: bytes in, values out; it imports only `core`. Start at `codec.py` (lines), `assignment.py` (a job on its way to a
worker) and `outcomes.py` (what came of it); `docs/reference/frames.md` describes the protocol for other languages.
"""
