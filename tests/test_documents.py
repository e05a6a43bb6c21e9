"""Documents follow from their declared shapes and their records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota import documents
from rota.core.job import Job
from rota.core.record import Record
from rota.core.times import SECOND
from tests.core.jobs import a_job

if TYPE_CHECKING:
    from rota.core.times import Duration, Instant


class Pot(Record):
    """A record whose last three fields no shape names."""

    id: int
    fired_at: Instant
    secret: str
    colour: str | None = None
    cools_for: Duration | None = None
    glaze_json: str | None = None


def test_a_field_that_no_shape_names_is_in_the_details() -> None:
    shape = documents.Shape("id", "fired_at: str", again=("fired_at",), hidden=("secret",))
    pot = Pot(1, 0, "clay", "red", 90 * SECOND, "[1]")
    assert shape.document(pot, fired_at="today") == {"id": 1, "fired_at": "today"}
    assert shape.details(pot) == {
        "fired_at": "1970-01-01T00:00:00.000000Z", "colour": "red", "cools_for": 90, "glaze": "[1]"
    }  # fmt: skip


def test_a_job_and_its_details_show_every_field_but_those_that_stay_in_the_store() -> None:
    job = a_job(timeout=SECOND)
    shown = {*documents.job(job), *documents.job_details(job)}
    stored = {name.removesuffix("_json") for name in Job._fields}
    assert stored - shown == {"dependents", "due_wall", "isolated"}
    assert shown - stored == {"started_at", "run_id"}
