"""A bag per donor from AnnData: equal to the same cells as a long table, dense or sparse, in memory or in a file."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csc_matrix, csr_matrix

import bagwise as bw
from bagwise.io import annotated_data

anndata = pytest.importorskip("anndata", reason="needs anndata (the extra anndata)")
pytestmark = pytest.mark.filterwarnings("ignore:The '.*' option is deprecated")


@pytest.fixture(autouse=True)
def plain_texts():
    """anndata before 0.13 cannot write the texts of pandas 3 to a file; as objects it can."""
    with pd.option_context("future.infer_string", False):
        yield


@pytest.fixture
def adata():
    rng = np.random.default_rng(0)
    donor = rng.permutation(np.repeat(["d1", "d2", "d3", "d4", "d5"], 8))
    ages = {"d1": 30, "d2": 45, "d3": 61, "d4": 52, "d5": 70}
    obs = pd.DataFrame({"donor": pd.Categorical(donor), "kind": rng.choice(["T", "B"], 40)})
    obs["age"] = [ages[one] for one in donor]
    obs["site"], obs["sex"] = np.where(obs.age > 50, "east", "west"), (obs.age % 2).astype(float)
    counts = rng.poisson(0.7, (40, 6)).astype(np.float32)
    var = pd.DataFrame(index=[f"gene{j}" for j in range(6)])
    obs.index = [f"cell{k}" for k in range(40)]
    made = anndata.AnnData(csr_matrix(counts), obs=obs, var=var, obsm={"X_pca": rng.normal(size=(40, 3))})
    made.layers["logs"] = csc_matrix(np.log1p(counts))
    made.obsm["panel"] = pd.DataFrame(rng.normal(size=(40, 2)), columns=["CD3", "CD19"], index=obs.index)
    return made


def naive(adata, values, names):
    """The cells as a long table."""
    frame = pd.DataFrame(np.asarray(values), columns=names).assign(donor=adata.obs["donor"].to_numpy())
    return bw.load(frame.assign(age=adata.obs["age"].to_numpy()), bag="donor", target="age")


@pytest.mark.parametrize("use", ["X", "layers:logs", "obsm:X_pca", "obsm:panel"])
def test_the_bags_are_those_of_the_same_cells_as_a_table(adata, use, monkeypatch, tmp_path):
    monkeypatch.setattr(annotated_data, "BLOCK", 50)  # several blocks, the last shorter
    values = {
        "X": adata.X.toarray(),
        "layers:logs": adata.layers["logs"].toarray(),
        "obsm:X_pca": adata.obsm["X_pca"],
        "obsm:panel": adata.obsm["panel"].to_numpy(),
    }[use]
    names = {"obsm:X_pca": ["pca_1", "pca_2", "pca_3"], "obsm:panel": ["CD3", "CD19"]}.get(use, list(adata.var_names))
    expected, ages = naive(adata, values, names)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    for source in (adata, backed, tmp_path / "cells.h5ad"):
        bags, y = bw.from_anndata(source, bag="donor", target="age", use=use)
        assert bags == expected and bags.dtype == expected.dtype
        np.testing.assert_array_equal(y, ages)
        np.testing.assert_array_equal(adata.obs["donor"][bags.kept["obs_names"]], bags.expand(bags.ids))
    backed.file.close()


@pytest.mark.parametrize("kind", [csr_matrix.toarray, csc_matrix], ids=["dense", "sparse by columns"])
def test_other_matrices_in_memory_and_in_a_file_are_the_same(adata, monkeypatch, tmp_path, kind):
    other = anndata.AnnData(kind(adata.X), obs=adata.obs, var=adata.var)
    other.write_h5ad(tmp_path / "other.h5ad")
    monkeypatch.setattr(annotated_data, "BLOCK", 6 * 7)
    expected = naive(adata, adata.X.toarray(), list(adata.var_names))[0]
    for source in (other, tmp_path / "other.h5ad"):
        assert bw.from_anndata(source, bag="donor", use="X")[0] == expected


def test_no_more_than_a_block_is_read_at_a_time(adata, monkeypatch):
    seen = []

    class Watched(np.ndarray):
        def __getitem__(self, key):
            if isinstance(key, slice):
                seen.append((key.start, key.stop))
            return super().__getitem__(key)

    parts = {name: getattr(adata, name) for name in ("obs", "obs_names", "var_names", "n_obs", "obsm", "layers")}
    monkeypatch.setattr(annotated_data, "BLOCK", 6 * 15)
    bw.from_anndata(SimpleNamespace(**parts, X=adata.X.toarray().view(Watched)), bag="donor", use="X")
    assert seen == [(0, 15), (15, 30), (30, 40)]


def test_genes_groups_weights_covariates_and_kept_columns_come_from_obs(adata):
    adata.obs["share"] = np.linspace(0.5, 1.5, 40)
    bags, _ = bw.from_anndata(
        *(adata,), bag="donor", use="X", features=["gene4", "gene1"], groups="site", weights="share",
        bag_features=["sex"], keep=["kind"],
    )  # fmt: skip
    order = bags.kept["row"]
    assert bags.feature_names == ("gene4", "gene1") and bags.covariate_names == ("sex",)
    np.testing.assert_array_equal(bags.instances, adata.X.toarray()[order][:, [4, 1]])
    np.testing.assert_array_equal(bags.expand(bags.groups), adata.obs["site"].to_numpy()[order])
    np.testing.assert_array_equal(bags.weights, adata.obs["share"].to_numpy()[order])
    np.testing.assert_array_equal(bags.expand(bags.covariates[:, 0]), adata.obs["sex"].to_numpy()[order])
    np.testing.assert_array_equal(bags.kept["kind"], adata.obs["kind"].to_numpy()[order])


def test_contributions_go_back_to_their_cells_by_name(adata):
    bags, y = bw.from_anndata(adata, bag="donor", target="age")
    explanation = bw.explain(bw.method("aggregated").fit(bags, y), bags[[3, 1]])
    shuffled = adata[np.random.default_rng(1).permutation(40)].copy()
    names = bw.to_anndata(explanation, shuffled, prefix="age_")
    assert names == ["age_prediction", "age_instance_prediction", "age_contribution"]
    per_donor = shuffled.obs.groupby("donor", observed=True)["age_contribution"]
    np.testing.assert_allclose(per_donor.sum(min_count=1)[bags.ids[[3, 1]]], explanation.predictions)
    assert (per_donor.count()[bags.ids[[0, 2, 4]]] == 0).all()  # not explained: NaN
    found = explanation.table()
    np.testing.assert_array_equal(shuffled.obs.loc[found["obs_names"], "age_contribution"], found["contributions"])


def test_every_misuse_names_the_way_out(adata, tmp_path):
    for options, match in (
        ({"use": "obsm:X_umap"}, "no 'obsm:X_umap' in adata; use is one of X, layers:logs, obsm:X_pca, obsm:"),
        ({"use": "raw"}, "there is no 'raw' in adata; use is one of X, "),
        ({"bag": "donr"}, r"there is no column 'donr' \(did you mean 'donor'\?\)"),
        ({"use": "X", "features": ["Gene1"]}, r"there is no column 'Gene1' \(did you mean 'gene1'\?\)"),
        ({"use": "X", "features": []}, "features is empty; name columns of X, or leave it out"),
        ({"missing": "drop-instances"}, "missing must be 'refuse', 'impute' or 'keep', not 'drop-instances'"),
        ({"bag_features": "auto"}, "bag_features must name columns of obs here, not 'auto'"),
    ):
        with pytest.raises(ValueError, match=match):
            bw.from_anndata(adata, **{"bag": "donor"} | options)
    with pytest.raises(TypeError, match=r"adata must be an AnnData object or the path of a \.h5ad file, not DataFrame"):
        bw.from_anndata(adata.obs, bag="donor")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        bw.from_anndata(tmp_path / "none.h5ad", bag="donor")
    (tmp_path / "cut.h5ad").write_bytes(b"HDF")
    with pytest.raises(ValueError, match="cut.h5ad cannot be read; it may be cut short, damaged"):
        bw.from_anndata(tmp_path / "cut.h5ad", bag="donor")
    adata.obsm["X_pca"][3, 1] = np.nan
    with pytest.raises(ValueError, match=r"bag 'd\d' has missing feature values \(NaN\)"):
        bw.from_anndata(adata, bag="donor")
    assert bw.from_anndata(adata, bag="donor", missing="impute")[0].has_missing


def test_an_explanation_of_other_cells_is_refused(adata):
    bags, y = bw.from_anndata(adata, bag="donor", target="age")
    model = bw.method("aggregated").fit(bags, y)
    with pytest.raises(ValueError, match=r"cell '\w+' \(and 19 others\) of the explanation is not in adata; pass the"):
        bw.to_anndata(bw.explain(model, bags), adata[:20].copy())
    with pytest.raises(ValueError, match="do not name their cells; explain bags that from_anndata made"):
        bw.to_anndata(bw.explain(model, bw.from_arrays(list(bags), feature_names=bags.feature_names)), adata)
    adata.obs_names = ["same"] * 40
    with pytest.raises(ValueError, match=r"two cells have one name; call adata\.obs_names_make_unique\(\)"):
        bw.to_anndata(bw.explain(model, bags), adata)
