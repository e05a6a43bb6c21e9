"""Who gets in and what they may, what a job can do to the page (nothing), and a server that is away for a while."""

from __future__ import annotations

import json
import re
import socket
from typing import TYPE_CHECKING, Any

import apsw
import httpx
import pytest
from playwright.sync_api import expect

from rota.core.claim import Failed
from rota.core.job import NewJob
from rota.core.schedule import NewSchedule
from rota.core.slot import RestartPolicy
from rota.core.source import Declared
from rota.core.times import SECOND
from rota.store.claims.exchange import Report
from rota.store.workers.crews import Home
from rota.store.workers.death import Death
from tests.api.servers import Server
from tests.web.screens import PAGES, ROOT, Screen

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

    from rota.store.store import Store
    from tests.api.servers import Client
    from tests.web.conftest import Look

EVIL = "</pre><script>window.hit = 1</script><img src=x onerror='window.hit = 2'>\"'><svg onload='window.hit = 3'>"
SEEN = "<script>window.hit = 1</script>"
SOURCES = ROOT / "web" / "src"
TYPES = (SOURCES / "types.ts", SOURCES / "states.ts")
COLUMNS = (("worker", "hostname"), ("worker", "version"), ("slot", "failure_reason"), ("source", "task"))
# What rota itself says, or holds to a pattern: instants, ids, names of queues, words of its own, what is tracked (which
# has a test of its own).
OWN = re.compile(r"""
    \w+\.(\w+_at|at|until|since|scheduled_for|id|\w+_id|queue|queue_type|status|last_status|health|slot)
    |Me\.scopes|Run\.(verb|reason)|Queue\.(name|rate|fence)|Slot\.name|Death\.(reason|usage)|Notice\.which
    |Crew\.host|Source\.name|Schedule\.(name|cron|timezone)|Fact\.(topic|type)|WorkerState\.component|Health\.errors
    |(TrackedWorker|Vectorizer)\.\w+
""", re.VERBOSE)  # fmt: skip


@pytest.fixture
def lasting(tmp_path: Path) -> Iterator[Server]:
    """A server that comes back at the same address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = Server(tmp_path, ROTA_HTTP_PORT=str(port))
    yield server
    server.end()


def plant_jobs(store: Store, folder: Path) -> dict[str, str]:
    """Jobs and a worker of their own that say evil things; the page of each, and where on it that stands."""
    worker = store.workers.register(EVIL[:180])
    new = NewJob(EVIL, kind=EVIL[:180], payload={EVIL: [EVIL]}, key=EVIL, limit_key=EVIL, max_attempts=1)
    failed = store.jobs.add(new).id
    claim = store.claims.claim(failed, worker.id)
    written = folder / "written"
    written.write_text(EVIL)
    store.claims.capture(claim, str(written), str(written))
    store.claims.checkpoint(claim, {EVIL: EVIL})
    store.claims.settle(claim, Failed(EVIL))
    done = store.jobs.add(NewJob(EVIL, after=[failed])).id
    store.jobs.done(done, {"text": EVIL}, force=True)
    noted = store.jobs.add(NewJob(EVIL)).id
    store.claims.release(store.claims.claim(noted), EVIL)
    held = store.jobs.add(NewJob(EVIL)).id
    store.claims.claim(held, worker.id)
    store.workers.heartbeat(worker.id, {"busy": EVIL, "progress": {"done": 1, "total": 2, "note": EVIL[:200]}})
    jobs = {f"jobs/{failed}": "Error", f"jobs/{done}": "Result", f"jobs/{noted}": "Note", f"jobs/{held}": ""}
    return {**jobs, f"workers/{worker.id}": ""}


def plant_crew(store: Store) -> dict[str, str]:
    """A crew of an evil name on such a host, one of whose workers died with evil words."""
    orchestrator = store.orchestrators.join(EVIL[:150], Home("far/1", EVIL[:150], 4242, EVIL[:60]))
    (slot,) = store.slots.take(EVIL[:150], "far/1", {"tag": 1})
    worker = store.orchestrators.register_worker(orchestrator, slot.name, "tag")
    death = Death(worker, slot.name, "signaled", EVIL, signal=9, sent_by=EVIL, last_frame=EVIL, stderr_tail=EVIL)
    store.orchestrators.record_death(death, Report(), RestartPolicy(most_in_window=0))
    return {"workers/worker%3Atag%3A0": "Deaths", "hosts": "Hosts", "overview": "Recent deaths"}


def plant_clockwork(store: Store) -> dict[str, str]:
    """A source and a schedule that failed with evil words."""
    store.sources.declare([Declared("files", "tag", "tag", SECOND, 1, 1, None)])
    store.schedules.add(NewSchedule("nightly", "0 2 * * *", kind=EVIL[:180], payload_json=json.dumps(EVIL)))
    with store.write() as tx:
        tx.execute("source.fill_failed", name="files", error=EVIL)
        tx.execute("source.failed", name="files", now=tx.now, error=EVIL, worker=EVIL)
        tx.execute("schedule.refused", name="nightly", error=EVIL)
    store.schedules.pause("nightly", EVIL)
    return {"sources": "files", "schedules": "Schedules"}


def plant_columns(server: Server) -> None:
    """What no caller is let say, should the database hold it all the same."""
    connection = apsw.Connection(str(server.shell.path))
    connection.set_busy_timeout(10_000)  # the API writes as well
    for table, column in COLUMNS:
        connection.execute(f"UPDATE {table} SET {column} = ?", (EVIL,))
        assert connection.changes() > 0, table
    connection.close()


def shown() -> set[str]:
    """Return each text, such as `Job.title`, that the API has for the dashboard and that a source of it names."""
    pages = [path for path in SOURCES.rglob("*.ts*") if path not in TYPES and ".test." not in path.name]
    read = set(re.findall(r"\w+", " ".join(path.read_text() for path in pages)))
    texts = set()
    declared = "\n".join(path.read_text() for path in TYPES)
    for shape, fields in re.findall(r"export interface (\w+) \{(.*?)\n\}", declared, re.DOTALL):
        for name, kind in re.findall(r"^  (\w+)\??: ([^;]+);", fields, re.MULTILINE):
            if name in read and re.search(r"\b(string|Json)\b", re.sub(r"Record<.*>|\[name.*", "", kind)):
                texts.add(f"{shape}.{name}")
    return texts


def told(client: Client, jobs: list[str], workers: list[str]) -> dict[str, list[dict[str, Any]]]:
    """What the API says of all that was planted, by the shape it has on the dashboard."""
    asked = {
        "Me": ["me"], "Job": ["jobs"], "Run": [f"{job}/runs" for job in jobs], "Output": [f"{jobs[0]}/output"],
        "Queue": ["queues"], "Slot": ["slots"], "Worker": workers, "Death": ["deaths"], "Notice": ["attention"],
        "Crew": ["orchestrator"], "Source": ["sources"], "Schedule": ["schedules"], "Fact": ["events/log?limit=100"],
    }  # fmt: skip
    found: dict[str, list[dict[str, Any]]] = {}
    for shape, paths in asked.items():
        answers = [client.get(f"/api/v1/{path}") for path in paths]
        found[shape] = [each for answer in answers for each in (answer if isinstance(answer, list) else [answer])]
    found["Orchestrator"] = found["Crew"][0]["orchestrators"]
    found["Node"] = client.get(f"/api/v1/{jobs[0]}/graph")["nodes"]
    with client.events("worker:*") as events:
        watched = len(found["Slot"]) + len(workers)
        found["WorkerState"] = [event["worker"] for _, event in zip(range(watched), events, strict=False)]
    return found


def is_harmless(screen: Screen, place: str) -> None:
    screen.go(place)
    expect(screen.page.locator("main h1")).to_be_visible()
    expect(screen.page.locator("[aria-busy]")).to_have_count(0)
    is_quiet(screen, place)


def is_quiet(screen: Screen, place: str) -> None:
    """Nothing ran, nothing became a part of the page, and the browser had nothing to refuse."""
    assert screen.page.evaluate("window.hit") is None, place
    assert screen.page.evaluate("document.querySelectorAll('body script, body img').length") == 0, place
    assert screen.complaints == [], place


def test_nothing_that_anyone_says_ever_runs(server: Server, view: Look) -> None:
    """On each page, on pages that are open while it is said, and in a dialog; in every text that is shown."""
    named = server.client(server.token(EVIL[:60], "admin"))
    screens = {place: view(named.post("/api/v1/codes")["link"]) for place in ("jobs", "schedules", "hosts")}
    for place, screen in screens.items():
        is_harmless(screen, place)
    with server.store() as store:
        planted = {**plant_jobs(store, server.shell.folder), "queues": "default"}
        named.post("/api/v1/queues/pause", queue="default", reason=EVIL)
        planted |= {**plant_crew(store), **plant_clockwork(store)}
    for place, screen in screens.items():
        expect(screen.page.locator("main")).to_contain_text(SEEN)
        is_quiet(screen, f"{place}, which was open")
    screens["hosts"].press("Drain")
    expect(screens["hosts"].page.get_by_role("dialog")).to_contain_text(SEEN)
    is_quiet(screens["hosts"], "a dialog")
    plant_columns(server)
    every_text_is_planted(named, list(planted))
    screen = screens["jobs"]
    for place, panel in planted.items():
        is_harmless(screen, place)
        told = screen.panel(panel) if panel else screen.page.locator("main")
        expect(told).to_contain_text(SEEN)
    for place in (*PAGES, f"jobs?search={EVIL[:20]}", f"workers/{EVIL}", f"nowhere{EVIL}", f"events?text={EVIL}"):
        is_harmless(screen, place)
    expect(screen.page.get_by_role("navigation")).to_contain_text(SEEN)
    screen.go("schedules")
    expect(screen.page.locator(".said").filter(has_text=SEEN)).to_have_count(2)


def every_text_is_planted(client: Client, places: list[str]) -> None:
    """A text that is new on the dashboard is neither planted here nor known to be rota's own."""
    found = told(
        client,
        [place for place in places if place.startswith("jobs/")],
        [place for place in places if place.startswith("workers/") and "%3A" not in place],
    )
    evil = {
        f"{shape}.{name}"
        for shape, all in found.items()
        for each in all
        for name, text in each.items()
        if SEEN in json.dumps(text)
    }
    assert shown() - evil == {text for text in shown() if re.fullmatch(OWN, text)}


def test_words_in_a_certificate_and_in_the_log_are_words(server: Server, view: Look) -> None:
    with server.store() as store:
        places = {**plant_jobs(store, server.shell.folder), **plant_crew(store)}
    server.client(server.token(EVIL[:60], "enqueue")).post("/api/v1/jobs", title=EVIL)
    screen = view()
    is_harmless(screen, "workers/worker%3Atag%3A0")
    expect(screen.page.get_by_role("article").get_by_text(SEEN)).to_have_count(4)
    is_harmless(screen, "events?topic=queue%3Ajobs")
    expect(screen.page.get_by_role("cell", name=f"{EVIL[:60]}@http").first).to_be_visible()
    is_harmless(screen, next(iter(places)))
    screen.heading(EVIL)
    expect(screen.page.get_by_label("Output", exact=True).last).to_contain_text(SEEN)


def test_the_page_lets_no_script_in_but_its_own_and_all_of_it_is_below_150_kb(server: Server) -> None:
    browser = httpx.Client(base_url=server.url)
    browser.get(server.shell.say("open"))
    page = browser.get("/")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy
    assert not re.search(r"<script(?![^>]*src=)|style=|\son\w+=", page.text), "nothing inline"
    assert page.headers["cache-control"] == "no-store"
    files = re.findall(r'(?:src|href)="(assets/[^"]+)"', page.text)
    assert len(files) == 3
    size = 0
    for file in files:
        answer = httpx.get(f"{server.url}/{file}")
        assert answer.status_code == 200 and "immutable" in answer.headers["cache-control"]
        assert answer.headers["content-encoding"] == "gzip" and re.search(r"-[0-9a-f]{12}\.", file)
        plain = httpx.get(f"{server.url}/{file}", headers={"Accept-Encoding": "identity"})
        assert "content-encoding" not in plain.headers and plain.content == answer.content
        size += len(plain.content)
    assert 50_000 < size < 150_000
    browser.close()


@pytest.mark.parametrize("width", [1280, 400])
def test_names_that_javascript_knows_and_texts_without_a_break_spoil_no_page(
    server: Server, view: Look, width: int
) -> None:
    names, long, turned = ("constructor", "__proto__", "toString"), "W" * 1000, f"a\u202ecod.exe\u2067\u2028{'b' * 200}"
    places = []
    with server.store() as store:
        for n, (name, text) in enumerate(zip(names, (long, turned, turned[::-1]), strict=True)):
            payload = {"path": "javascript:window.hit=4", "__proto__": {"hit": 1}, "constructor": text}
            job = store.jobs.add(NewJob(text, queue=name, kind=name, payload=payload, max_attempts=1)).id
            worker = store.workers.register(text[:200], queue=name).id
            store.claims.settle(store.claims.claim(job, worker), Failed(text * 16))
            done = store.jobs.add(NewJob(text, queue=name, kind=text[:200])).id
            store.jobs.done(done, {"__proto__": text, "text": "x" * 250_000}, force=True)
            store.queues.pause(name, text[:200])
            crew = store.orchestrators.join(text[:150], Home(f"far/{n}", text[:150], 4242, text[:60]))
            (slot,) = store.slots.take(text[:150], f"far/{n}", {name: 1})
            registered = store.orchestrators.register_worker(crew, slot.name, name)
            death = Death(
                registered, slot.name, "signaled", text, signal=9, sent_by=text, last_frame=text, stderr_tail=text
            )
            store.orchestrators.record_death(death, Report(), RestartPolicy(most_in_window=0))
            store.sources.declare([Declared(name, name, name, SECOND, 1, 1, None)])
            store.schedules.add(NewSchedule(name, "0 2 * * *", kind=text[:180]))
            with store.write() as tx:
                tx.execute("source.fill_failed", name=name, error=text)
                tx.execute("schedule.refused", name=name, error=text)
            places += [f"jobs/{job}", f"jobs/{done}", f"workers/{worker}", f"workers/worker%3A{name}%3A0"]
            places += [name, f"jobs?queue={name}", f"jobs?status={name}", f"events?topic={name}"]
    screen = view(width=width)
    for place in (*PAGES, *places):
        is_harmless(screen, place)
        assert screen.page.evaluate("document.documentElement.scrollWidth") <= width, place
        for wrong in ("NaN", "[object", "function ", "undefined"):
            expect(screen.page.locator("main").get_by_text(wrong)).to_have_count(0)
    assert screen.page.evaluate("[...document.links].every(link => link.protocol.startsWith('http'))")


def test_who_comes_without_a_session_is_told_what_to_do(server: Server, browser: Browser) -> None:
    stranger = browser.new_page()
    for path in ("/", "/open?code=nonsense"):
        answer = stranger.goto(f"{server.url}{path}")
        assert answer is not None and answer.status == 401
        expect(stranger.get_by_text("rota open")).to_be_visible()
    assert httpx.get(server.url).headers["content-type"] == "application/problem+json", "a program gets the problem"
    stranger.close()


def test_a_readers_token_sees_everything_and_no_button(server: Server, view: Look) -> None:
    with server.store() as store:
        job = store.jobs.add(NewJob("A", "tag")).id
        worker = store.workers.register("loop").id
        store.orchestrators.join("main", Home("far/1", "far", 4242, None))
        store.slots.take("main", "far/1", {"tag": 1})
        store.sources.declare([Declared("files", "tag", "tag", SECOND, 1, 1, None)])
        store.schedules.add(NewSchedule("nightly", "0 2 * * *"))
    reader = server.client(server.token("reader", "read"))
    screen, admin = view(reader.post("/api/v1/codes")["link"]), view()
    deeds = {
        "overview": "Pause all", "queues": "Scale", "hosts": "Drain", "sources": "Forget", "schedules": "Remove",
        f"jobs/{job}": "Cancel", "workers/worker%3Atag%3A0": "Reset", f"workers/{worker}": "Stop worker",
    }  # fmt: skip
    for place in {**dict.fromkeys(PAGES), **deeds}:
        screen.go(place)
        expect(screen.page.locator("main h1")).to_be_visible()
        if place in deeds:
            admin.go(place)
            expect(admin.page.locator("main").get_by_role("button", name=deeds[place], exact=True)).to_be_visible()
        expect(screen.page.locator("[aria-busy]")).to_have_count(0)
        expect(screen.page.locator("main").get_by_role("button")).to_have_count(0)
    screen.go(f"jobs/{job}")
    screen.heading("A")
    status = screen.page.evaluate(
        """id => fetch(`api/v1/jobs/${id}/cancel`, {method: "POST", body: "{}",
            headers: {"Content-Type": "application/json"}}).then(answer => answer.status)""",
        job,
    )
    assert status == 403


def test_a_server_that_is_away_is_shown_and_one_that_is_back_is_followed(lasting: Server, browser: Browser) -> None:
    ghost = lasting.shell.ask("worker", "register", "--name", "ghost")["id"]
    screen = Screen(browser, lasting.shell.say("open"))
    screen.page.evaluate("window.mark = true")
    screen.go("workers")
    screen.sees("ghost")
    lasting.stop()
    banner = screen.page.get_by_role("alert").filter(has_text="The server does not answer")
    expect(banner).to_be_visible()
    lasting.shell.say("worker", "deregister", ghost)
    lasting.shell.say("worker", "register", "--name", "newcomer")
    lasting.start()
    expect(banner).to_have_count(0)
    screen.sees("newcomer")
    screen.sees_no("ghost")
    assert screen.page.evaluate("window.mark") is True, "the page was not loaded again"
    screen.close()


def test_a_session_that_is_over_says_so(lasting: Server, browser: Browser) -> None:
    screen = Screen(browser, lasting.shell.say("open"))
    screen.heading("Overview")
    (token,) = lasting.shell.ask("token", "list")
    lasting.shell.say("token", "revoke", token["id"])
    screen.sees("This session is over")
    expect(screen.page.get_by_role("navigation")).to_have_count(0)
    screen.close()


def test_a_session_is_signed_and_of_no_use_elsewhere(server: Server) -> None:
    browser = httpx.Client(base_url=server.url)
    browser.get(server.shell.say("open"))
    session = browser.cookies["rota_session"]
    id, until, signature = session.rsplit(".", 2)
    longer = f"{id}.{int(until) + 1}.{signature}"
    for forged in (longer, f"{id}.{until}.", f"{id}.{until}.{'0' * 64}", session.upper(), "", "..", "é"):
        cookie = {"Cookie": f"rota_session={forged}".encode()}
        assert httpx.get(f"{server.url}/api/v1/jobs", headers=cookie).status_code == 401  # type: ignore[arg-type]
    assert json.loads(browser.get("/api/v1/me").text)["scopes"] == ["admin"]
    browser.close()
