"""The worker protocol: lines `KIND|{json}` on a pipe, and the values that they carry, in both directions.

Pure: bytes in, values out. Start at `codec.py` (lines) and `messages.py` (what a worker reports);
`docs/reference/frames.md` describes the protocol for workers in other languages.
"""
