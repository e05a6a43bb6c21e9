"""One rule for what a payload may be, whichever way it comes in; and whatever a store holds, its readers read on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from tests.support.shell import Shell
from tests.support.stores import rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.api.servers import Server

UNSOUND = ["NaN", "1e400", r'"\ud800"', r'{"\udcff":1}', "[" * 61 + "]" * 61, "9" * 400]


@pytest.mark.parametrize("text", UNSOUND, ids=lambda text: text[:12])
def test_a_payload_that_some_reader_of_json_does_not_take_is_refused_by_every_door(
    shared: Server, tmp_path: Path, text: str
) -> None:
    far = Shell(tmp_path, ROTA_DB=shared.url, ROTA_TOKEN=shared.secret)
    before = len(shared.client().get("/api/v1/jobs"))
    for shell in (shared.shell, far):
        refusal = shell.call("add", "a job", "--payload", text)
        assert refusal.returncode == 2 and "the payload is not JSON (" in refusal.stderr
    client = shared.client()
    for path, value in (("jobs", "{%s}"), ("jobs/bulk", '{"jobs":[{%s}]}')):
        body = value % f'"title":"a job","payload":{text}'
        answer = client.http.post(f"/api/v1/{path}", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 400, answer.text
    assert len(client.get("/api/v1/jobs")) == before


@pytest.mark.parametrize("text", [*UNSOUND, "[" * 2000 + "]" * 2000, "{oops"], ids=lambda text: text[:12])
def test_whatever_a_store_holds_every_answer_is_json_and_no_claim_is_stranded(
    shared: Server, tmp_path: Path, text: str
) -> None:
    """Another program wrote it, behind the store's back."""
    far = Shell(tmp_path, ROTA_DB=shared.url, ROTA_TOKEN=shared.secret)
    client, id = shared.client(), shared.client().post("/api/v1/jobs", title="a job", priority=9)["id"]
    with shared.store() as store:
        rows(
            store, "UPDATE job SET payload = :json, result = :json, checkpoint = :json WHERE id = :id", json=text, id=id
        )
    for path in ("jobs", "jobs/ready", f"jobs/{id}", f"jobs/{id}?details=true"):
        answer = client.http.get(f"/api/v1/{path}")
        found = msgspec.json.decode(answer.content)
        assert answer.status_code == 200
        (document,) = [each for each in (found if isinstance(found, list) else [found]) if each["id"] == id]
        assert (document["payload"], document["result"]) == (text, text)
    for shell in (shared.shell, far):
        for words in (("show", id), ("list",), ("ready",)):
            printed = shell.call(*words, "--json")
            assert printed.returncode == 0 and msgspec.json.decode(printed.stdout.encode())
    (taken,) = far.ask("ready", "--claim")
    assert taken["id"] == id and taken["claim"]["token"]
    far.ask("done", id, "--token", taken["claim"]["token"])
    assert client.get(f"/api/v1/jobs/{id}")["status"] == "done"
