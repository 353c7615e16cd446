"""How the site is built: `make docs`. Nothing here needs the network, neither to build nor to read."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "extensions"))

import bagwise  # noqa: E402

project = "bagwise"
author = "The bagwise developers"
copyright = author
version = release = bagwise.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "api_pages",
    "command_options",
    "mathml",
]
exclude_patterns = ["_build", "extensions", "gallery/*.py", "gallery/*.ipynb", "gallery/*.json", "gallery/*.zip"]
# What is in single backticks in a docstring is a name; one that is not ours stays code.
default_role = "py:obj"

# A block without a language is a command or a table, not Python.
highlight_language = "none"

# Pages in Markdown ------------------------------------------------------------------------------------------------
myst_enable_extensions = ["colon_fence", "html_image"]
myst_heading_anchors = 3

# API --------------------------------------------------------------------------------------------------------------
autosummary_generate = True
autodoc_typehints = "none"
autodoc_inherit_docstrings = False
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
html_math_renderer = "mathml"

# Gallery ----------------------------------------------------------------------------------------------------------
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "ignore_pattern": r"^(?!plot_)",
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": ("matplotlib",),
    "reset_modules": ("matplotlib", "gallery_style.use"),
    "thumbnail_size": (720, 480),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "write_computation_times": False,
    "show_memory": False,
    "capture_repr": (),
    "show_signature": False,
    "min_reported_time": 1_000,
}

# Looks ------------------------------------------------------------------------------------------------------------
html_theme = "pydata_sphinx_theme"
html_title = "bagwise"
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["bagwise.css"]
html_show_sourcelink = False
html_copy_source = False
# On these pages wide tables take the space of the list of headings.
WIDE_TABLES = [path.stem for path in HERE.glob("*_measured.md")] + ["benchmarks", "comparison", "league"]
html_theme_options = {
    "logo": {"text": "bagwise"},
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": False,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": {"**": ["page-toc"]} | dict.fromkeys(WIDE_TABLES, []),
    "pygments_light_style": "a11y-light",
    "pygments_dark_style": "a11y-dark",
}
html_sidebars = {"index": [], "start": []}
