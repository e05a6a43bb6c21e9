"""The jobs around one: what it waits for and what waits for it, a few steps far."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.documents import Document
    from rota.store.store import Store

MOST, FAR = 60, 4


def around(store: Store, id: int) -> Document:
    """Nodes and edges, an edge being a job and one that it needs; `is_whole` when nothing was left out."""
    execute = store.database.execute
    store.jobs.get(id)
    found, edges, is_whole = {id: None}, set(), True
    for upwards in (True, False):
        layer = [id]
        for step in range(FAR + 1):
            beyond: list[int] = []
            for each in layer:
                if upwards:
                    near = [needs for needs, _ in execute("dependency.of_job", {"job": each})]
                else:
                    near = [job for (job,) in execute("dependency.waiting_for", {"needs": each, "most": MOST + 1})]
                for other in near:
                    if other not in found and (step == FAR or len(found) >= MOST):
                        is_whole = False
                        continue
                    if other not in found:
                        found[other] = None
                        beyond.append(other)
                    edges.add((each, other) if upwards else (other, each))
            layer = beyond
    for each in found:  # two that were found on different ways may need each other
        edges |= {(each, needs) for needs, _ in execute("dependency.of_job", {"job": each}) if needs in found}
    nodes = []
    for each in sorted(found):
        for row in execute("job.brief", {"id": each}):
            nodes.append(dict(zip(("id", "title", "queue", "status"), row, strict=True)))
    return {"nodes": nodes, "edges": sorted(edges), "is_whole": is_whole}
