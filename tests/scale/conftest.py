"""Files that are damaged on purpose."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bagwise as bw


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
def table():
    """Bags of 1 to 30 rows, text ids, groups of bags, columns of other sizes and one that is constant."""
    bags, y = bw.datasets.make_problem("prime", 70, random_state=3)
    code = np.repeat(np.arange(70), bags.sizes)
    columns = {f"x{j}": bags.instances[:, j] * 10.0 ** (j - 3) + 5 * j for j in range(bags.n_features)}
    columns |= {"same": np.full(len(code), 0.1), "bag": np.array([f"bag {i}" for i in range(70)])[code]}
    return pa.table(columns | {"y": y[code], "site": (code % 9)})
