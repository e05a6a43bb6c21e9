"""The description of the API: fresh, complete, and true under requests of any shape that schemathesis thinks of."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import schemathesis
from hypothesis import given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from rota.api.app import ROUTES
from rota.api.openapi import document
from rota.core.source import Declared
from rota.core.times import MINUTE
from tests.api.servers import Server
from tests.docs.pages import ROOT
from tests.support.tiers import times

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.api.route import Route

COMMITTED = ROOT / "docs" / "reference" / "openapi.json"
DESCRIBED = json.loads(json.dumps(document(ROUTES)))
# Streams have no end, and a link is answered with a redirection to a page.
UNTRIED = ("/api/v1/events", "/api/v1/orchestrators/{id}/bell", "/open")
# More is wanted here than a schema can say: a time that exists, an error for what failed, another job than itself,
# a name that can be printed, a cursor that was given out, one to claim for and not two, a cron expression.
BEYOND_A_SCHEMA = (
    "/api/v1/orchestrators/{id}/schedules",
    "/api/v1/schedules",
    "/api/v1/jobs",
    "/api/v1/jobs/bulk",
    "/api/v1/jobs/{id}/block",
    "/api/v1/jobs/{id}/claim",
    "/api/v1/jobs/{id}/claim/settle",
    "/api/v1/claims",
    "/api/v1/events/log",
    "/api/v1/events/raw",
    "/api/v1/tokens",
)
MODES = POSITIVE, NEGATIVE = GenerationMode.POSITIVE, GenerationMode.NEGATIVE
TRIED = [route for route in ROUTES if route.path not in UNTRIED]


def test_the_committed_description_is_fresh() -> None:
    assert json.loads(COMMITTED.read_text()) == DESCRIBED, "run ./dev docs"


def test_the_server_tells_the_same_as_is_committed(shared: Server) -> None:
    assert shared.client().get("/api/v1/openapi.json") == DESCRIBED


def test_every_route_is_described_with_its_scope() -> None:
    assert {(path, method.upper()) for path, table in DESCRIBED["paths"].items() for method in table} == {
        (route.path, route.method) for route in ROUTES
    }
    for route in ROUTES:
        told = DESCRIBED["paths"][route.path][route.method.lower()]
        assert told["operationId"] == route.name and len(told["summary"]) > 5
        assert ("security" in told) == (route.scope is not None)
    names = [told["operationId"] for table in DESCRIBED["paths"].values() for told in table.values()]
    assert len(names) == len(set(names)), "each has a name of its own"


def test_every_field_of_every_shape_is_described() -> None:
    schemas = DESCRIBED["components"]["schemas"]
    for route in ROUTES:
        for shape in (route.body, *getattr(route.answer, "__args__", (route.answer,))):
            if shape is not None and hasattr(shape, "__struct_fields__"):
                assert set(schemas[shape.__name__]["properties"]) == set(shape.__struct_fields__)


def without_security(description: dict[str, Any]) -> dict[str, Any]:
    """The scopes have their own test; tokens that were thought of would only be refused."""
    paths = {
        path: {method: {**told, "security": []} for method, told in table.items()}
        for path, table in description["paths"].items()
    }
    return {**description, "paths": paths}


schema = schemathesis.openapi.from_dict(without_security(DESCRIBED))
# A claim or an orchestrator's number that was thought of is stale: that is an answer, and no complaint of the request.
schema.config.checks.positive_data_acceptance.expected_statuses = ["2xx", "401", "403", "404", "409", "412", "429"]
# Of what breaks a rule by its length, much is refused before anyone reads it.
_refused = schema.config.checks.negative_data_rejection.expected_statuses
schema.config.checks.negative_data_rejection.expected_statuses = [*_refused, "413", "431"]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("target"))
    shell = server.shell
    for queue in ("tag", "scan"):
        shell.add("A", "--queue", queue)
    shell.say("scale", "tag=1")
    with server.store() as store:
        store.sources.declare([Declared("files", "scan", "scan", MINUTE, 10, 100, 3)])
    yield server
    server.end()


def has_whole_float(value: Any) -> bool:
    """Whether a number such as 5.0 is in it: to JSON Schema that is an integer, to us it is none."""
    if isinstance(value, dict | list):
        return any(map(has_whole_float, value.values() if isinstance(value, dict) else value))
    return isinstance(value, float) and value.is_integer()


def has_something_to_get_wrong(route: Route) -> bool:
    return route.body is not None or route.query is not None or "{" in route.path


@pytest.mark.parametrize(
    ("route", "mode"),
    [(route, mode) for route in TRIED for mode in MODES if mode is POSITIVE or has_something_to_get_wrong(route)],
    ids=lambda each: each.value if isinstance(each, GenerationMode) else f"{each.method} {each.path}",
)
def test_no_request_gets_an_answer_that_is_not_described(route: Route, mode: GenerationMode, target: Server) -> None:
    answered = set()

    @settings(max_examples=times(8, 200))
    @given(case=schema[route.path][route.method].as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        response = case.call(base_url=target.url, headers={"Authorization": f"Bearer {target.secret}"}, timeout=60)
        answered.add(response.status_code)
        beyond = route.path in BEYOND_A_SCHEMA or has_whole_float(case.body)
        case.validate_response(response, excluded_checks=[positive_data_acceptance] if beyond else [])

    ask()
    assert answered - {401}, "who is refused for lack of a token was not asked anything"
