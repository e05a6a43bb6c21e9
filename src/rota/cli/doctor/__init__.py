"""`rota doctor`: checks of the database, the server, the folder, the app and the orchestrator.

A check returns a finding with a level and what to do about it. `checks.py` checks the store, `environment.py` what is
around it; both are imported only when the verb runs.
"""

from __future__ import annotations

from rota.cli.invocation import columns
from rota.cli.verb import verb
from rota.core.errors import BadSetting, NotFound, RotaError
from rota.core.record import Record
from rota.settings import POSTGRES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.cli.invocation import Call

OK, WARN, BAD = "ok", "warn", "bad"


class Finding(Record):
    """The result of one check: its level, and what to do about it."""

    about: str
    level: str
    text: str
    mend: str | None = None


@verb(
    "doctor",
    "check the database and all in it; exit code 1 when something is bad",
    "rota doctor",
)
def doctor(call: Call) -> int:
    """Run every check that can be run here; return 1 if one of them found something bad, or 3 without a database."""
    from rota.cli.doctor.checks import check_store
    from rota.cli.doctor.environment import check_crew, check_notices, check_surroundings, find_app

    findings: list[Finding] = []
    code, named = 0, ""
    try:
        settings = call.settings()
        named = settings.db or ""
        app = find_app(settings)
        findings += check_surroundings(app)
        with call.store() as store:
            findings += check_store(store)
            if store.link is None:
                findings += check_crew(store, settings, app)
            findings += check_notices(store)
    except BadSetting as problem:
        findings.append(Finding("settings", BAD, str(problem)))
    except RotaError as problem:
        mend = (
            "see that its server runs, and what --db, ROTA_DB or `db` in rota.toml says"
            if named.startswith(POSTGRES)
            else None
        )
        findings.append(Finding("database", BAD, str(problem), mend))
        code = NotFound.exit_code if isinstance(problem, NotFound) else 0
    if call.json:
        call.document([{name: getattr(finding, name) for name in Finding._fields} for finding in findings])
    else:
        rows = [
            (finding.level, finding.about, f"{finding.text}; {finding.mend}" if finding.mend else finding.text)
            for finding in findings
        ]
        call.lines(columns(call, ("CHECK", "ABOUT", "FOUND"), rows))
    return code or int(any(finding.level == BAD for finding in findings))
