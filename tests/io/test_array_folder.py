"""A file of arrays per bag and a table: equal to the same arrays given as a list, whatever the format."""

import numpy as np
import pandas as pd
import pytest

import bagwise as bw


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    return {f"S{k}": rng.normal(size=(k + 1, 3)).astype(np.float32) for k in range(5)}


@pytest.fixture
def clinical():
    frame = pd.DataFrame({"slide": ["S3", "S1", "S0", "S4", "S2"], "grade": [3, 1, 0, 4, 2]})
    return frame.assign(patient=["p", "q", "p", "r", "q"], age=[50.0, 61, 50, 43, 61])


def write(folder, arrays, ending):
    folder.mkdir(exist_ok=True)
    for name, values in arrays.items():
        path = folder / f"{name}{ending}"
        if ending == ".npy":
            np.save(path, values)
        elif ending == ".npz":
            np.savez_compressed(path, features=values, coords=np.zeros((len(values), 2)))
        else:
            h5py = pytest.importorskip("h5py", reason="needs h5py (the extra hdf5)")
            with h5py.File(path, "w") as file:
                file["coords"] = np.zeros((len(values), 2))
                file.create_group("level0")["features"] = values
    return folder


@pytest.mark.parametrize(("ending", "array"), [(".npy", None), (".npz", "features"), (".h5", "level0/features")])
def test_the_bags_are_the_arrays_in_the_order_of_the_table(tmp_path, arrays, clinical, ending, array):
    folder = write(tmp_path / "slides", arrays, ending)
    (folder / "README.txt").write_text("not a bag")
    clinical.to_csv(tmp_path / "clinical.csv", index=False)
    for table in (clinical, tmp_path / "clinical.csv"):
        bags, y = bw.from_folder(
            *(folder, table), bag="slide", target="grade", groups="patient", bag_features="age", array=array
        )  # fmt: skip
        expected = bw.from_arrays([arrays[one] for one in clinical.slide], ids=clinical.slide, groups=clinical.patient)
        assert bags == expected.with_covariates(clinical[["age"]].to_numpy(), ["age"]) and bags.dtype == np.float32
        assert y.tolist() == [3, 1, 0, 4, 2]
    alone, none = bw.from_folder(folder, array=array)
    assert none is None and alone == bw.from_arrays(list(arrays.values()), ids=list(arrays))


def test_half_precision_is_widened_and_integers_are_double(tmp_path, arrays):
    halves = {name: values.astype(np.float16) for name, values in arrays.items()}
    bags, _ = bw.from_folder(write(tmp_path / "half", halves, ".npy"))
    assert bags.dtype == np.float32 and (bags[4] == halves["S4"]).all()
    mixed, _ = bw.from_folder(write(tmp_path / "mixed", arrays | {"S1": np.ones((2, 3), dtype=int)}, ".npy"))
    assert mixed.dtype == np.float64


def test_ids_of_a_table_are_matched_as_they_are_written(tmp_path):
    folder = write(tmp_path / "a", {"007": np.ones((1, 2)), "7": np.zeros((2, 2))}, ".npy")
    (tmp_path / "t.csv").write_text("id,y\n007,1.5\n7,2.5\n")
    bags, y = bw.from_folder(folder, tmp_path / "t.csv", bag="id", target="y")
    assert bags.ids.tolist() == ["007", "7"] and bags.sizes.tolist() == [1, 2] and y.tolist() == [1.5, 2.5]


def test_rows_without_a_file_and_files_without_a_row(tmp_path, arrays, clinical):
    folder = write(tmp_path / "slides", {**arrays, "S9": np.ones((1, 3)), "S8": np.ones((1, 3))}, ".npy")
    (folder / "S1.npy").unlink()
    how = {"bag": "slide", "target": "grade"}
    told = r"bag 'S1' has no file in .*slides; S8\.npy \(and 1 other\) has no row in the table"
    with pytest.raises(ValueError, match=told + ".*or leave them out by unmatched='drop'"):
        bw.from_folder(folder, clinical, **how)
    with pytest.warns(UserWarning, match=told + "; they are left out"):
        bags, y = bw.from_folder(folder, clinical, **how, unmatched="drop")
    assert bags.ids.tolist() == ["S3", "S0", "S4", "S2"] and y.tolist() == [3, 0, 4, 2]
    with pytest.raises(ValueError, match="no file in .* without their endings must be the ids of the table$"):
        bw.from_folder(folder, clinical.assign(slide=list("abcde")), **how, unmatched="drop")


ARRAY = {"bag": "slide", "array": "features"}


@pytest.mark.parametrize(
    ("folder", "table", "options", "error", "match"),
    [
        ("none", None, {}, FileNotFoundError, "there is no folder"),
        ("empty", None, {}, ValueError, r"holds no file of arrays; a bag is a file that ends in \.npy, \.npz"),
        ("slides", None, {}, ValueError, r"S0\.npz holds several arrays; choose one by array=: features, coords"),
        ("slides", None, {"array": "tiles"}, ValueError, r"S0\.npz holds no array 'tiles'; choose one by array="),
        ("slides", "clinical", {}, ValueError, "bag= is needed: the column of the table that names the files"),
        ("slides", None, {"target": "grade"}, ValueError, "target names a column of the table; give the table"),
        ("slides", "clinical", {"bag": "slides"}, ValueError, r"no column 'slides' \(did you mean 'slide'\?\)"),
        ("slides", "twice", ARRAY, ValueError, "'S3' appears twice in column 'slide'; the table needs a row per bag"),
        ("slides", "clinical", ARRAY | {"unmatched": "keep"}, ValueError, "unmatched must be 'refuse' or 'drop'"),
        ("slides", "clinical", ARRAY | {"missing": "drop"}, ValueError, "missing must be 'refuse', 'impute' or 'keep'"),
        ("slides", "archive", ARRAY, ValueError, r"S0\.npz is not a table; give a \.csv"),
    ],
)
def test_misuse_names_the_way_out(tmp_path, arrays, clinical, folder, table, options, error, match):
    slides = write(tmp_path / "slides", arrays, ".npz")
    (tmp_path / "empty").mkdir()
    tables = {"clinical": clinical, "twice": pd.concat([clinical, clinical[:1]]), "archive": slides / "S0.npz"}
    with pytest.raises(error, match=match):
        bw.from_folder(tmp_path / folder, tables.get(table), **options)


@pytest.mark.parametrize(
    ("name", "array", "options", "match"),
    [
        ("S2.npy", np.ones((2, 3)), {"array": "features"}, r"array= chooses among the arrays of a file; S0\.npy"),
        ("S2.npy", np.ones((2, 4)), {}, r"S2\.npy has 4 features, but S0\.npy has 3; all bags need the same"),
        ("S2.npy", np.ones((2, 3, 3)), {}, r"S2\.npy holds an array of shape \(2, 3, 3\) and type float64; every bag"),
        ("S2.npy", np.array([None]), {}, r"S2\.npy cannot be read; it may be cut short, damaged"),
        ("S2.npz", np.ones((2, 3)), {}, r"S2\.npy and S2\.npz are both files of bag 'S2'; leave one of them"),
    ],
)
def test_files_that_are_no_bags_are_named(tmp_path, arrays, name, array, options, match):
    folder = write(tmp_path / "slides", arrays, ".npy")
    (np.save if name.endswith("y") else np.savez)(folder / name, array)
    with pytest.raises(ValueError, match=match):
        bw.from_folder(folder, **options)
