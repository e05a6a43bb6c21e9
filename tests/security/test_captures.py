"""What commands write is kept under ids that rota chose, and no link leads a writer or a reader elsewhere."""

from __future__ import annotations

import os
import threading
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from rota.core.errors import BadInput, RotaError
from rota.core.ids import run_id, token_of
from rota.store.jobs.output import Output, remove
from rota.top.sheets import TRANSCRIPT, Tail
from rota.worker.capture import Folder
from tests.support.crews import Crew
from tests.support.eventually import eventually
from tests.support.processes import line, python

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

SECRET = "what nobody may read or overwrite"
# Exchanges two names again and again, each time in one step, so that never neither is there.
SWAP = """
import ctypes
exchange, (one, other) = ctypes.CDLL(None).renameat2, map(str.encode, sys.argv[1:])
HERE, EXCHANGE = -100, 2
assert exchange(HERE, one, HERE, other, EXCHANGE) == 0
print("begun", flush=True)
while True:
    exchange(HERE, one, HERE, other, EXCHANGE)
"""
COMMAND = """
@app.command(queue="tag", argv=["sh", "-c", "echo said by $0", "{payload.name}"])
def speak(name: str) -> None: ...
"""
HOSTILE = [
    "../../escaped",
    "/tmp/escaped",
    "..\\\\escaped",
    "a\nb",
    "$(touch escaped)",
    "`touch escaped`; touch escaped",
]


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    made = Crew(tmp_path, ROTA_HTTP_PORT="0")
    made.teach(COMMAND)
    yield made
    made.end()


@pytest.mark.crew
def test_whatever_a_job_is_called_its_output_is_kept_under_its_runs_id_alone(crew: Crew) -> None:
    crew.start("tag=1")
    ids = [crew.add("speak", name=name) for name in HOSTILE]
    crew.done(*ids)
    crew.stop()
    runs = {run.id for id in ids for run in crew.app.claims.runs(id)}
    files = os.listdir(crew.folder / ".rota" / "runs")
    assert {name.partition(".")[0] for name in files} == runs and len(runs) == len(HOSTILE)
    assert [*crew.folder.rglob("escaped*"), *crew.folder.parent.glob("escaped*")] == []
    assert all((crew.folder / ".rota" / "runs" / name).stat().st_mode & 0o777 == 0o600 for name in files)
    assert (crew.folder / ".rota" / "runs").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "name", ["run-../../etc", "run-0000000/", "run-", "/etc/passwd", "run-00000001\0", "RUN-00000001"]
)
def test_what_is_no_runs_id_names_no_file(name: str) -> None:
    with pytest.raises(BadInput):
        token_of(name)


def test_a_link_in_the_place_of_a_capture_is_replaced_and_its_target_untouched(tmp_path: Path) -> None:
    target, runs = tmp_path / "target", tmp_path / "runs"
    target.write_text(SECRET)
    runs.mkdir()
    (runs / "run-00000001.out").symlink_to(target)
    with Folder(str(runs), 1000).open("run-00000001.out", 10) as sink:
        sink.put(b"said")
    assert target.read_text() == SECRET and (runs / "run-00000001.out").read_text() == "said"
    assert not (runs / "run-00000001.out").is_symlink()


def test_a_link_in_the_place_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "runs").symlink_to(elsewhere)
    with pytest.raises(OSError, match=r"directory|link"):
        Folder(str(tmp_path / "runs"), 1000).open("run-00000001.out", 10)
    assert list(elsewhere.iterdir()) == []


def test_someone_who_sets_links_as_fast_as_he_can_wins_nothing(tmp_path: Path) -> None:
    """A race for each file: the link is set again and again between the look and the opening."""
    target, runs = tmp_path / "target", tmp_path / "runs"
    target.write_text(SECRET)
    runs.mkdir()
    place, over = runs / "run-00000001.out", threading.Event()

    def set_links() -> None:
        while not over.is_set():
            try:
                os.symlink(target, f"{place}.new")
                os.replace(f"{place}.new", place)
            except OSError:
                pass

    racer = threading.Thread(target=set_links)
    racer.start()
    tried = refused = 0
    try:
        while tried < 300:
            tried += 1
            try:
                with Folder(str(runs), 1000).open(place.name, 10) as sink:
                    sink.put(b"overwritten")
            except FileExistsError:  # the link was there again: nothing was opened
                refused += 1
            try:
                with Output(str(place), own=True) as output:
                    assert output.size is None or SECRET not in output.tail()
            except RotaError as problem:
                assert "is a link" in str(problem)
                refused += 1
    finally:
        over.set()
        racer.join()
    assert target.read_text() == SECRET
    assert refused, "the race was never close"


def test_someone_who_swaps_the_folder_as_fast_as_he_can_has_nothing_read_written_or_removed(tmp_path: Path) -> None:
    """A race for the folder: it and a link to another are exchanged between each look and each deed."""
    runs, link, elsewhere = tmp_path / "runs", tmp_path / "link", tmp_path / "elsewhere"
    runs.mkdir()
    elsewhere.mkdir()
    link.symlink_to(elsewhere)
    names = [f"run-{n:08}" for n in range(1000)]
    for name in names:
        (elsewhere / f"{name}.out").write_text(SECRET)
    seen: Counter[tuple[str, bool]] = Counter()
    with python(SWAP, runs, link) as racer:
        assert line(racer) == "begun"
        for name in names:
            seen["written", writes(runs, name)] += 1
            for _ in range(4):
                seen["read", reads(runs, name)] += 1
            remove(str(runs), [name])
    own = link if runs.is_symlink() else runs
    assert {path.name: path.read_text() for path in elsewhere.iterdir()} == {f"{name}.out": SECRET for name in names}
    assert all(seen[verb, done] for verb in ("written", "read") for done in (True, False)), "the race was never close"
    assert 0 < len(list(own.iterdir())) < seen["written", True], "some are removed, and some not while the link stands"


def writes(runs: Path, name: str) -> bool:
    try:
        with Folder(str(runs), 1000).open(f"{name}.out", 10) as sink:
            sink.put(b"said")
    except NotADirectoryError:
        return False
    return True


def reads(runs: Path, name: str) -> bool:
    try:
        with Output(str(runs / f"{name}.out"), own=True) as output:
            assert output.size is None or output.tail() == "said"
    except RotaError as problem:
        assert "is a link" in str(problem)
        return False
    return True


@pytest.mark.crew
def test_nothing_is_shown_or_removed_through_a_link(crew: Crew) -> None:
    (crew.folder / "target").write_text(SECRET)
    crew.start("tag=1", http=True)
    id = crew.add("speak", name="x")
    crew.done(id)
    (run,) = crew.app.claims.runs(id)
    runs, elsewhere = crew.folder / ".rota" / "runs", crew.folder / "elsewhere"
    place = runs / f"{run_id(run.token)}.out"
    eventually(lambda: place.read_text() == "said by x\n")
    with crew.api() as api:
        assert api.get(f"/api/v1/jobs/{id}/output").json()["text"] == "said by x\n"
        place.unlink()
        place.symlink_to(crew.folder / "target")
        shows_nothing(crew, api, id)
        runs.rename(elsewhere)
        runs.symlink_to(elsewhere)
        (elsewhere / place.name).unlink()
        (elsewhere / place.name).write_text(SECRET)
        shows_nothing(crew, api, id)
    assert "1 job" in crew.call("prune", "--keep", "0")
    assert (elsewhere / place.name).read_text() == SECRET


def shows_nothing(crew: Crew, api: httpx.Client, id: int) -> None:
    for words in (["logs", str(id)], ["logs", str(id), "--json"], ["logs", str(id), "--follow"]):
        said = crew.call(*words, code=1)
        assert "is a link" in said and SECRET not in said
    for query in ("", "?offset=0", "?stream=transcript&offset=0&wait=1"):
        answer = api.get(f"/api/v1/jobs/{id}/output{query}")
        assert answer.status_code == 500 and "is a link" in answer.text and SECRET not in answer.text
    tail = Tail(id, TRANSCRIPT)
    assert "is a link" in tail.read(crew.app.store)[1] and tail.lines() == []
