"""Loading files: every format gives the bags of the frame, and a bad file gives one sentence."""

import re
import struct
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.io import loadmat, savemat
from scipy.sparse import csc_array

import bagwise as bw
from bagwise.io import table_files as reading
from bagwise.io.matlab_files import read_matrices


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    of_row = rng.integers(0, 8, 60)
    columns = {"site": [f"s{i}" for i in of_row], "red": rng.normal(size=60), "nir": rng.normal(size=60)}
    return pd.DataFrame(columns | {"aod": of_row / 4, "county": [f"c{i % 3}" for i in of_row]})


@pytest.fixture
def expected(frame):
    return bw.load(frame, bag="site", target="aod", groups="county")


WRITERS = {
    "t.csv": lambda frame, path: frame.to_csv(path, index=False),
    "index.csv": lambda frame, path: frame.to_csv(path),
    "t.CSV.gz": lambda frame, path: frame.to_csv(path, index=False, compression="gzip"),
    "t.tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "t.parquet": lambda frame, path: frame.to_parquet(path),
    "index.parquet": lambda frame, path: frame.set_index(np.arange(60)[::-1]).to_parquet(path),
    "t.feather": lambda frame, path: frame.to_feather(path),
    "t.arrow": lambda frame, path: pl.from_pandas(frame).write_ipc(path),
    "stream.arrow": lambda frame, path: pl.from_pandas(frame).write_ipc_stream(path),
    "t.npz": lambda frame, path: np.savez(path, **{name: np.array(frame[name].tolist()) for name in frame}),
}


@pytest.mark.parametrize("name", WRITERS)
def test_table_files_equal_the_frame(tmp_path, frame, expected, name):
    WRITERS[name](frame, tmp_path / name)
    bags, y = bw.load(tmp_path / name, bag="site", target="aod", groups="county")
    assert bags.ids.tolist() == expected[0].ids.tolist()
    assert bags.groups.tolist() == expected[0].groups.tolist()
    assert bags.feature_names == ("red", "nir")  # not the row numbers
    np.testing.assert_allclose(bags.instances, expected[0].instances, rtol=1e-14)
    np.testing.assert_allclose(y, expected[1], rtol=1e-14)


def test_parquet_reads_only_what_is_needed(tmp_path, frame):
    frame.to_parquet(tmp_path / "t.parquet")
    assert len(reading.read_table(tmp_path / "t.parquet", named=["site", "red"], only=True).columns) == 2
    bags, _ = bw.load(str(tmp_path / "t.parquet"), bag="site", target="aod", features="red", ignore="nir")
    assert bags.feature_names == ("red",)
    with pytest.raises(ValueError, match=r"no column 'rad' \(did you mean 'red'\?\); the columns are 'site', 'red'"):
        bw.load(tmp_path / "t.parquet", bag="site", target="aod", features="rad")


@pytest.mark.filterwarnings("ignore:.*(left out|and were dropped)")
def test_csv_types_are_those_of_the_whole_column(tmp_path):
    n = 200_000  # whole numbers for more than a megabyte, then fractions and text
    rows = "".join(f"{i // 10},1\n" for i in range(n))
    (tmp_path / "t.csv").write_text("site,x\n" + rows + "z,0.5\nz,NA\n")
    bags, _ = bw.load(tmp_path / "t.csv", bag="site", missing="drop-instances")
    assert len(bags) == n // 10 + 1 and bags.ids[-1] == "z" and bags.ids[0] == "0" and bags[-1].tolist() == [[0.5]]


# Lines of more than a megabyte by long values, and by many: to have 60,000 columns takes seconds.
@pytest.mark.parametrize("sites", [["7", "8", "7"], ["a", "b", "a"]], ids=["whole ids", "text ids"])
@pytest.mark.parametrize("columns", [600, pytest.param(20_000, marks=pytest.mark.slow)])
def test_lines_of_a_csv_may_be_longer_than_a_megabyte(tmp_path, sites, columns):
    """Ids that look like numbers are read twice, and the second reading called such a file damaged."""
    width = 1_200_000 // columns
    names = [f"{'reflectance_at_wavelength':_<{width}}{j}" for j in range(columns)]
    values = [f"{number:0<{width}}" for number in ("-0.1234567890123456", "0.25", "0.125")]
    rows = [f"{site}," + ",".join([value] * columns) for site, value in zip(sites, values, strict=True)]
    assert min(map(len, rows)) > 2**20
    (tmp_path / "t.csv").write_text("\n".join([",".join(["site", *names]), *rows]))
    bags, _ = bw.load(tmp_path / "t.csv", bag="site")
    assert bags.sizes.tolist() == [2, 1] and list(map(str, bags.ids)) == sites[:2]
    assert bags.feature_names == tuple(names)
    found = np.concatenate([bags[0], bags[1]])  # -0.1234... to the last bit or so: padded, it is read by other paths
    np.testing.assert_allclose(found, np.repeat([[-0.1234567890123456], [0.125], [0.25]], columns, axis=1), rtol=1e-15)


def test_loading_imports_only_what_it_needs(tmp_path):
    savemat(tmp_path / "t.mat", {"m": np.array([[1.0, 2.0, 3.0]])})
    bw.save_npz(tmp_path / "t.npz", bw.from_arrays([[[1.0]]]))
    program = (
        "import sys, bagwise as bw; bw.load('t.mat'); bw.load('t.npz');"
        "print([name for name in ('pandas', 'polars', 'pyarrow') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "['pyarrow']"


# Refusals -------------------------------------------------------------------------------------------------------


def test_paths_that_lead_nowhere(tmp_path):
    for name in ("t.xlsx", "t.doc"):
        (tmp_path / name).touch()
    (tmp_path / "empty").mkdir()
    for name, error, match in (
        ("none.csv", FileNotFoundError, "there is no file .*none.csv"),
        ("empty", FileNotFoundError, r"the folder .* has no Parquet file \(named \*.parquet\), nor any other"),
        ("t.xlsx", ValueError, "t.xlsx is a spreadsheet, which is not read; export the sheet as .csv"),
        ("t.doc", ValueError, "t.doc is of no known type; the known endings are .csv, .csv.gz, .*.npz"),
    ):
        with pytest.raises(error, match=match):
            bw.load(tmp_path / name, bag="site")


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.arrow"])
def test_tables_need_bag(tmp_path, frame, name):
    WRITERS[name](frame, tmp_path / name)
    with pytest.raises(ValueError, match="bag= is needed.*the columns are 'site', 'red', 'nir'"):
        bw.load(tmp_path / name, target="aod", features=["red"])
    with pytest.raises(ValueError, match="variable= chooses a matrix of a .mat file"):
        bw.load(tmp_path / name, bag="site", variable="x")


@pytest.mark.parametrize("name", ["t.CSV.gz", "t.parquet", "t.feather", "t.arrow", "stream.arrow", "t.npz"])
@pytest.mark.parametrize("kept", [0.0, 0.1, 0.5, 0.9])
def test_files_cut_short(tmp_path, frame, name, kept):
    WRITERS[name](frame, tmp_path / name)
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: int(kept * len(whole))])
    with pytest.raises(ValueError, match=f"{name} cannot be read; it may be cut short, damaged, or of another format"):
        bw.load(tmp_path / name, bag="site")


@pytest.mark.parametrize("name", ["t.csv.gz", "t.parquet", "t.arrow", "t.mat", "t.npz"])
def test_files_of_noise(tmp_path, name):
    (tmp_path / name).write_bytes(np.random.default_rng(0).bytes(3000))
    with pytest.raises(ValueError, match=f"{name} cannot be read"):
        bw.load(tmp_path / name, bag="site")


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"site,x,y\na,1\nb,2,3\n", "t.csv cannot be read; it may be cut short, damaged"),
        (b"", "t.csv cannot be read"),
        (b"\x80ite,x,y\n1,2,3\n", "t.csv cannot be read; it may be cut short, damaged"),
        ("site,größe,y\n1,2,3\n".encode("latin-1"), "cannot be read; .* save it as UTF-8"),
        (b"site,x,y\n", "the table has no rows"),
        (b"site;x;y\n1;0,5;2\n", "t.csv is separated by ';', not by ','; .*decimals with a point"),
        (b"site\tx\ty\n1\t0.5\t2\n", "t.csv is separated by 'tab', not by ','"),
        (b'\xef\xbb\xbf"site",x,"x",y\n1,2,3,4\n', "t.csv: two columns have .* name, 'x'"),
        (b"site,x,x,y\r1,2,3,4\r", "t.csv: two columns have the same name, 'x'"),
        (b"site,y,,\n1,2,,\n", "t.csv: 2 columns have no name; name them, or take them out of the table$"),
    ],
)
def test_csv_files_refused(tmp_path, content, match):
    """What is wrong is named, and only damage is called damage."""
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(ValueError, match=match):
        bw.load(tmp_path / "t.csv", bag="site", target="y")


# MATLAB ---------------------------------------------------------------------------------------------------------


def matrix(width, seed=0):
    rng = np.random.default_rng(seed)
    ids = rng.permutation(np.repeat(np.arange(1, 6), 4))
    return np.column_stack([ids, rng.normal(size=(20, width - 2)), ids / 10])


@pytest.mark.parametrize(
    ("name", "width", "features"),
    [
        ("MISR1", 18, ["reflectance_1", "reflectance_12", "angle_1", "angle_4"]),
        ("misr2", 18, ["reflectance_1", "reflectance_12", "angle_1", "angle_4"]),
        ("Modis", 14, ["reflectance_1", "reflectance_7", "angle_1", "angle_5"]),
        ("MISR1", 14, ["x1", "x12"]),
        ("other", 18, ["x1", "x16"]),
    ],
)
def test_matlab_layouts(tmp_path, name, width, features):
    table = matrix(width)
    savemat(tmp_path / f"{name}.mat", {"data": table})
    bags, y = bw.load(tmp_path / f"{name}.mat")
    assert bags.shape == (5, width - 2) and bags.ids.dtype == np.int64
    assert set(features) <= set(bags.feature_names) and len(set(bags.feature_names)) == width - 2
    np.testing.assert_array_equal(y, bags.ids / 10)
    for bag, rows in zip(bags.ids, bags, strict=True):
        np.testing.assert_array_equal(rows, table[table[:, 0] == bag, 1:-1])


def test_the_last_column_of_a_matlab_file_is_named_where_the_target_is_in_a_second_table(tmp_path):
    savemat(tmp_path / "t.mat", {"data": matrix(6)})
    second = pd.DataFrame({"bag": np.unique(matrix(6)[:, 0]).astype(int)}).assign(potency=range(5))
    with pytest.warns(UserWarning, match="last column of t.mat becomes the feature 'target', .* 'potency'"):
        bw.load(tmp_path / "t.mat", targets=second, bag="bag", target="potency")
    bags, _ = bw.load(tmp_path / "t.mat", targets=second, bag="bag", target="potency", ignore=-1)
    assert "target" not in bags.feature_names


def test_matlab_columns_by_position(tmp_path):
    table = matrix(6)
    savemat(tmp_path / "t.mat", {"data": table[:, [1, 0, 2, 5, 3, 4]]})  # id second, target fourth
    bags, y = bw.load(tmp_path / "t.mat", bag=1, target=-3, ignore=-1)
    again, same = bw.load(tmp_path / "t.mat", bag=1, target=3, features=[0, "x2", 4])
    assert bags.feature_names == ("x1", "x2", "x3") and bags == again and y.tolist() == same.tolist()
    assert bags.ids.tolist() == list(dict.fromkeys(table[:, 0].astype(int)))
    np.testing.assert_array_equal(bags[0], table[table[:, 0] == bags.ids[0]][:, [1, 2, 3]])
    assert bw.load(tmp_path / "t.mat", bag=1, target=3, groups=3)[0].groups.tolist() == y.tolist()
    for roles, match in (
        ({"bag": 6}, "there is no column 6; the matrix has 6, counted from 0"),
        ({"bag": "site"}, "no column 'site'; the columns are 'bag', 'x1', 'x2', 'x3', 'x4', 'target'"),
        ({"bag": 0, "target": 0}, "cannot be both the bag id and the target"),
    ):
        with pytest.raises(ValueError, match=match):
            bw.load(tmp_path / "t.mat", **roles)


def test_matlab_ids_that_are_not_whole(tmp_path):
    savemat(tmp_path / "t.mat", {"m": np.array([[0.5, 1, 2], [1.5, 1, 3]])})
    assert bw.load(tmp_path / "t.mat")[0].ids.tolist() == [0.5, 1.5]
    savemat(tmp_path / "t.mat", {"m": np.array([[1, 1, 2], [np.nan, 1, 2]])})
    with pytest.raises(ValueError, match="1 of 2 rows have no bag id"):
        bw.load(tmp_path / "t.mat")


def test_matlab_variables(tmp_path):
    path = tmp_path / "t.mat"
    savemat(path, {"a": matrix(4), "b": matrix(5), "note": "text", "column": np.ones((3, 1))})
    with pytest.raises(ValueError, match="several matrices; choose one with variable=: a, b"):
        bw.load(path)
    assert bw.load(path, variable="b")[0].n_features == 3
    with pytest.raises(ValueError, match="no matrix 'c'; it holds a, b"):
        bw.load(path, variable="c")
    savemat(path, {"note": "text"})
    with pytest.raises(ValueError, match="holds no matrix of numbers with at least 3 columns"):
        bw.load(path)


def test_matlab_files_that_cannot_be_read(tmp_path):
    path = tmp_path / "t.mat"
    path.write_bytes(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(512))
    with pytest.raises(ValueError, match="is a MATLAB 7.3 .HDF5. file, which is not read; save it again with '-v7'"):
        bw.load(path)
    savemat(path, {"a": matrix(4)})
    whole = path.read_bytes()
    for size in (0, 60, 140, 400, len(whole) - 8):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match="t.mat cannot be read"):
            bw.load(path)


@pytest.mark.parametrize("compressed", [False, True])
def test_matlab_matrices_are_those_of_scipy(tmp_path, compressed):
    numbers = np.arange(12).reshape(3, 4)
    stored = {dtype: numbers.astype(dtype) for dtype in ("f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")}
    stored |= {"turned": numbers.T / 3, "flags": numbers > 4, "empty": np.zeros((0, 3)), "x" * 31: np.ones((1, 3))}
    others = {"complex": numbers * 1j, "cube": np.zeros((2, 2, 2)), "sparse": csc_array(numbers), "text": "abc"}
    others |= {"cell": np.array([[1.0, "a", numbers]], dtype=object), "struct": {"a": numbers}}
    savemat(tmp_path / "t.mat", others | stored, do_compression=compressed)
    expected = loadmat(tmp_path / "t.mat")
    found = read_matrices((tmp_path / "t.mat").read_bytes())
    assert set(found) == set(stored)
    for name, matrix in found.items():
        assert matrix.dtype == expected[name].dtype
        np.testing.assert_array_equal(matrix, expected[name])


def test_matlab_files_of_the_other_byte_order_and_of_few_bytes(tmp_path):
    """MATLAB stores doubles in the fewest bytes that hold them, and up to four bytes inside the tag."""

    def element(kind, data):
        return struct.pack(">II", kind, len(data)) + data + bytes(-len(data) % 8)

    flags, shape = element(6, struct.pack(">II", 6, 0)), element(5, struct.pack(">ii", 1, 3))
    name, values = struct.pack(">HH4s", 1, 1, b"m"), struct.pack(">HH4s", 3, 2, bytes([7, 8, 9]))
    header = b"MATLAB 5.0".ljust(124) + b"\x01\x00MI"
    (tmp_path / "t.mat").write_bytes(header + element(14, flags + shape + name + values))
    (matrix,) = read_matrices((tmp_path / "t.mat").read_bytes()).values()
    assert matrix.tolist() == [[7.0, 8.0, 9.0]] and matrix.dtype == float
    assert loadmat(tmp_path / "t.mat")["m"].tolist() == matrix.tolist()


@pytest.mark.parametrize(
    ("at", "byte", "words"),
    [
        (184, 0, "matrix 'table' are of the unknown type 0"),  # scipy ends the interpreter
        (184, 200, "unknown type 200"),
        (160, 7, "matrix 'table' of 7 x 4 numbers of 8 bytes holds 192 bytes"),
        (163, 255, "matrix 'table' of -"),
        (134, 9, "an element claims"),
        (186, 9, "a tag claims to hold 9 bytes, and has four"),
        (126, 0, "has no valid byte order"),
    ],
)
def test_matlab_files_that_say_wrong_things_of_themselves(tmp_path, at, byte, words):
    savemat(tmp_path / "t.mat", {"table": np.ones((6, 4))})
    content = bytearray((tmp_path / "t.mat").read_bytes())
    content[at] = byte
    (tmp_path / "t.mat").write_bytes(content)
    with pytest.raises(ValueError, match=f"t.mat cannot be read.*{words}"):
        bw.load(tmp_path / "t.mat")


def test_matlab_files_of_version_4(tmp_path):
    path, numbers = tmp_path / "t.mat", np.arange(12).reshape(3, 4)
    stored = {dtype: numbers.astype(dtype) for dtype in ("f8", "f4", "i4", "i2", "u2", "u1")}
    savemat(path, stored | {"complex": numbers * 1j, "text": "abc", "sparse": csc_array(numbers * 1.0)}, format="4")
    expected, found = loadmat(path), read_matrices(path.read_bytes())
    assert set(found) == set(stored)
    for name, matrix in found.items():
        assert matrix.dtype == expected[name].dtype
        np.testing.assert_array_equal(matrix, expected[name])
    whole = path.read_bytes()
    path.write_bytes(struct.pack(">5i", 1000, 1, 3, 0, 2) + b"m\0" + struct.pack(">3d", 1, 2, 3))
    assert bw.load(path)[0].instances.tolist() == [[2.0]]
    for content in (
        whole[:-1],
        struct.pack("<5i", 0, 10**9, 10**9, 0, 0),  # more numbers than there are bytes
        struct.pack("<5i", 60, 1, 3, 0, 0),  # a type that MATLAB does not write
        struct.pack("<5i", 2000, 1, 3, 0, 2) + b"m\0" + bytes(24),  # the numbers of a VAX
        struct.pack("<5i", 0, -1, 3, 0, 0),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="t.mat cannot be read"):
            bw.load(path)


# NumPy archives -------------------------------------------------------------------------------------------------


DATES = np.array(["2020-01-01", "2019-01-01", "2021-01-01T12"], "M8[ns]")
IDS = [["é", "b", "a longer one"], [30, 10, 20], DATES, [0.5, 1.5, 2.5], np.array([3, 1, 2], dtype=object)]


@pytest.mark.parametrize("ids", IDS, ids=["text", "integers", "dates", "floats", "objects"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_saving_is_exact(tmp_path, ids, dtype):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(size, 2)).astype(dtype) for size in (3, 1, 2)]
    bags = bw.from_arrays(arrays, ids=ids, groups=["u", "v", "u"], feature_names=["x", "é"])
    bw.save_npz(str(tmp_path / "b.npz"), bags, [0.1, 0.2, 1 / 3])
    again, y = bw.load(tmp_path / "b.npz")
    assert again == bags and y.tolist() == [0.1, 0.2, 1 / 3]
    assert [path.name for path in tmp_path.iterdir()] == ["b.npz"]
    bw.save_npz(tmp_path / "b.npz", bw.from_arrays(arrays))  # over the old one
    again, y = bw.load(tmp_path / "b.npz")
    assert again == bw.from_arrays(arrays) and y is None


def test_missing_values_come_back_on_request(tmp_path):
    bags = bw.from_arrays([[1.0, np.nan], [2.0]], missing="keep")
    bw.save_npz(tmp_path / "b.npz", bags)
    assert bw.load(tmp_path / "b.npz", missing="keep")[0] == bags
    assert bw.load(tmp_path / "b.npz", missing="drop-instances")[0].sizes.tolist() == [1, 1]
    with pytest.raises(ValueError, match="bag 0 has missing feature values"):
        bw.load(tmp_path / "b.npz")


def test_saving_refuses_what_it_could_not_give_back(tmp_path):
    bags = bw.from_arrays([[1.0], [2.0]])
    with pytest.raises(ValueError, match="must end in .npz, not 'b.txt'"):
        bw.save_npz(tmp_path / "b.txt", bags)
    with pytest.raises(ValueError, match="bag id 0 appears twice"):
        bw.save_npz(tmp_path / "b.npz", bags[[0, 0]])
    with pytest.raises(ValueError, match="y has 1 values for 2 bags"):
        bw.save_npz(tmp_path / "b.npz", bags, [1.0])
    for ids in ([1, "a"], ["a", "a\0"], [("a",), ("b",)]):
        odd = np.empty(2, dtype=object)
        odd[:] = ids
        with pytest.raises(TypeError, match="ids can be saved if all are text, all are numbers, or all are dates"):
            bw.save_npz(tmp_path / "b.npz", bw.Bags([1.0, 2.0], [0, 1, 2], ids=odd))
    assert not list(tmp_path.iterdir())


def test_archives_of_other_layouts(tmp_path, frame, expected):
    bags, y = expected
    path = tmp_path / "t.npz"
    site = frame["site"].to_numpy(dtype=str)
    np.savez(path, site=site, aod=frame["aod"], X=frame[["red", "nir"]].to_numpy(), note=np.array(5))
    again, _ = bw.load(path, bag="site", target="aod")
    assert again.feature_names == ("X_1", "X_2") and (again.instances == bags.instances).all()

    np.savez(path, instances=bags.instances, sizes=bags.sizes, names=bags.ids.astype(str), y=y)
    again, same = bw.load(path, bag="names")
    assert again.ids.tolist() == bags.ids.tolist() and same.tolist() == y.tolist()

    padded = np.full((len(bags), bags.sizes.max(), 2), np.inf)
    for i, bag in enumerate(bags):
        padded[i, : len(bag)] = bag
    np.savez(path, X=padded, sizes=bags.sizes, aod=y)
    again, same = bw.load(path, target="aod")
    assert (again.instances == bags.instances).all() and same.tolist() == y.tolist()


@pytest.mark.parametrize(
    ("arrays", "options", "match"),
    [
        ({"x": np.ones(3), "site": np.ones(3)}, {}, "bag= is needed.*'x', 'site'"),
        ({"x": np.ones(3), "site": np.ones(2)}, {"bag": "site"}, r"one length, but are x \(3,\), site \(2,\)"),
        ({}, {"bag": "site"}, "is not a table"),
        ({"instances": np.ones((3, 1))}, {}, "store offsets or sizes"),
        ({"instances": np.ones((3, 1)), "sizes": [3]}, {"features": ["x"]}, "features=, ignore=, weights="),
        ({"instances": np.ones((3, 1)), "sizes": [3]}, {"bag": "site"}, "no column 'site'"),
        ({"instances": np.ones((3, 1)), "sizes": [2]}, {}, "these go from 0 to 2"),
        ({"instances": np.ones((3, 1)), "sizes": [3], "targets": [1, 2]}, {}, "y has 2 values for 1 bags"),
        ({"X": np.ones((2, 3, 1))}, {}, "needs sizes"),
        ({"instances": [[np.nan]], "sizes": [1]}, {"missing": "drop-instances"}, "bag 0 has no finite instance"),
        ({"x": np.array([1, "a"], dtype=object), "site": np.ones(2)}, {"bag": "site"}, "cannot be read.*allow_pickle"),
    ],
)  # fmt: skip
def test_archives_refused(tmp_path, arrays, options, match):
    np.savez(tmp_path / "t.npz", **arrays)
    with pytest.raises(ValueError, match=match):
        bw.load(tmp_path / "t.npz", **options)


MANY = ["18446744073709551615", "18446744073709551614", "18446744073709551613"]
TIMES = ["2020-01-01 10:00:00", "2020-01-01T10:00:00"]


@pytest.mark.parametrize("ids", [
    MANY, [MANY[0] + "0", "1"], ["007", "7"], ["1.1", "1.10"], ["1e5", "100000"], ["1E03", "7"], ["1.0", "2.0"],
    ["true", "false", "True"], ["-0", "0"], TIMES, ["2020-01-01", "2020-01-02"], ["12:30", "12:30:00"],
], ids=lambda ids: ids[0])  # fmt: skip
def test_ids_come_out_as_they_came_in(ids, tmp_path):
    """Read as numbers, truths or times, they were merged or written otherwise."""
    (tmp_path / "t.csv").write_text("site,group,x\n" + "".join(f"{one},{one},{k}\n" for k, one in enumerate(ids * 2)))
    bags, _ = bw.load(tmp_path / "t.csv", bag="site", groups="group")
    assert bags.ids.tolist() == ids and bags.groups.tolist() == ids and bags.sizes.tolist() == [2] * len(ids)
    assert bw.check_table(tmp_path / "t.csv", bag="site", groups="group").bags == len(ids)


def test_ids_that_are_whole_numbers_or_missing(tmp_path):
    (tmp_path / "t.csv").write_text("site,x\n9223372036854775807,1\n0,2\n-3,3\n")
    ids = bw.load(tmp_path / "t.csv", bag="site")[0].ids
    assert ids.dtype == np.int64 and ids.tolist() == [2**63 - 1, 0, -3]
    for known in ("7", "007", "1.5"):
        for missing in ("", "NA", "nan"):
            (tmp_path / "t.csv").write_text(f"site,x\n{known},1\n{missing},2\n{known},3\n")
            with pytest.raises(ValueError, match=r"1 of 3 rows have no bag id \(the first is row 1"):
                bw.load(tmp_path / "t.csv", bag="site")


def test_groups_that_are_a_feature_too_are_numbers(tmp_path):
    (tmp_path / "t.csv").write_text("site,age\na,1.50\nb,2.50\n")
    bags, _ = bw.load(tmp_path / "t.csv", bag="site", groups="age", features="age")
    assert bags.instances.tolist() == [[1.5], [2.5]] and bags.groups.tolist() == [1.5, 2.5]


def test_ids_that_are_text_in_one_file_are_in_all(tmp_path):
    (tmp_path / "a.csv").write_text("site,x\n10,1\n7,2\n")
    (tmp_path / "b.csv").write_text("site,x\n008,3\n10,4\n1_0,5\n")
    bags, _ = bw.load(tmp_path / "*.csv", bag="site")
    assert bags.ids.tolist() == ["10", "7", "008", "1_0"] and bags[0].tolist() == [[1.0], [4.0]]
    (tmp_path / "b.csv").write_text("spot,x\n007,3\n")
    with pytest.raises(ValueError, match="b.csv lacks site and adds spot"):
        bw.load(tmp_path / "*.csv", bag="site")


@pytest.mark.parametrize("form", ["{}.0", "00{}", "{}e0", "+{}", "{}.00"])
def test_one_number_in_two_forms_is_no_two_bags(form, tmp_path):
    """Pandas writes 0.0 for 0 once the column had a NaN; every bag came apart."""
    (tmp_path / "a.csv").write_text("site,group,x\n0,u,1\n1,u,1\n2,u,2\n")
    texts = [form.format(k) for k in (1, 2, 3)]
    (tmp_path / "b.csv").write_text("site,group,x\n" + "".join(f"{text},u,{text}\n" for text in texts))
    said = rf"column 'site' has 1 in .*a.csv and {re.escape(texts[0])} in .*b.csv: the same number"
    for names in (["a.csv", "b.csv"], ["b.csv", "a.csv"]):
        with pytest.raises(ValueError, match=said + ".*; write it in the same form in all files"):
            bw.load([tmp_path / name for name in names], bag="site", features="x")
        with pytest.raises(ValueError, match=said):
            bw.load([tmp_path / name for name in names], bag="group", groups="site", features="x")


def test_lines_that_end_in_a_carriage_return(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"site,x,y\r1,2,3\r2,3,4\r")
    bags, y = bw.load(tmp_path / "t.csv", bag="site", target="y")
    assert bags.ids.tolist() == [1, 2] and bags.instances.tolist() == [[2], [3]] and y.tolist() == [3, 4]
    (tmp_path / "t.csv").write_text(f"site,{'x' * 140_000}\n1,2\n")  # more than Python's csv takes in a field
    assert bw.load(tmp_path / "t.csv", bag="site")[0].instances.tolist() == [[2]]


def test_a_column_that_is_needed_itself_is_no_suggestion(tmp_path):
    frame = pd.DataFrame({"site": [1, 2], "red_1": [1.0, 2], "red_2": [1.0, 2]})
    with pytest.raises(ValueError, match=r"there is no column 'red_3'; the columns are"):
        bw.load(frame, bag="site", features=["red_1", "red_2", "red_3"])
