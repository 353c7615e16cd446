"""Search of Python source for calls that can turn data into code."""

from __future__ import annotations

import ast

# Calls that run what they are given, or rebuild any object from it.
FORBIDDEN = {
    *("eval", "exec", "compile", "__import__", "builtins.eval", "builtins.exec"),
    *("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"),
    *(f"{name}.{call}" for name in ("pickle", "cloudpickle", "dill", "marshal") for call in ("load", "loads")),
    *("pickle.Unpickler", "shelve.open", "joblib.load", "pandas.read_pickle", "torch.load", "torch.jit.load"),
    *("yaml.load", "yaml.unsafe_load", "yaml.full_load", "yaml.load_all", "jsonpickle.decode"),
    *("importlib.import_module", "runpy.run_path", "runpy.run_module"),
    *("markupsafe.Markup", "jinja2.Template", "numpy.lib.format.read_array"),
}
METHODS = {"eval", "query"}  # of data frames, whatever their name: text becomes code
# Calls that are sound unless they are given this keyword with another value than this constant.
KEYWORDS = {"allow_pickle": False, "shell": False, "autoescape": True, "weights_only": True}


def dangers(source: str) -> list[str]:
    """Return the called functions in line order, with names resolved by the imports."""
    tree = ast.parse(source)
    known = _imported(tree)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [word for call in sorted(calls, key=lambda call: call.lineno) for word in _judge(call, known)]


def _imported(tree) -> dict[str, str]:
    """Return the full name of each import in the file."""
    known = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            known |= {one.asname or one.name.split(".")[0]: one.name if one.asname else one.name.split(".")[0]
                      for one in node.names}  # fmt: skip
        elif isinstance(node, ast.ImportFrom):
            known |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    return known


def _judge(call: ast.Call, known: dict[str, str]):
    name = _full_name(call.func, known)
    is_method = isinstance(call.func, ast.Attribute) and call.func.attr in METHODS and bool(call.args)
    constant = name == "importlib.import_module" and all(isinstance(one, ast.Constant) for one in call.args)
    if (name in FORBIDDEN and not constant) or is_method:
        yield name or call.func.attr
    for keyword in call.keywords:
        if keyword.arg in KEYWORDS and getattr(keyword.value, "value", None) is not KEYWORDS[keyword.arg]:
            yield f"{keyword.arg}={ast.unparse(keyword.value)}"


def _full_name(node, known: dict[str, str]) -> str | None:
    if isinstance(node, ast.Name):
        return known.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        before = _full_name(node.value, known)
        return before and f"{before}.{node.attr}"
    return None
