"""What stays open: the live feed over server-sent events, notification streams, and the limits on how many may wait.

One `hub.py` follows the event log for all readers; `readers.py` sends to one of them. Start at `hub.py`.
"""
