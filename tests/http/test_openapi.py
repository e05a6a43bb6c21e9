"""The description of the API: fresh, complete, and true under requests of any shape that schemathesis thinks of."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import schemathesis
from hypothesis import settings
from schemathesis import GenerationMode

from rota.http.app import ROUTES
from rota.http.openapi import document
from tests.docs.pages import ROOT
from tests.http.servers import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMITTED = ROOT / "docs" / "reference" / "openapi.json"
DESCRIBED = json.loads(json.dumps(document(ROUTES)))
# Streams have no end, and a link is answered with a redirection to a page.
UNTRIED = ("/api/v1/events", "/open")


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


schema = schemathesis.openapi.from_dict(DESCRIBED)
schema.config.generation.update(modes=[GenerationMode.POSITIVE, GenerationMode.NEGATIVE])


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("target"))
    shell = server.shell
    for queue in ("tag", "scan"):
        shell.add("A", "--queue", queue)
    shell.say("scale", "tag=1")
    yield server
    server.end()


@schema.exclude(path=list(UNTRIED)).parametrize()
@settings(max_examples=25)
def test_no_request_gets_an_answer_that_is_not_described(case: Any, target: Server) -> None:
    headers = {"Authorization": f"Bearer {target.secret}", **(case.headers or {})}
    case.call_and_validate(base_url=target.url, headers=headers, timeout=60)
