"""constraints.txt pins everything that `make test` installs; constraints-oldest.txt is the lower bounds."""

import re
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
import yaml
from jinja2 import Template
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
OLD_EXTRAS = ("dask", "geo", "cube", "anndata", "hdf5")
OLD_TABLES = ("pandas", "polars", "awkward", "mapie", "crepes")


def pins(file: str = "constraints.txt") -> dict[str, Version]:
    lines = re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / file).read_text(), flags=re.M)
    return {canonicalize_name(name): Version(version) for name, version in lines}


def requirements_of(name: str, extras: tuple[str, ...]) -> list[Requirement]:
    """Return the direct requirements of a package with its extras: bagwise's by pyproject.toml, others' by metadata."""
    if name == "bagwise":
        optional = PROJECT["optional-dependencies"]
        texts = [*PROJECT["dependencies"], *(text for extra in extras for text in optional[extra])]
    else:
        texts = distribution(name).requires or []
    found = map(Requirement, texts)
    return [r for r in found if r.marker is None or any(r.marker.evaluate({"extra": e}) for e in ("", *extras))]


def collect(name: str, extras: tuple[str, ...], visited: set) -> set:
    """Add a package and everything that it requires on this platform, directly or not."""
    if (name, extras) not in visited:
        visited.add((name, extras))
        for need in requirements_of(name, extras) if name not in TORCH else ():  # torch's own differ by its build
            collect(canonicalize_name(need.name), tuple(sorted(need.extras)), visited)
    return visited


TORCH = {"torch", "triton"}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAMES = {name for name, _ in collect("bagwise", ("lint", "test"), set())} - {"bagwise"}


def test_every_dependency_is_pinned():
    assert len(NAMES) > 50 and pins().keys() >= NAMES | TORCH


def test_the_test_extra_needs_no_torch():
    assert not NAMES & TORCH


@pytest.mark.parametrize("name", sorted(NAMES & pins().keys()))
def test_a_pin_is_what_is_installed(name):
    installed = Version(distribution(name).version)
    assert installed.public == pins()[name].public  # the rest, such as +cpu, says how it was built


def test_the_oldest_versions_are_those_that_are_allowed():
    """`make test-oldest` installs the lower bound of each requirement."""
    extras = PROJECT["optional-dependencies"]
    named = [*PROJECT["dependencies"], *(text for extra in OLD_EXTRAS for text in extras[extra])]
    needs = {canonicalize_name(need.name): need for need in map(Requirement, named) if need.name != "bagwise"}
    needs |= {need.name: need for need in map(Requirement, extras["test"]) if need.name in OLD_TABLES}
    lowest = {name: Version(next(iter(need.specifier)).version) for name, need in needs.items()}
    oldest = pins("constraints-oldest.txt")
    assert {name: oldest.get(name) for name in lowest} == lowest


def test_pins_are_exact():
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and line[0] != "#"]
    assert len(lines) == len(pins())


def test_the_table_of_advisories_speaks_of_what_is_pinned():
    rows = re.findall(r"^\| CVE-[\d-]+ \| (\S+) \| [^|]+ \| (\S+) \|", (ROOT / "SECURITY.md").read_text(), flags=re.M)
    assert len(rows) >= 8
    assert dict(rows) == {name: str(pins()[canonicalize_name(name)]) for name, _ in rows}


def test_the_conda_recipe_has_the_requirements_of_the_project():
    read = lambda path, **_: tomllib.loads((ROOT / "conda" / path).read_text())  # noqa: E731
    recipe = yaml.safe_load(Template((ROOT / "conda" / "meta.yaml").read_text()).render(load_file_data=read))
    assert recipe["package"] == {"name": "bagwise", "version": PROJECT["version"]}
    python, *needs = [
        need.replace(" ", "").replace("matplotlib-base", "matplotlib") for need in recipe["requirements"]["run"]
    ]
    assert python == "python" + PROJECT["requires-python"] and needs == PROJECT["dependencies"]
    assert recipe["build"]["entry_points"] == ["bagwise = bagwise.cli:run"]
