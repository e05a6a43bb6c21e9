"""Processes of this host: who they are, whether they live, what they started, and how to end all of it.

The code that reads `/proc`, opens pidfds and walks process trees belongs here. Imports `core` alone. Start at
`host.py` (which host, which process) and `watch.py` (await the end of processes that are not our children).
"""
