"""Files that are damaged on purpose."""

import pyarrow.parquet as pq
import pytest


@pytest.fixture
def damage():
    def overwrite(path, *, column, group=0):
        """Spoil the pages of one column of one row group."""
        chunk = pq.read_metadata(path).row_group(group).column(column)
        with open(path, "r+b") as file:
            file.seek(chunk.dictionary_page_offset or chunk.data_page_offset)
            file.write(b"\xff" * chunk.total_compressed_size)

    return overwrite
