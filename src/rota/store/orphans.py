"""Workers that go on alone after their orchestrator is gone."""

from __future__ import annotations

from rota.core.orchestrator import LEASE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.store.transaction import Transaction


def move_to_lease(tx: Transaction, worker: str) -> None:
    """Let a worker's claims hang on leases of their own, and the worker be judged by its beats."""
    until = tx.now + LEASE
    tx.execute("orphan.move_claims", worker=worker, lease=LEASE, lease_expires_at=until)
    tx.execute("orphan.move_worker", worker=worker, interval=LEASE // 2, now=tx.now, check_at=until)
