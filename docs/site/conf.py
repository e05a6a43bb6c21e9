"""How Sphinx builds the site from the pages as they lie in the repository: `./dev docs`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx.addnodes import pending_xref

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from docs.site import navigation, pictures  # noqa: E402
from rota.core.version import __version__  # noqa: E402

project = "rota"
release = version = __version__
project_copyright = "the rota maintainers"
extensions = ["myst_parser"]

root_doc = "docs/index"
include_patterns = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/**.md", "examples/*/README.md"]
exclude_patterns = [".*", "benchmarks", "build", "deploy", "dist", "site", "src", "tests", "web"]
nitpicky = True
myst_heading_anchors = 4
myst_fence_as_directive: set[str] = set()

html_theme = "furo"
html_title = "rota"
html_logo = html_favicon = "../../web/src/icon.svg"
html_static_path = ["rota.css"]
html_css_files = ["rota.css"]
html_extra_path = ["begin"]
html_copy_source = False
# An excerpt is fetched from the page that was found, which a browser refuses for files.
html_show_search_summary = False
html_theme_options = {
    "navigation_with_keys": True,
    "light_css_variables": {
        "font-stack": "Inter, system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif",
        "font-stack--monospace": "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace",
        "color-brand-primary": "#2b59c3",
        "color-brand-content": "#2b59c3",
        "color-brand-visited": "#2b59c3",
        "color-foreground-primary": "#1b2330",
        "color-foreground-secondary": "#586274",
        "color-background-secondary": "#f5f6f8",
        "color-background-border": "#dfe3e9",
    },
    "dark_css_variables": {
        "color-brand-primary": "#85a9ff",
        "color-brand-content": "#85a9ff",
        "color-brand-visited": "#85a9ff",
        "color-foreground-primary": "#e3e8f0",
        "color-foreground-secondary": "#9aa5b6",
        "color-background-primary": "#0f1319",
        "color-background-secondary": "#171c24",
        "color-background-border": "#29313d",
    },
}
pygments_style = "default"
pygments_dark_style = "github-dark"


def plain(_: Sphinx, page: nodes.document) -> None:
    """Replace a link to a folder of the repository by its name, since the site has no page for it."""
    home = Path(page["source"]).parent
    for link in list(page.findall(pending_xref)):
        if (home / link["reftarget"]).is_dir():
            link.replace_self(link.children)


def setup(app: Sphinx) -> None:
    app.connect("source-read", navigation.plant)
    app.connect("html-page-context", navigation.sidebar, priority=100)
    app.connect("doctree-read", pictures.draw)
    app.connect("doctree-read", plain)
