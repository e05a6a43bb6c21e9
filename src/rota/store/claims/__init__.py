"""Claims: taken for idle workers in batches, taken by hand, and ended in every way that a claim can end.

Start at `exchange.py` (an orchestrator settles and claims in one transaction) and `settle.py` (what an end means for
the job).
"""
