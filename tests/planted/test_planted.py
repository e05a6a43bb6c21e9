"""The planted bugs apply to the sources as they are now: this is what keeps them from rotting."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.planted import mutator
from tests.planted.data import FOLDER, PARTS, REPLACED, BadData, Bug, Change, load_bugs, load_parts, write_hint
from tests.planted.scratch import Ran
from tests.planted.sources import Sources

ROOT = Path(__file__).parents[2]
BUGS = load_bugs()
FEWEST = 150

SHOP = """\
LIMIT = 3


class Shop:
    def open(self):
        return LIMIT > 2
"""
OTHER_SHOP = """\
class Shop:
    def close(self):
        return None

    def open(self):
        return 1
"""
SQL = """\
-- name: get
-- One job.
SELECT 1 WHERE a = 1 AND b = 2 ORDER BY a

-- name: all
SELECT 2
"""
SMALL = {
    "src/rota/shop.py": SHOP,
    "src/rota/other.py": OTHER_SHOP,
    "src/rota/store/sql/job.sql": SQL,
    "src/rota/store/postgres/overrides.sql": "-- name: job.get\nSELECT 3\n",
    "web/src/page.ts": "export function Page() {\n  return 1;\n}\n\nconst other = 2;\n",
}


@pytest.fixture(scope="module")
def sources() -> Sources:
    return Sources(ROOT)


@pytest.fixture
def small(tmp_path: Path) -> Sources:
    """A checkout of a few lines."""
    for name, text in SMALL.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return Sources(tmp_path)


def bug(*changes: Change) -> Bug:
    return Bug("a-bug", "claims", changes, "Something.", Path("some.toml"))


@pytest.mark.parametrize("planted", BUGS, ids=[each.name for each in BUGS])
def test_every_planted_bug_applies_in_one_place_and_compiles(planted: Bug, sources: Sources) -> None:
    changed = sources.changed(planted)
    assert all(text != sources.texts[path] for path, text in changed.items())


def test_every_part_is_known_and_its_tests_exist() -> None:
    parts = load_parts()
    assert {each.part for each in BUGS if each.invariant is None} <= parts.keys()
    assert [path for paths in parts.values() for path in paths if not (ROOT / path).exists()] == []


def test_every_bug_names_the_promise_that_it_breaks_in_a_sentence() -> None:
    assert [each.name for each in BUGS if not (each.breaks[:1].isupper() or each.breaks[:1] == "`")] == []
    assert [each.name for each in BUGS if not each.breaks.endswith((".", ").", "`."))] == []


def test_there_are_at_least_150_bugs_and_at_least_half_are_drawn() -> None:
    drawn = [each for each in BUGS if each.seed is not None]
    assert len(BUGS) >= FEWEST and len(drawn) * 2 >= len(BUGS)


def test_every_mutant_that_was_left_out_has_a_reason() -> None:
    replaced = tomllib.loads((FOLDER / REPLACED).read_text(encoding="utf-8"))["replaced"]
    assert all(each.keys() == {"seed", "symbol", "old", "new", "reason"} and each["reason"] for each in replaced)


def test_a_change_is_found_by_symbol_wherever_it_is(small: Sources) -> None:
    places = {
        ("Shop.open", "LIMIT > 2"): "src/rota/shop.py",
        ("Shop.open", "return 1"): "src/rota/other.py",
        ("Shop", "return None"): "src/rota/other.py",
        ("LIMIT", "3"): "src/rota/shop.py",
        ("sql:job.get", "b = 2"): "src/rota/store/sql/job.sql",
        ("sql:postgres:job.get", "SELECT 3"): "src/rota/store/postgres/overrides.sql",
        ("ts:Page", "return 1"): "web/src/page.ts",
    }
    for (symbol, old), file in places.items():
        (path,) = small.changed(bug(Change(symbol, old, "4")))
        assert path == small.root / file


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (Change("Shop.shut", "x", "y"), "there is no Shop.shut"),
        (Change("Shop.open", "x = 1", "y"), "0 times, not once"),
        (Change("Shop.open", "return", "y"), "2 times, not once"),
        (Change("Shop.open", "LIMIT", "LIMIT"), "changes nothing"),
        (Change("Shop.open", "LIMIT > 2", "("), "no longer compiles"),
    ],
)
def test_a_bug_that_no_longer_applies_is_refused(change: Change, text: str, small: Sources) -> None:
    with pytest.raises(BadData, match=text.replace("(", r"\(")):
        small.changed(bug(change))


def test_two_changes_in_one_file_are_both_made(small: Sources) -> None:
    changed = small.changed(bug(Change("LIMIT", "3", "30"), Change("Shop.open", "LIMIT > 2", "LIMIT < 2")))
    assert list(changed.values()) == [SHOP.replace("3", "30").replace(">", "<")]


def test_the_mutator_draws_the_same_for_the_same_seed(sources: Sources) -> None:
    def drawn(seed: int) -> list[str]:
        return [mutator.as_toml(each) for each in mutator.draw(sources, seed, 5, "core")]

    assert drawn(1) == drawn(1) and len(drawn(1)) == 5
    assert drawn(1) != drawn(2)


@pytest.mark.parametrize("package", mutator.PACKAGES)
def test_a_drawn_entry_is_a_bug_that_applies(package: str, sources: Sources) -> None:
    (mutant,) = mutator.draw(sources, 3, 1, package)
    (entry,) = tomllib.loads(mutator.as_toml(mutant))["bug"]
    assert sources.changed(bug(Change(entry["symbol"], entry["old"], entry["new"])))


def test_a_hint_is_written_into_its_entry_and_nothing_else_changes(tmp_path: Path) -> None:
    file = tmp_path / "some.toml"
    entry = '# why\n[[bug]]\nname = "{}"\npart = "claims"\nsymbol = "A"\nold = "x"\nnew = "y"\nbreaks = "It."\n'
    file.write_text(entry.format("first") + "\n" + entry.format("second"))
    (tmp_path / PARTS).write_text("")
    for hint in ("tests/a.py::test_a", "tests/b.py::test_b[1]"):
        write_hint(load_bugs(tmp_path)[0], hint)
        first, second = load_bugs(tmp_path)
        assert (first.caught_by, second.caught_by) == (hint, None)
    assert file.read_text().replace('caught_by = "tests/b.py::test_b[1]"\n', "").count("\n") == 17


@pytest.mark.parametrize(
    ("output", "failed"),
    [
        ("FAILED tests/a.py::test_a - assert 1 == 2\n1 failed", "tests/a.py::test_a"),
        ("FAILED tests/a.py::test_a[x - y] - assert 1\n", "tests/a.py::test_a[x - y]"),
        ("ERROR tests/a.py::test_a - OSError: no\n", "tests/a.py::test_a"),
        ("ERROR tests/a.py\n", "tests/a.py"),
        ("3 passed", None),
    ],
)
def test_the_test_that_failed_is_read_from_the_summary(output: str, failed: str | None) -> None:
    assert Ran(1, output).failed == failed
