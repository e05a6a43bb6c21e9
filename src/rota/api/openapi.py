"""The OpenAPI 3.1 description of the API, generated from the route table and the types of requests and responses."""

from __future__ import annotations

import re
from types import UnionType
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from rota.api.errors import MEDIA
from rota.api.route import HTML, JSON, SSE, TEXT
from rota.api.schemas import nouns, requests
from rota.core.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.api.route import Route

_REF = "#/components/schemas/{name}"
_PROBLEM = {"$ref": _REF.format(name="Problem")}
_PARAMETER = re.compile(r"{(\w+)}")
_TEXTS = (SSE, TEXT, HTML)
_OF_PATH = {
    "/jobs/{id}": {"type": "integer", "minimum": 0, "maximum": 999_999_999_999_999_999},
    "/orchestrators/{id}": {"type": "integer", "minimum": 0, "maximum": 999_999_999_999_999_999},
    "/workers/{id}": {"type": "string", "pattern": "^worker-[a-z0-9]{8}$"},
    "/tokens/{id}": {"type": "string", "pattern": "^token-[a-z0-9]{8}$"},
    "/runs/{id}": {"type": "string", "pattern": "^run-[a-z0-9]{8}$"},
    "/slots/{name}": {"type": "string", "pattern": "^[a-z]+:[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}:[0-9]{1,6}$"},
    "/queues/{name}": {"type": "string", "pattern": "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$"},
    "/assets/{file}": {"type": "string", "pattern": "^[a-z]+-[0-9a-f]{12}[.][a-z]+$"},
    "/sources/{name}": {"type": "string", "pattern": "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$"},
    "/schedules/{name}": {"type": "string", "pattern": "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$"},
}


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """Return the description of these routes."""
    types = [type for route in routes for type in (route.body, *_structs(route.answer)) if type is not None]
    (_, components) = msgspec.json.schema_components([*types, nouns.Problem], ref_template=_REF)
    components[requests.Limits.__name__]["minProperties"] = 1
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "rota",
            "version": __version__,
            "description": "Durable jobs, leased claims and supervised workers.",
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "responses": {"Problem": {"description": "What went wrong.", "content": {MEDIA: {"schema": _PROBLEM}}}},
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _structs(answer: Any) -> list[Any]:
    """Return the structs within an answer's type."""
    parts = get_args(answer) or (answer,)
    return [each for each in parts if isinstance(each, type) and issubclass(each, msgspec.Struct)]


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "tags": [route.name.partition(".")[0]],
        "summary": route.about[0].upper() + route.about[1:] + ".",
        "description": f"Needs the scope `{route.scope}`." if route.scope else "Open to this machine.",
        "parameters": [*_path_parameters(route), *_query_parameters(route)],
        "responses": {**_answer(route), "default": {"$ref": "#/components/responses/Problem"}},
    }
    if route.body is not None:
        schema = {"$ref": _REF.format(name=route.body.__name__)}
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": schema}}}
    if route.scope is not None:
        operation["security"] = [{"token": []}]
    return operation


def _answer(route: Route) -> dict[str, Any]:
    if route.media in _TEXTS:
        schema: dict[str, Any] = {"type": "string"}
    else:
        schema, _ = _schema(route.answer)
    status = "303" if route.path == "/open" else "200"
    about = "A redirection." if status == "303" else "What was asked for."
    return {status: {"description": about, "content": {route.media.partition(";")[0]: {"schema": schema}}}}


def _schema(answer: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    if isinstance(answer, UnionType):
        return {"anyOf": [_schema(each)[0] for each in get_args(answer)]}, {}
    ((schema,), components) = msgspec.json.schema_components([answer], ref_template=_REF)
    return schema, components


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    parameters = []
    for name in _PARAMETER.findall(route.path):
        kind = next(schema for path, schema in _OF_PATH.items() if f"{path}/" in f"{route.path}/")
        parameters.append({"name": name, "in": "path", "required": True, "schema": kind})
    return parameters


def _query_parameters(route: Route) -> list[dict[str, Any]]:
    if route.query is None:
        return []
    _, components = _schema(route.query)
    fields = components[route.query.__name__]["properties"]
    header = [{"name": "Last-Event-ID", "in": "header", "schema": {"type": "string"}}] if route.media == SSE else []
    parameters = [
        {"name": name, "in": "query", "required": False, "schema": _without_null(schema)}
        for name, schema in fields.items()
    ]
    return [*parameters, *header]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a parameter without null: an optional parameter is left out instead."""
    kinds = [kind for kind in schema.get("anyOf", []) if kind != {"type": "null"}]
    return kinds[0] if len(kinds) == 1 else schema
