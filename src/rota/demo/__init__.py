"""The demo: a small application that tags a library of music, and what plays it."""
