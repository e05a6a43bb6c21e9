"""Crews on several hosts: what a button does reaches the one beside which it stands."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from rota.core.job import NewJob
from rota.store.workers.crews import Home

if TYPE_CHECKING:
    from rota.store.store import Store
    from tests.api.servers import Server
    from tests.web.conftest import Look


def settle_in(store: Store, host: str, name: str, workers: int) -> int:
    """An orchestrator of crew main on some host, with slots for queue tag; its number."""
    orchestrator = store.orchestrators.join("main", Home(host, name, 4242, None))
    store.slots.take("main", host, {"tag": workers})
    return orchestrator


def asked_of(store: Store, orchestrator: int) -> str | None:
    """What people wish of an orchestrator."""
    directive = store.orchestrators.directive(orchestrator, "main")
    assert directive is not None
    return directive.desired


def test_a_crew_is_drained_on_the_host_of_its_row(server: Server, view: Look) -> None:
    with server.store() as store:
        alpha, beta, twin = (
            settle_in(store, host, name, 1)
            for host, name in (("boot-one/1", "alpha"), ("boot-two/1", "beta"), ("boot-six/1", "beta"))
        )
        screen = view()
        screen.go("hosts")
        rows = screen.panel("Hosts").get_by_role("row")
        expect(rows).to_have_count(4)
        screen.press("Drain", rows.filter(has_text="boot-six"))
        expect(screen.page.get_by_role("dialog")).to_contain_text("Drain crew main on beta (boot-six/1)?")
        screen.confirm("Drain")
        screen.sees("crew main on beta (boot-six/1) drains")
        assert [asked_of(store, each) for each in (alpha, beta, twin)] == [None, None, "drain"]
        screen.press("Drain", rows.filter(has_text="alpha"))
        screen.confirm("Drain")
        screen.sees("crew main on alpha drains")
        assert [asked_of(store, each) for each in (alpha, beta, twin)] == ["drain", None, "drain"]


def test_a_queue_is_scaled_on_the_host_that_was_chosen(server: Server, view: Look) -> None:
    with server.store() as store:
        settle_in(store, "boot-one/1", "alpha", 3)
        settle_in(store, "boot-two/1", "beta", 2)
        store.jobs.add(NewJob("A", "tag"))
        screen = view()
        screen.go("queues")
        card = screen.panel("tag")
        expect(card.get_by_text(re.compile("0 of 5 up"))).to_be_visible()
        screen.press("Scale", card)
        dialog = screen.page.get_by_role("dialog")
        expect(dialog.get_by_label("Workers")).to_have_value("3")
        dialog.get_by_label("Crew").select_option("main on beta")
        expect(dialog.get_by_label("Workers")).to_have_value("2")
        screen.confirm("Scale", Workers="4")
        expect(card.get_by_text(re.compile("0 of 7 up"))).to_be_visible()
        wanted = [slot.host for slot in store.slots.all() if slot.wanted]
        assert (wanted.count("boot-one/1"), wanted.count("boot-two/1"), len(wanted)) == (3, 4, 7)
