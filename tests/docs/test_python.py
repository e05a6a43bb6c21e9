"""The page on Python has every signature as the code has it."""

from __future__ import annotations

import ast
import inspect
import re
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import pytest

import rota
import rota.testing
from rota import App
from tests.docs.pages import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PAGE = (ROOT / "docs/reference/python.md").read_text(encoding="utf-8")
# Such as `app.chain(*news)`. What takes whatever a handler takes is written with an ellipsis.
SIGNATURES = re.findall(r"`@?((?:app|rota\.testing)?\.?\w+)\(([^`…]*)\)`", PAGE)
# What workers ask an app for.
INTERNAL = {"concurrency", "declarations", "prepare", "template"}
NOT_OURS = ("execute", "capture_io", "again", "get", "wait", "replace")  # functions of a caller, methods of values


def named(name: str) -> Callable[..., Any] | None:
    """What the page calls so."""
    owner, _, last = name.rpartition(".")
    if last in NOT_OURS:
        return None
    known: dict[str, list[Any]] = {"app": [App], "rota.testing": [rota.testing]}
    owners = known.get(owner, [rota, rota.testing])
    found: Callable[..., Any] = next(getattr(each, last) for each in owners if hasattr(each, last))
    return found


def written(text: str) -> list[tuple[str, str, str | None]]:
    """Each parameter of a documented signature: its name, what kind it is, and the default if one is written."""
    arguments = ast.parse(f"lambda {' '.join(text.split())}: 0", mode="eval").body.args  # type: ignore[attr-defined]
    given = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(given) - len(arguments.defaults)) + arguments.defaults
    found = [(each.arg, "POSITIONAL_OR_KEYWORD", shown(default)) for each, default in zip(given, defaults, strict=True)]
    found += [(arguments.vararg.arg, "VAR_POSITIONAL", None)] if arguments.vararg else []
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    found += [(each.arg, "KEYWORD_ONLY", shown(default)) for each, default in pairs]
    return found + ([(arguments.kwarg.arg, "VAR_KEYWORD", None)] if arguments.kwarg else [])


def shown(default: ast.expr | None) -> str | None:
    return None if default is None else repr(ast.literal_eval(default))


def real(of: Callable[..., Any]) -> list[tuple[str, str, str]]:
    if of is rota.NewJob:  # a record makes its constructor when it is first used
        return [(name, "POSITIONAL_OR_KEYWORD", repr(getattr(of, name, None))) for name in rota.NewJob.__match_args__]
    parameters = [each for each in inspect.signature(of).parameters.values() if each.name != "self"]
    return [(each.name, each.kind.name, repr(each.default)) for each in parameters]


@pytest.mark.parametrize(("name", "text"), [each for each in SIGNATURES if named(each[0])], ids=lambda each: each[:20])
def test_a_signature_is_documented_as_it_is(name: str, text: str) -> None:
    of = named(name)
    assert of is not None
    told, known = written(text), real(of)
    assert [each[:2] for each in told] == [each[:2] for each in known]
    for (parameter, _, default), (_, _, really) in zip(told, known, strict=True):
        assert default is None or default == really, parameter


def test_every_public_method_of_an_app_is_documented() -> None:
    methods = {name for name, _ in inspect.getmembers(App, inspect.isfunction) if not name.startswith("_")}
    assert methods - INTERNAL == {name.removeprefix("app.") for name, _ in SIGNATURES if name.startswith("app.")}


def test_every_option_of_run_worker_is_documented_with_its_default() -> None:
    section = PAGE.split("## In this process")[1].split("\n## ")[0]
    options = ", ".join(re.findall(r"^\| `(\w+(?:=[^`]+)?)` \|", section, re.MULTILINE))
    assert [(name, default) for name, _, default in written(options)] == [
        (name, None if default == repr(inspect.Parameter.empty) else default)
        for name, _, default in real(rota.run_worker)
    ]


def test_every_port_has_the_methods_that_are_documented(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path / 'jobs.db'}")
    rows = re.findall(r"^\| `app\.([\w.]+)` \| ((?:`\w+` ?)+)\|", PAGE, re.MULTILINE)
    assert len(rows) == 5
    for port, methods in rows:
        for method in methods.replace("`", "").split():
            assert callable(getattr(attrgetter(port)(app), method)), f"{port}.{method}"
    app.close()
