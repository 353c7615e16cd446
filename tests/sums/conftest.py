import numpy as np
import pyarrow as pa
import pytest

import bagwise as bw


@pytest.fixture(scope="module")
def table():
    """Bags of 1 to 30 rows, text ids, groups of bags, columns of other sizes and one that is constant."""
    bags, y = bw.datasets.make_problem("prime", 70, random_state=3)
    code = np.repeat(np.arange(70), bags.sizes)
    columns = {f"x{j}": bags.instances[:, j] * 10.0 ** (j - 3) + 5 * j for j in range(bags.n_features)}
    columns |= {"same": np.full(len(code), 0.1), "bag": np.array([f"bag {i}" for i in range(70)])[code]}
    return pa.table(columns | {"y": y[code], "site": (code % 9)})
