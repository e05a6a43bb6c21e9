"""The orchestrator keeps slots filled, hands out work and watches health."""
