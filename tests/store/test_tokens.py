"""Access tokens: told once, kept as a hash, proved in constant time, gone when revoked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rota.core.access import SCOPES, AccessToken, id_of, secret_text
from rota.core.errors import BadInput, Conflict, NotFound
from rota.core.event import TokenChanged
from rota.core.times import MINUTE, SECOND
from tests.support.stores import rows

if TYPE_CHECKING:
    from rota.store.store import Store
    from tests.support.clock import FakeClock


def test_a_secret_proves_its_token_and_no_other_text_does(store: Store) -> None:
    token, secret = store.tokens.create("ci", ["read", "enqueue"])
    other, _ = store.tokens.create("night", ["work"])
    assert store.tokens.prove(secret) == token
    forged = secret_text(other.id, bytes.fromhex(secret.rpartition("_")[2]))
    for text in (
        "",
        "rota",
        secret[:-1],
        secret + "0",
        secret.upper(),
        forged,
        "rota_00000000_00",
        "é" * 40,
        f" {secret}",
    ):
        assert store.tokens.prove(text) is None, text


def test_the_secret_is_kept_nowhere(store: Store) -> None:
    _, secret = store.tokens.create("ci", ["read"])
    kept = [str(row) for row in rows(store, "SELECT * FROM token") + rows(store, "SELECT * FROM event")]
    assert kept and not [row for row in kept if secret in row or secret.rpartition("_")[2] in row]


def test_a_revoked_token_proves_nothing_and_a_second_time_changes_nothing(store: Store, clock: FakeClock) -> None:
    token, secret = store.tokens.create("ci", ["admin"])
    gone = store.tokens.revoke(token.id)
    clock.advance(SECOND)
    assert store.tokens.prove(secret) is None and store.tokens.revoke(token.id) == gone
    assert [fact.verb for event in store.events.after("0") for fact in event.of(TokenChanged)] == ["create", "revoke"]
    with pytest.raises(NotFound):
        store.tokens.revoke("token-00000000")


def test_one_living_token_has_a_name(store: Store) -> None:
    token, _ = store.tokens.create("ci", ["read"])
    with pytest.raises(Conflict, match="already"):
        store.tokens.create("ci", ["read"])
    store.tokens.revoke(token.id)
    assert store.tokens.create("ci", ["read"])[0].id != token.id


@pytest.mark.parametrize("name", ["", " ", "a\n", "\x1b[31m", "x" * 101, " a"])
def test_a_name_is_plain(store: Store, name: str) -> None:
    with pytest.raises(BadInput, match="not a token's name"):
        store.tokens.create(name, ["read"])


@pytest.mark.parametrize("scopes", [[], ["root"], ["read", "Read"]])
def test_scopes_are_known_ones(store: Store, scopes: list[str]) -> None:
    with pytest.raises(BadInput, match="scope"):
        store.tokens.create("ci", scopes)


def test_use_is_shown_to_the_minute_and_costs_no_event(store: Store, clock: FakeClock) -> None:
    token, _ = store.tokens.create("ci", ["read"])
    before = [event.facts for event in store.events.newest()]
    store.tokens.used(token)
    first = store.tokens.get(token.id)
    clock.advance(30 * SECOND)
    store.tokens.used(first)
    assert store.tokens.get(token.id) == first and first.last_used_at is not None
    clock.advance(MINUTE)
    store.tokens.used(first)
    assert store.tokens.get(token.id).last_used_at == clock.now()
    assert [event.facts for event in store.events.newest()] == before


def test_admin_allows_everything_and_the_others_themselves() -> None:
    for scope in SCOPES:
        token = AccessToken("token-1", "a", frozenset({scope}), "me", 0, None, None)
        assert [each for each in SCOPES if token.allows(each)] == (list(SCOPES) if scope == "admin" else [scope])
        assert not token.replace(revoked_at=1).allows(scope)


def test_the_text_of_a_token_names_its_row() -> None:
    assert id_of(secret_text("token-1a2b3c4d", b"\x01\x02")) == "token-1a2b3c4d"
    for text in (
        "",
        "rota_1a2b3c4d",
        "rota_1a2b3c4d_",
        "rota_x_00",
        "other_1a2b3c4d_00",
        "rota_1a2b3c4d_ö",
        "rota_1a2b3c4d_0_0",
    ):
        assert id_of(text) is None
