"""Sphinx configuration of the site. `docs/site/build.py` makes the pages that it reads."""

from __future__ import annotations

project = "BookKeeper cluster auditor"
author = "The BookKeeper cluster auditor maintainers"
project_copyright = author
html_title = project
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"

# A dead link, a dead anchor, a page outside the navigation: each is a warning, and -W stops on it.
nitpicky = True
myst_heading_anchors = 4
suppress_warnings: list[str] = []

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_last_updated_fmt = None
html_theme_options = {
    "top_of_page_buttons": [],
    "light_css_variables": {
        "color-brand-primary": "#0b5a8a",
        "color-brand-content": "#0b5a8a",
        "color-brand-visited": "#5b3f8c",
        "color-foreground-muted": "#5a5c63",
    },
    "dark_css_variables": {
        "color-brand-primary": "#7cc4f0",
        "color-brand-content": "#7cc4f0",
        "color-brand-visited": "#c3b1f0",
        "color-foreground-muted": "#a7a9b0",
    },
}
