"""The command line: it parses words, calls one verb, and prints what that verb answers.

It may import every package but `rota.testing`; what a hot verb imports is limited (decision 5), and only `rota serve`
and its like reach the web. Start at `main.py`, then at `verbs/`, one file per noun.
"""
