"""The command line: it parses words, calls one verb, and prints what that verb answers.

It may import every layer below it but no web framework, and a hot verb next to nothing (decision 5). Start at
`main.py`; `verbs/` has one file per noun, `doctor/` the checks of `rota doctor`.
"""
