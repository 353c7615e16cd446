"""Run the cells of a notebook and store their outputs in it: ``python docs/extensions/notebooks.py FILE``.

It displays what Jupyter would: printed text, and the last expression of a cell as HTML and text. Neither Jupyter nor a
kernel is needed.
"""

import ast
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path


def run_notebook(path) -> dict:
    """Return the notebook with the outputs of its cells, which run in an empty folder."""
    notebook = json.loads(Path(path).read_text(encoding="utf-8"))
    names: dict = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for number, cell in enumerate((cell for cell in notebook["cells"] if cell["cell_type"] == "code"), start=1):
            cell["execution_count"], cell["outputs"] = number, run_cell("".join(cell["source"]), names, number)
    return notebook


def run_cell(source: str, names: dict, number: int) -> list[dict]:
    """Run one cell and return its outputs."""
    tree, printed, value = ast.parse(source), io.StringIO(), None
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {number}", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
    text, outputs = printed.getvalue(), []
    if text:
        outputs.append({"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        html = getattr(value, "_repr_html_", None)
        if html is not None:
            data["text/html"] = html().splitlines(keepends=True)
        result = {"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": data}
        outputs.append(result)
    return outputs


if __name__ == "__main__":
    os.environ.setdefault("COLUMNS", "100")
    for name in sys.argv[1:]:
        place = Path(name)
        place.write_text(json.dumps(run_notebook(place), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
