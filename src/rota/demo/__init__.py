"""`rota demo`: a small application that tags a library of music, and the program that plays it.

It uses what any application uses. Start at `music.py` (the application) and `run.py` (the play).
"""
