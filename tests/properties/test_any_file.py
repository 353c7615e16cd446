"""Damaged and hostile files: a clear error or sound bags, bounded memory, no code executed."""

import io
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st
from scipy.io import savemat
from tests.helpers.generating import effort, told, try_all

import bagwise as bw

FRAME = pd.DataFrame({"bag": [1, 1, 2, 3, 3, 3], "x": np.linspace(0, 1, 6), "n": range(6), "y": [1.0, 1, 2, 3, 3, 3]})


def content(ending: str, folder: Path) -> bytes:
    """Write a valid file of six rows."""
    path = folder / f"sound.{ending}"
    if ending == "npz":
        bw.save_npz(path, *bw.load(FRAME, bag="bag", target="y"))
    elif ending == "mat":
        savemat(path, {"table": FRAME.to_numpy()})
    elif ending in ("csv", "tsv"):
        FRAME.to_csv(path, index=False, sep="," if ending == "csv" else "\t")
    elif ending == "parquet":
        FRAME.to_parquet(path)
    else:
        FRAME.to_feather(path)
    return path.read_bytes()


@st.composite
def damaged(draw, sound: bytes):
    """Overwrite, insert, remove or repeat bytes, or truncate the file."""
    raw = bytearray(sound)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(raw) - 1, 0)))
        length = draw(st.integers(1, 8))
        kind = draw(st.sampled_from(["overwrite", "insert", "remove", "repeat", "cut"]))
        some = draw(st.binary(min_size=length, max_size=length))
        if kind == "overwrite":
            raw[at : at + length] = some
        elif kind == "insert":
            raw[at:at] = some
        elif kind == "remove":
            del raw[at : at + length]
        elif kind == "repeat":
            raw[at:at] = raw[at : at + 16 * length]
        else:
            del raw[at:]
    return bytes(raw)


ENDINGS = ("csv", "tsv", "parquet", "feather", "mat", "npz")


@pytest.mark.filterwarnings("ignore:column .*(left out|looks like a fill value)")  # what damage does to a number
@pytest.mark.parametrize("ending", ENDINGS)
@effort
def test_a_damaged_file_is_refused_or_gives_sound_bags(effort, ending, tmp_path):
    sound, path = content(ending, tmp_path), tmp_path / f"damaged.{ending}"
    columns = {} if ending in ("mat", "npz") else {"bag": "bag", "target": "y"}

    def check(raw):
        path.write_bytes(raw)
        loaded = told(bw.load, path, **columns)
        if loaded is not None:
            bags, y = loaded
            assert (np.diff(bags.offsets) > 0).all() and bags.offsets[-1] == len(bags.instances)
            assert np.isfinite(bags.instances).all() and (y is None or np.isfinite(y).all())

    try_all(effort, check, damaged(sound), few=40, many=1500)


def in_little_memory(path: Path, *, gigabytes: float = 6.0) -> str:
    """Return the output of loading a file in a process with limited address space."""
    code = f"""
        import resource, sys
        import numpy, scipy.io, pyarrow.parquet, pyarrow.feather, bagwise as bw
        resource.setrlimit(resource.RLIMIT_AS, (int({gigabytes} * 2**30),) * 2)
        try:
            bw.load({str(path)!r}, **({{}} if {path.suffix!r} in (".mat", ".npz") else dict(bag="bag", target="y")))
        except (ValueError, OSError) as error:
            print(type(error).__name__, error)
        status = dict(line.split(":") for line in open("/proc/self/status") if ":" in line)
        print("MB:", int(status["VmHWM"].split()[0]) // 1024)
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout


def claims_many_rows(folder: Path, version: bytes = b"\x01") -> Path:
    """An archive of under 1 KB whose header declares 10^12 rows is refused."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**12, 3)})
    path = folder / "claims.npz"
    with zipfile.ZipFile(path, "w") as archive:
        start = header.getvalue()[:6] + version + header.getvalue()[7:]
        archive.writestr("instances.npy", start + bytes(48))
        archive.writestr("offsets.npy", header.getvalue() + bytes(48))
    assert path.stat().st_size < 1024
    return path


def test_a_small_archive_that_claims_a_million_million_rows(tmp_path):
    said = in_little_memory(claims_many_rows(tmp_path))
    assert "ValueError" in said and "holds 48 bytes, but its header declares 24,000,000,000,000" in said
    assert int(said.split("MB:")[1]) < 600


def test_an_array_of_an_unknown_version_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"part 'instances.npy' is an array of the unknown version \(3, 0\)"):
        bw.load(claims_many_rows(tmp_path, version=b"\x03"))


def test_a_part_that_cannot_be_judged_hides_none_behind_it(tmp_path):
    """A part with an unknown compression ended the check, so that later parts were not checked."""
    path = tmp_path / "odd.npz"
    with zipfile.ZipFile(claims_many_rows(tmp_path)) as sound, zipfile.ZipFile(path, "w") as odd:
        odd.writestr("first.npy", b"anything")
        odd.writestr("instances.npy", sound.read("instances.npy"))
    raw = bytearray(path.read_bytes())
    raw[8] = 99  # the compression of the first part, in its own header and in the directory
    raw[raw.index(b"PK\x01\x02") + 10] = 99
    path.write_bytes(bytes(raw))
    with pytest.raises(ValueError, match=r"odd.npz cannot be read; .*compression"):
        bw.load(path)


def test_an_archive_that_lies_about_its_sizes(tmp_path):
    """The zip directory declares 4 GB for a part of a few bytes."""
    path = claims_many_rows(tmp_path)
    raw = path.read_bytes()
    size = len(zipfile.ZipFile(path).read("instances.npy"))
    path.write_bytes(raw.replace(size.to_bytes(4, "little"), (2**32 - 2).to_bytes(4, "little")))
    said = in_little_memory(path)
    assert "claims 4,294,967,294 bytes in a file of" in said and int(said.split("MB:")[1]) < 600


def test_a_parquet_file_that_claims_more_rows_than_it_has(tmp_path):
    """Each row count in the footer is replaced by a large number."""
    path = tmp_path / "claims.parquet"
    FRAME.to_parquet(path)
    raw = path.read_bytes()
    footer = raw.rindex(b"PAR1") - 4 - int.from_bytes(raw[-8:-4], "little")
    # 6 rows are the byte 0x0c in the zigzag code of Thrift; 2^62 takes nine bytes more
    large = raw[:footer] + raw[footer:-8].replace(b"\x16\x0c", b"\x16\xfe\xff\xff\xff\xff\xff\xff\xff\x7f")
    large += (len(large) - footer).to_bytes(4, "little") + b"PAR1"
    path.write_bytes(large)
    said = in_little_memory(path)
    assert "claims.parquet cannot be read" in said and int(said.split("MB:")[1]) < 800


def test_pickled_arrays_are_never_run(tmp_path):
    class Hostile:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "ran",))

    np.savez(tmp_path / "a.npz", instances=np.array([[Hostile()]], dtype=object), offsets=[0, 1])
    with pytest.raises(ValueError, match=r"a.npz cannot be read; it may be cut short, damaged, or of another format"):
        bw.load(tmp_path / "a.npz")
    savemat(tmp_path / "a.mat", {"table": np.array([["__import__('os').system('false')"]], dtype=object)})
    with pytest.raises(ValueError, match="holds no matrix of numbers"):
        bw.load(tmp_path / "a.mat")
    frame = pd.DataFrame({"bag": ["__import__('os')", "=cmd()"], "x": [1, 2], "y": [1, 2]})
    frame.to_csv(tmp_path / "a.csv", index=False)
    assert bw.load(tmp_path / "a.csv", bag="bag", target="y")[0].ids.tolist() == ["__import__('os')", "=cmd()"]
    assert not (tmp_path / "ran").exists()
