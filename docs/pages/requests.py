"""The HTTP API request by request and shape by shape, made from its OpenAPI description."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from docs.pages.markdown import code, join, sentence, table
from rota.api.app import ROUTES
from rota.api.openapi import document

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

INTRODUCTION = """\
# HTTP API in full

Every request and every shape of [openapi.json](openapi.json), for reading. The [overview](http.md) has scopes, problems
and metrics, and [a guide](../howto/http.md) shows how to use it."""

BOUNDS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} of them",
    "maxItems": "at most {} of them",
    "pattern": "like `{}`",
}


def page() -> str:
    api = document(ROUTES)
    nouns: dict[str, list[str]] = {}
    for path, methods in api["paths"].items():
        for method, request in methods.items():
            nouns.setdefault(request["tags"][0], []).extend(_request(f"{method.upper()} {path}", request))
    parts = [part for noun, requests in nouns.items() for part in (f"## Requests: {noun}", *requests)]
    shapes = [part for name, shape in api["components"]["schemas"].items() for part in _shape(name, shape)]
    return join(INTRODUCTION, *parts, "## Shapes", *shapes)


def _request(line: str, request: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {line}"
    yield f"{sentence(request['summary'])} {request['description']}"
    if request["parameters"]:
        rows = [
            (
                code(each["name"]),
                each["in"],
                kind(each["schema"]),
                _default(each["schema"], each.get("required", False)),
            )
            for each in request["parameters"]
        ]
        yield table(("parameter", "in", "type", "default"), rows)
    if "requestBody" in request:
        yield f"Takes {_content(request['requestBody'])}."
    answers = [_content(response) for status, response in request["responses"].items() if status != "default"]
    yield f"Answers {' or '.join(answers)}."


def _content(message: Mapping[str, Any]) -> str:
    ((media, content),) = message.get("content", {"": {"schema": {}}}).items()
    if media == "application/json":
        return kind(content["schema"])
    return code(media) if media else "nothing"


def _shape(name: str, shape: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {name}"
    if "description" in shape:
        yield sentence(shape["description"])
    if shape.get("properties"):
        needed = shape.get("required", ())
        rows = [
            (code(field), kind(value), _default(value, field in needed)) for field, value in shape["properties"].items()
        ]
        yield table(("field", "type", "default"), rows)
    elif shape.get("type") != "object":
        yield f"{sentence(kind(shape))}"


def _default(schema: Mapping[str, Any], needed: bool) -> str:
    if needed:
        return "needed"
    return code(json.dumps(schema["default"])) if "default" in schema else "may be left out"


def kind(schema: Mapping[str, Any]) -> str:
    """Describe a schema in a few words, with a link to each named shape."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(kind(each) for each in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(code(json.dumps(each)) for each in schema["enum"])
    return ", ".join([_plain(schema), *(text.format(schema[key]) for key, text in BOUNDS.items() if key in schema)])


def _plain(schema: Mapping[str, Any]) -> str:
    type = schema.get("type", "any JSON value")
    if type == "array":
        return f"list of {kind(schema.get('items') or {})}"
    if type == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {kind(schema['additionalProperties'])}"
    return f"{type} ({schema['description']})" if "description" in schema else str(type)
