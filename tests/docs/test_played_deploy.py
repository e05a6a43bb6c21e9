"""The guides to deployment, as far as one can follow them here: what runs rota elsewhere runs it in this shell instead.

Nothing here stands for docker, kubectl or systemctl but a function of that name, which calls rota where they would.
"""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import ROOT
from tests.docs.played import Scene, play
from tests.docs.test_played import DONE, python
from tests.support import postgres

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.postgres

BEGIN = r"""
HERE=$PWD
begin() {
  local said=$PWD/said-by-${#stays[@]}
  rota "$@" > "$said" 2>&1 &
  stays+=($!); await "$said" 'is up\|answers at'
}
sudo() { if [[ $1 == -u ]]; then shift 2; fi; "$@"; }
"""
# Each container is a host; here all of them are this one.
DOCKER = r"""
docker() {
  case "$*" in
    "build "*) ;;
    "compose up --detach db migrate") rota init ;;
    "compose up --detach") begin orchestrator start --app shop:app --pool tag=2 --no-http; begin serve --host 0.0.0.0 ;;
    "compose run --rm api "*) rota "${@:5}" ;;
    "compose exec "*) "${@:4}" ;;
    *) return 1 ;;
  esac
}
mkdir -p deploy/docker
"""
KUBECTL = r"""
kubectl() {
  case "$1 $*" in
    "apply "*--kustomize*) rota init; rota migrate ;;
    "scale "*) begin orchestrator start --app shop:app --pool tag=4 --no-http ;;
    "create "*rota-metrics*) begin serve --host 0.0.0.0 ;;
    "exec "*" -- "*) while [[ $1 != -- ]]; do shift; done; "${@:2}" ;;
    "apply "* | "create "* | "delete "* | "get "* | "port-forward "* | "rollout "* | "wait "*) ;;
    *) return 1 ;;
  esac
}
"""
# The unit's crew, with the words of its file of variables.
SYSTEMCTL = r"""
useradd() { :; }; sudoedit() { :; }; journalctl() { :; }
systemctl() {
  case "$1" in
    enable) cd $HERE/var/lib/rota; begin orchestrator start $(sed -n 's/^CREW=//p' $HERE/etc/rota/rota.env) ;;
    daemon-reload | status | restart | kill) ;;
    *) return 1 ;;
  esac
}
mkdir -p opt/rota-0.1.0 etc/systemd/system var/lib/rota run/rota
"""
HERE = {place: f"$HERE{place}" for place in ("/opt/", "/etc/", "/var/lib/", "/run/")}
A_SECOND_UNIT = "ROTA_DB={url} XDG_RUNTIME_DIR=/run/rota begin orchestrator start --app shop:app --no-http"
INSTALL, EMPTY = 'ln --symbolic "$(which rota)"', {"-m venv": "-m venv --without-pip"}


def scenes(url: str) -> dict[str, Scene]:
    files, there = (
        {"shop.py": python("crew")},
        f"export ROTA_DB={url} XDG_RUNTIME_DIR=$PWD PYTHONPATH=$PWD PGPASSWORD=x",
    )
    queues = "http://127.0.0.1:$ROTA_HTTP_PORT/api/v1/queues"
    return {
        "deploy-docker": Scene(files, BEGIN + DOCKER + there, after=f"{DONE}; grep ROTA_IMAGE=shop .env"),
        "deploy-kubernetes": Scene(
            files, BEGIN + KUBECTL + there, after=f'curl -sSf -H "Authorization: Bearer $TOKEN" {queues}'
        ),
        "deploy-systemd": Scene(
            files,
            f"{BEGIN}{SYSTEMCTL}\nln --symbolic {quote(str(ROOT / 'deploy'))} deploy; mv .rota shop.py var/lib/rota",
            instead={
                "/opt/rota/bin/pip install": f"{INSTALL} /opt/rota/bin/rota #",
                "--group rota": '--group "$(id --group --name)"',
                "sudo -u rota env": f"{A_SECOND_UNIT.format(url=url)}\nsudo -u rota env",
                "postgresql://rota@db.example/jobs": url,
                **EMPTY,
                **HERE,
            },
            after=f"{DONE}; ls $HERE/etc/systemd/system",
        ),
        "upgrades": Scene(
            before=f"{BEGIN}{SYSTEMCTL}\nln --symbolic opt/rota-0.1.0 opt/rota",
            instead={
                "/opt/rota-0.2.0/bin/pip install": f"{INSTALL} /opt/rota-0.2.0/bin/rota #",
                "/opt/": "$HERE/opt/",
                **EMPTY,
            },
            after="[[ $(readlink opt/rota) == $HERE/opt/rota-0.2.0 ]]; opt/rota/bin/rota doctor",
        ),
    }


@pytest.mark.parametrize("name", ["deploy-docker", "deploy-kubernetes", "deploy-systemd", "upgrades"])
def test_the_calls_of_rota_in_a_guide_work_in_their_order(name: str, tmp_path: Path) -> None:
    with postgres.shared().database() as url:
        assert play(name, scenes(url)[name], tmp_path)
