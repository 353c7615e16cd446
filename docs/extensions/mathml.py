"""Formulas as MathML, which browsers draw by themselves: no script, no font, no network."""

from __future__ import annotations

import re

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)


def _mathml(node, *, block: bool) -> str:
    # What docutils does not know: blank lines between the lines of a display, \dots, \big, and \tfrac34 for 3/4.
    source = re.sub(r"\\[bB]ig\b\s*", "", node.astext().strip().replace("\\dots", "\\ldots"))
    source = re.sub(r"\\([dt]?frac)\s*(\d)\s*(\d)", r"\\\1{\2}{\3}", source)
    source = source.replace("\n\n", " \\\\ ")
    try:
        return tex2mathml(source, as_block=block)
    except MathError as error:
        logger.warning("no MathML for %r: %s", source, error, location=node)
        return ""


def _inline(self, node) -> None:
    self.body.append(_mathml(node, block=False))
    raise nodes.SkipNode


def _display(self, node) -> None:
    self.body.append(f'<div class="formula">{_mathml(node, block=True)}</div>')
    raise nodes.SkipNode


def setup(app) -> dict:
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
