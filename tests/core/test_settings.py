"""Settings: a flag over the environment over a file over the default; nonsense refused with what would be right."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

import pytest

from rota.api import middleware
from rota.cli.verbs.init_run import pools_of
from rota.core import health, orchestrator, slot, worker
from rota.core.errors import BadSetting
from rota.core.frames import codec, outcomes
from rota.core.health import HealthPolicy
from rota.core.job import NewJob
from rota.core.queue import Queue
from rota.core.retry import Backoff
from rota.core.slot import RestartPolicy
from rota.core.times import DAY, MINUTE, SECOND
from rota.demo.run import POOLS
from rota.orchestrator import dispatch, maintenance, shutdown
from rota.settings import MEANINGS, Settings, _plain, load
from rota.store.jobs import payload
from rota.worker import context, runtime

if TYPE_CHECKING:
    from pathlib import Path


def test_the_defaults_are_those_of_the_design(tmp_path: Path) -> None:
    settings = load(environment={}, start=str(tmp_path))
    assert (settings.frame_interval, settings.silent_interval, settings.startup_timeout) == (
        3 * SECOND,
        9 * SECOND,
        60 * SECOND,
    )
    assert settings.health == HealthPolicy(startup=60 * SECOND, silent=9 * SECOND, misses=3, busy_silence=2 * MINUTE)
    assert settings.restarts == RestartPolicy(5 * MINUTE, 5, 20, longest_backoff=MINUTE, first_backoff=SECOND)
    assert (settings.lease, settings.heartbeat_interval, settings.poll_interval) == (
        30 * MINUTE,
        30 * SECOND,
        2 * SECOND,
    )
    assert (settings.max_attempts, settings.backoff.first, settings.backoff.most) == (3, 2 * SECOND, 10 * MINUTE)
    assert (settings.http_host, settings.http_port, settings.shutdown_timeout) == ("127.0.0.1", 8356, 20 * SECOND)
    assert (settings.keep_for, settings.keep_failed, settings.keep_jobs) == (7 * DAY, 30 * DAY, 1_000_000)
    assert settings.db is None
    assert (settings.health_history, settings.max_jobs, settings.max_rss) == (0, 0, 0), "off"
    nothing_said = {"pool": None, "workers": None}
    assert pools_of(nothing_said, settings) == {"default": 1}  # type: ignore[arg-type]
    assert POOLS == {"tag": 2, "library": 10, "calibration": 5}, "the demo's"


def test_what_is_no_setting_is_as_the_design_says_too() -> None:
    assert (health.SHORTEST_RECOVERY, health.LONGEST_RECOVERY) == (5 * SECOND, 120 * SECOND)
    assert worker.MISSED_HEARTBEATS == 2
    assert (orchestrator.LEASE, orchestrator.RENEW_EVERY) == (15 * SECOND, 4 * SECOND)
    assert (orchestrator.TELL_AFTER, orchestrator.END_AFTER) == (10 * SECOND, 12 * SECOND)
    assert Queue("tag").fence != "end", "handlers are told, and go on"
    assert maintenance.RECONCILE_EVERY == 60 * SECOND
    assert (shutdown.TERM, shutdown.KILL) == (5 * SECOND, SECOND // 2)
    assert (slot.MOST_UNSTARTED, runtime.ERRORS_IN_A_ROW) == (5, 10)
    assert (NewJob("a").timeout, Backoff().delay(3, 1.0)) == (None, 8 * SECOND)
    assert Backoff().delay(3, 0.0) == 0, "full jitter"


def test_the_largest_of_each_is_as_the_design_says() -> None:
    jobs = {payload.LARGEST, outcomes.LARGEST_RESULT, context.LARGEST_CHECKPOINT, dispatch.LARGEST_WINDOW}
    assert jobs == {256 * 1024}
    assert {middleware.LARGEST_BODY, codec.LARGEST} == {1024 * 1024}
    assert codec.LARGEST_REPORT == 64 * 1024


def test_a_flag_goes_over_a_variable_over_the_file_over_the_default(tmp_path: Path) -> None:
    (tmp_path / "rota.toml").write_text('lease = "1h"\npoll_interval = "5s"\nmax_attempts = 7\n')
    environment = {"ROTA_POLL_INTERVAL": "6s", "ROTA_MAX_ATTEMPTS": "8"}
    settings = load({"max_attempts": "9"}, environment, str(tmp_path))
    assert (settings.lease, settings.poll_interval, settings.max_attempts) == (60 * MINUTE, 6 * SECOND, 9)
    assert settings.keep_for == 7 * DAY


def test_the_nearest_file_upwards_counts(tmp_path: Path) -> None:
    (tmp_path / "rota.toml").write_text("max_attempts = 4\n")
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert load(environment={}, start=str(inner)).max_attempts == 4
    (tmp_path / "a" / "rota.toml").write_text("max_attempts = 5\n")
    assert load(environment={}, start=str(inner)).max_attempts == 5


def test_pyproject_counts_only_with_a_table_of_ours(tmp_path: Path) -> None:
    (tmp_path / "rota.toml").write_text("max_attempts = 4\n")
    inner = tmp_path / "project"
    inner.mkdir()
    (inner / "pyproject.toml").write_text("[project]\nname = 'x'\n# about [tool.rota]\n")
    assert load(environment={}, start=str(inner)).max_attempts == 4
    (inner / "pyproject.toml").write_text("[tool.rota]\nmax_attempts = 6\n")
    assert load(environment={}, start=str(inner)).max_attempts == 6


def test_programs_stand_in_a_table_of_the_file_or_in_one_variable(tmp_path: Path) -> None:
    (tmp_path / "rota.toml").write_text('[programs]\ntexts = "node worker.mjs"\n')
    assert load(environment={}, start=str(tmp_path)).programs == (("texts", "node worker.mjs"),)
    said = {"ROTA_PROGRAMS": "texts = node worker.mjs\ntag=./tag.sh 'a b'"}
    assert load(environment=said, start=str(tmp_path)).programs == (
        ("texts", "node worker.mjs"),
        ("tag", "./tag.sh 'a b'"),
    )


def test_pools_stand_in_a_table_of_the_file_or_in_one_variable(tmp_path: Path) -> None:
    (tmp_path / "rota.toml").write_text('app = "shop:app"\n[pools]\ntag = 2\nlibrary = 10\n')
    settings = load(environment={}, start=str(tmp_path))
    assert (settings.app, settings.pools) == ("shop:app", (("tag", 2), ("library", 10)))
    assert load(environment={"ROTA_POOLS": "tag=3, default=1"}, start=str(tmp_path)).pools == (
        ("tag", 3),
        ("default", 1),
    )


@pytest.mark.parametrize(
    "text",
    [
        'app = "shop:app"\n\n# more\n[pools]\ntag = 2\ndefault = 0\n',
        'lease="10m"\nmax_attempts =   7',
        "",
        'a_b = "# no comment = [x]"',
    ],
)
def test_a_plain_file_reads_the_same_without_a_parser_of_toml(text: str) -> None:
    assert _plain(text) == tomllib.loads(text)


@pytest.mark.parametrize(
    "text",
    [
        'lease = "10m" # a comment',
        "lease = '10m'",
        'lease = "1\\u0030m"',
        'lease = "a"b"',
        "x = 012",
        "x = 1_000",
        "x = true",
        "x = [1]",
        "x = 1\nx = 2",
        "[a]\n[a]",
        "[[a]]",
        "[a.b]",
        "a.b = 1",
        '"a" = 1',
        "x",
        "x = ",
        'x = """',
        "x = \u0661",
    ],
)
def test_any_other_file_is_left_to_the_parser_of_toml(text: str) -> None:
    assert _plain(text) is None


def test_an_empty_variable_is_no_variable(tmp_path: Path) -> None:
    assert load(environment={"ROTA_LEASE": ""}, start=str(tmp_path)).lease == 30 * MINUTE


def test_a_bare_number_is_minutes_for_the_lease_alone(tmp_path: Path) -> None:
    assert load({"lease": "45"}, {}, str(tmp_path)).lease == 45 * MINUTE
    with pytest.raises(BadSetting, match=r"poll_interval \(from option\): '45' is not a duration"):
        load({"poll_interval": "45"}, {}, str(tmp_path))


def test_every_setting_has_a_meaning_that_the_docs_can_show() -> None:
    assert list(MEANINGS) == list(Settings.__annotations__)


@pytest.mark.parametrize(
    ("flags", "right"),
    [
        ({"lease": "0"}, "lease must be longer than nothing"),
        ({"poll_interval": "0s"}, "poll_interval must be longer than nothing"),
        ({"backoff_first": "0s"}, "backoff_first must be longer than nothing"),
        ({"heartbeat_interval": "50ms"}, "heartbeat_interval must be at least 100ms"),
        ({"backoff_first": "1h"}, "backoff_most must be at least backoff_first"),
        ({"silent_interval": "5s"}, "silent_interval must leave room for a late frame: at least twice frame_interval"),
        ({"max_attempts": "0"}, "max_attempts must be at least 1"),
        ({"max_attempts": "-1"}, "must be a whole number, not '-1'"),
        ({"max_attempts": "three"}, "must be a whole number, not 'three'"),
        ({"keep_jobs": "1.5"}, "must be a whole number"),
        ({"keep_jobs": True}, "must be a whole number, not True"),
        ({"lease": "-5m"}, "write for example 90s, 30m or 2h"),
        ({"keep_for": "forever"}, "write for example 90s, 30m or 2h"),
        ({"app": "shop"}, "app must be module:name, such as shop:app for `app` in shop.py, not 'shop'"),
        ({"programs": 3}, r"programs .* must be a table"),
        ({"programs": {"tag": "'"}}, "tag is not a command: No closing quotation"),
        ({"programs": {"tag": ""}}, "tag must be a program and its arguments"),
        ({"pools": 3}, r"pools .* must be a table such as `tag = 2` under \[pools\], not 3"),
        ({"pools": {"tag": 0}}, "tag must be at least 1: leave the queue out"),
        ({"pools": {"a b": 1}}, "'a b' is not a queue name"),
        ({"pools": "tag=x"}, "tag must be a whole number, not 'x'"),
        ({"leese": "5m"}, "unknown setting 'leese': known are db, schema, app, pools, programs, lease"),
    ],
    ids=repr,
)
def test_nonsense_is_refused_with_what_would_be_right(tmp_path: Path, flags: dict[str, object], right: str) -> None:
    with pytest.raises(BadSetting, match=right):
        load(flags, {}, str(tmp_path))


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("lease = \n", "is not TOML"),
        ("[queue]\nx = 1\n", "unknown setting 'queue'"),
        ("poll_interval = 2\n", "is not a duration"),
        ("max_attempts = 2.5\n", "must be a whole number"),
    ],
)
def test_nonsense_in_a_file_is_refused_and_names_the_file(tmp_path: Path, text: str, right: str) -> None:
    (tmp_path / "rota.toml").write_text(text)
    with pytest.raises(BadSetting, match=right) as refused:
        load(environment={}, start=str(tmp_path))
    assert "rota.toml" in str(refused.value)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rota.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(BadSetting, match="is not TOML"):
        load(environment={}, start=str(tmp_path))


def test_nonsense_in_the_environment_names_where_it_came_from(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match=r"keep_for \(from environment\)"):
        load(environment={"ROTA_KEEP_FOR": "soon"}, start=str(tmp_path))


@pytest.mark.parametrize(
    ("db", "tracking", "url"),
    [
        (None, None, None),
        ("sqlite:///jobs.db", None, None),
        ("postgresql://host/jobs", None, "postgresql://host/jobs"),
        ("postgresql://host/jobs", "off", None),
        ("sqlite:///jobs.db", "postgres://host/app", "postgres://host/app"),
    ],
)
def test_workers_report_to_the_store_s_own_database_unless_told_otherwise(
    db: str | None, tracking: str | None, url: str | None
) -> None:
    assert Settings(db=db, tracking=tracking).tracking_url == url


def test_workers_report_to_nothing_but_postgresql_and_a_refusal_does_not_repeat_the_url(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="tracking must be a PostgreSQL URL") as refused:
        load(environment={"ROTA_TRACKING": "mysql://u:s3cret@host/app"}, start=str(tmp_path))
    assert "s3cret" not in str(refused.value)


def test_a_count_that_does_not_fit_64_bits_is_refused(tmp_path: Path) -> None:
    assert load({"max_attempts": "9" * 18}, {}, str(tmp_path)).max_attempts == int("9" * 18)
    with pytest.raises(BadSetting, match="must be a whole number"):
        load({"max_attempts": "9" * 19}, {}, str(tmp_path))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("jobs.db", "{0}/jobs.db"),
        ("sqlite:///data/jobs.db", "sqlite:///{0}/data/jobs.db"),
        ("/srv/jobs.db", "/srv/jobs.db"),
        ("sqlite:////srv/jobs.db", "sqlite:////srv/jobs.db"),
        ("postgresql://host/jobs", "postgresql://host/jobs"),
        ("http://host:8356", "http://host:8356"),
    ],
)
def test_a_path_in_a_settings_file_counts_from_the_folder_of_that_file(
    written: str, meant: str, tmp_path: Path
) -> None:
    (tmp_path / "rota.toml").write_text(f'db = "{written}"\n')
    below = tmp_path / "below"
    below.mkdir()
    assert load(environment={}, start=str(below)).db == meant.format(tmp_path)
    assert load({"db": "jobs.db"}, {}, str(below)).db == "jobs.db", "an option counts from the current folder"


def test_certificates_in_a_settings_file_count_from_its_folder_too(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.rota]\nhttp_cert = "tls/cert.pem"\nhttp_key = "/etc/key.pem"\n')
    settings = load(environment={}, start=str(tmp_path))
    assert (settings.http_cert, settings.http_key) == (f"{tmp_path}/tls/cert.pem", "/etc/key.pem")
