"""From content to one HTML file: a template, a style sheet and a script, all inside the page."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

from bagwise.io.atomic_files import replace_file

TEMPLATES = Path(__file__).parent / "templates"


def write_page(path, content: dict) -> Path:
    """Render the content and put it in place in one step."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file, such as {path / 'report.html'}")
    text = render(content)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, lambda place: place.write_text(text, encoding="utf-8"))
    return path


def render(content: dict) -> str:
    """The page. Every text in the content is escaped, unless `charts.tag` made it and did so already.

    Beside escaping, the page carries a policy that lets the browser run our own script, known by its hash, and nothing
    else, and load nothing from anywhere.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = (TEMPLATES / "report.js").read_text(encoding="utf-8")
    style = (TEMPLATES / "report.css").read_text(encoding="utf-8")
    return environment.get_template("report.html").render(
        **content, script=script, style=style, script_hash=_hash(script), as_json=as_json
    )


def as_json(value) -> str:
    """JSON that can stand inside a <script> element: no character of it can end the element.

    Examples
    --------
    >>> as_json({"bag": "</script>&"})
    '{"bag":"\\\\u003c/script\\\\u003e\\\\u0026"}'
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _hash(script: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def blank() -> dict:
    """Every part a page can have, all empty."""
    names = ("results", "summary", "function", "bags")
    lists = ("notes", "tiles", "predictions", "coverage", "failures", "methods", "facts")
    texts = {"predictions_lead": "", "no_predictions": "", "coverage_of": "", "n_failures": 0}
    return dict.fromkeys(names) | {name: [] for name in lists} | texts


def sections(content: dict) -> list[tuple[str, str]]:
    """Titles and anchors of the sections that are there."""
    names = {"results": "Results", "summary": "What was tried", "predictions": "Predictions"}
    names |= {"function": "Learned function", "bags": "Bags", "facts": "What was run"}
    return [
        (name, "run" if part == "facts" else part)
        for part, name in names.items()
        if content[part] or part == "predictions"
    ]
