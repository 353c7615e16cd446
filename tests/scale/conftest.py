"""Tables of bags, and files that are damaged on purpose."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bagwise as bw

CROPS = np.array(["wheat", "rye", None, "barley", "oats"], dtype=object)


@pytest.fixture
def damage():
    def overwrite(path, *, column, group=0):
        """Spoil the pages of one column of one row group."""
        chunk = pq.read_metadata(path).row_group(group).column(column)
        with open(path, "r+b") as file:
            file.seek(chunk.dictionary_page_offset or chunk.data_page_offset)
            file.write(b"\xff" * chunk.total_compressed_size)

    return overwrite


@pytest.fixture(scope="module")
def client():
    """Two workers in this process: what they do is what workers do elsewhere, and they start at once."""
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": "127.0.0.1:0"}
    with distributed.LocalCluster(**options) as local, distributed.Client(local, set_as_default=False) as client:
        yield client


@pytest.fixture(scope="module")
def table():
    """Bags of 1 to 30 rows, text ids, groups of bags, columns of other sizes and one that is constant."""
    bags, y = bw.datasets.make_problem("prime", 70, random_state=3)
    code = np.repeat(np.arange(70), bags.sizes)
    columns = {f"x{j}": bags.instances[:, j] * 10.0 ** (j - 3) + 5 * j for j in range(bags.n_features)}
    columns |= {"same": np.full(len(code), 0.1), "bag": np.array([f"bag {i}" for i in range(70)])[code]}
    return pa.table(columns | {"y": y[code], "site": (code % 9)})


@pytest.fixture(scope="module")
def rows():
    """30 bags with columns for each option: weights, some zero; covariates; gaps; levels; dates; weights of bags."""
    bags, y = bw.datasets.make_problem("prime", 30, random_state=3)
    rng = np.random.default_rng(0)
    code = np.repeat(np.arange(30), bags.sizes)
    first = np.diff(code, prepend=-1) > 0
    columns = {f"x{j}": bags.instances[:, j] * 10.0 ** (j - 3) + 5 * j for j in range(4)}
    gaps = rng.uniform(size=(len(code), 4)) < 0.1
    gaps[code == 5, 1] = True  # a bag without any value
    columns |= {f"g{j}": np.where(gaps[:, j], np.nan, columns[f"x{j}"]) for j in range(4)}
    columns |= {"filled": np.where(gaps[:, 0], -9999.0, columns["x0"])}
    columns |= {f"f{j}": columns[f"x{j}"].astype(np.float32) for j in range(2)}
    columns |= {"x_constant": np.full(len(code), 0.1, dtype=np.float32)}
    columns |= {f"grid{j}": np.round(4 * bags.instances[:, j] / bags.instances[:, j].std()) for j in range(2)}
    columns |= {"w": np.where(first, 1.0, rng.choice([0.0, 0.5, 1.0, 3.0], len(code)))}
    columns |= {"sun": rng.normal(size=30)[code], "hour": rng.integers(0, 24, 30)[code]}
    columns |= {"importance": rng.choice([0.0, 1.0, 2.0, 5.0], 30)[code], "site": code % 9}
    columns |= {"crop": CROPS[rng.integers(0, 5, len(code))], "field": np.array(["a", "b", "c"])[code % 3]}
    columns |= {"sown": (np.datetime64("2019-01-01") + rng.integers(0, 900, len(code))).astype("datetime64[D]")}
    columns |= {"bag": np.array([f"bag {i}" for i in range(30)])[code], "y": y[code] + 0.3 * columns["sun"]}
    return pa.table({name: pa.array(values) for name, values in columns.items()})
