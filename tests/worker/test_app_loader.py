"""What is said of an application that cannot be loaded: one line that names the mistake, never a traceback."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rota.core.errors import BadInput
from rota.worker.app_loader import load_app

if TYPE_CHECKING:
    from pathlib import Path


UNSAID = """
from rota import App
app = App("sqlite:///jobs.db")
app.pool(concurrency=2)
@app.task()
def tag(): ...
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "nowhere:app",
            r"there is no module 'nowhere' in /.*, nor where Python looks: write module:name, such as shop:",
        ),
        ("nowhere.deep:app", r"there is no module 'nowhere' in /"),
        ("json.nowhere:app", r"there is no module 'json.nowhere' in /"),
        (
            "wanting:app",
            r"module wanting cannot be imported: .*No module named 'nowhere' \(line 2 of wanting.py: import nowhere\)$",
        ),
        (
            "wrong:app",
            r"module wrong cannot be imported: ZeroDivisionError: division by zero \(line 1 of wrong.py: 1 / 0\)$",
        ),
        ("unsaid:app", r"^tag is a plain function, which has its worker for itself.* \(line \d of unsaid.py: "),
        (
            "garbled:app",
            r"module garbled cannot be imported: SyntaxError: invalid syntax \(line 1 of garbled.py: def\)$",
        ),
        ("deep:app", r"module deep cannot be imported: JSONDecodeError: .* \(line 3 of deep.py: json.loads\('{'\)\)$"),
        (
            "leaves:app",
            r"module leaves cannot be imported: SystemExit: 3 \(line 1 of leaves.py: raise SystemExit\(3\)\)$",
        ),
        ("empty:app", "empty has no App called 'app'; write `app = App\\(\\)` there"),
        ("shop:app", "shop has no App called 'app'; it has 'jobs'"),
        ("empty", "'empty' does not name an app: write module:name, such as shop:app"),
    ],
)
def test_the_mistake_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str) -> None:
    files = {"wanting": "\nimport nowhere\n", "wrong": "1 / 0\n", "garbled": "def\n", "empty": "", "unsaid": UNSAID}
    files |= {"deep": "\nimport json\njson.loads('{')\n", "leaves": "raise SystemExit(3)\n"}
    files |= {"shop": "from rota import App\njobs = App('x.db')\n"}
    for name, source in files.items():
        (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(BadInput, match=message):
        load_app(text)
