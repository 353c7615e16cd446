"""Files that are not ours, damaged or from elsewhere in time, and models that a file cannot hold: each said clearly."""

import io
import pickle
import re
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVR
from tests.helpers.saved_files import small_file, small_model

import bagwise as bw
from bagwise.model_files import describe_training, load_model, read_header, save_model
from bagwise.model_files.archive import pack, unpack
from bagwise.model_files.names import PACKAGES
from bagwise.testing.contract_checks import check_saves, sample


def zipped(*parts, **options) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", **options) as archive:
        for name, data in parts:
            archive.writestr(name, data)
    return stream.getvalue()


def with_header(**changes) -> bytes:
    header, parts = unpack(io.BytesIO(small_file()))
    return pack({**header, **changes}, parts)


FOREIGN = {
    "empty": (lambda: b"", "it is empty; give a file that bagwise.save_model has written"),
    "pickle": (lambda: pickle.dumps(small_model()), "looks like a pickle, which could run any code"),
    "table": (lambda: b"bag,x,y\n1,2,3\n", r"not a bagwise model \(it starts with b'bag,'\)"),
    "picture": (lambda: b"\x89PNG\r\n\x1a\n" + bytes(50), r"not a bagwise model \(it starts with b'\\x89PNG'\)"),
    "zip": (lambda: zipped(("a.txt", "hello")), "is a zip, but not a bagwise model.*no header.json"),
    "npz": (lambda: zipped(("header.json", "[1]")), "is a zip, but not a bagwise model.*is of another kind"),
    "cut": (lambda: small_file()[:5000], "cut short or damaged.*; save the model again, or get an unbroken copy"),
    "newer": (lambda: with_header(format=4), "has format 4, and this bagwise reads format 3; update bagwise"),
    "no format": (lambda: with_header(format="3"), "its header has no valid 'format'"),
    "renamed": (lambda: small_file().replace(b"BagPipeline", b"BagPipelinE"), "does not match the checksum at its end"),
}


@pytest.mark.parametrize("read", [load_model, read_header])
@pytest.mark.parametrize("kind", FOREIGN)
def test_what_is_no_model_file_is_refused(kind, read, tmp_path):
    make, words = FOREIGN[kind]
    path = tmp_path / "thing.bagwise"
    path.write_bytes(make())
    with pytest.raises(ValueError, match=words) as caught:
        read(path)
    assert str(caught.value).startswith(f"cannot open {path}: ")
    assert "\n" not in str(caught.value)


def test_a_path_without_a_file_says_so(tmp_path):
    for read in (load_model, read_header):
        with pytest.raises(FileNotFoundError, match="^there is no file .*bagwise; give one that bagwise.save_model"):
            read(tmp_path / "nothing.bagwise")
        with pytest.raises(IsADirectoryError, match=f"^{tmp_path} is a folder; give the model file in it"):
            read(tmp_path)


def test_a_place_that_cannot_be_written_to_says_so(tmp_path):
    with pytest.raises(IsADirectoryError, match=f"^{tmp_path} is a folder; give the name of a file, such as"):
        save_model(small_model(), tmp_path)
    with pytest.raises(FileNotFoundError, match="^there is no folder .*none to write m.bagwise to; make it first"):
        save_model(small_model(), tmp_path / "none" / "m.bagwise")


@pytest.mark.parametrize("package", ["scikit-learn", "bagwise"])
def test_another_version_warns_with_both(package, tmp_path):
    here = {"scikit-learn": sklearn.__version__, "bagwise": bw.__version__}
    (tmp_path / "m").write_bytes(with_header(versions=here | {package: "0.0.1"}))
    with pytest.warns(UserWarning, match=rf"saved with {package} 0\.0\.1 \(here it is {here[package]}\)") as caught:
        load_model(tmp_path / "m")
    assert len(caught) == 1 and caught[0].filename == __file__


# Saving --------------------------------------------------------------------------------------------------------


class Foreign(RegressorMixin, BaseEstimator):
    def fit(self, rows, y):
        self.mean_ = np.mean(y)
        return self

    def predict(self, rows):
        return np.full(len(rows), self.mean_)


def double(y):
    return 2 * y


def half(y):
    return y / 2


UNFIT = {
    "a foreign class": (Foreign(), r"it holds \w*\.?test_refusals\.Foreign, which is not among the types"),
    "a function": (TransformedTargetRegressor(Ridge(), func=double, inverse_func=half), r"it holds .*\.(half|double)"),
    "a partial": (
        TransformedTargetRegressor(Ridge(), transformer=FunctionTransformer(partial(np.add, 1), validate=False)),
        r"it holds functools\.partial",
    ),
    "compiled neighbours": (KNeighborsRegressor(), r"it holds sklearn\.neighbors\._regression\.KNeighborsRegressor"),
    "compiled vectors": (SVR(), r"it holds sklearn\.svm\._classes\.SVR"),
}


@pytest.mark.parametrize("kind", UNFIT)
@pytest.mark.filterwarnings("ignore::UserWarning:sklearn")
def test_what_a_file_cannot_hold_is_refused_when_saving(kind, tmp_path):
    head, words = UNFIT[kind]
    (tmp_path / "m").write_text("old")
    with pytest.raises(ValueError, match=words + ".*build the model from these"):
        save_model(small_model(head), tmp_path / "m")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_the_page_on_saving_names_every_package_of_scikit_learn():
    page = Path(__file__).resolve().parents[2] / "docs" / "saving.md"
    listed = re.search(r"estimators of scikit-learn's (.*?);", page.read_text(encoding="utf-8"), re.DOTALL)[1]
    assert re.findall(r"`(\w+)`", listed) == sorted(PACKAGES)


def test_a_model_that_holds_itself_is_refused(tmp_path):
    model = small_model()
    model[-1].me_ = model
    with pytest.raises(ValueError, match="this BagPipeline cannot be saved"):
        save_model(model, tmp_path / "m")


def test_an_unfitted_model_is_refused(tmp_path):
    with pytest.raises(NotFittedError, match="not fitted yet, so there is nothing to save; call fit"):
        save_model(bw.method("aggregated"), tmp_path / "m")
    with pytest.raises(TypeError, match="expected a fitted estimator, not 'model'"):
        save_model("model", tmp_path / "m")


def test_what_predicts_nothing_is_refused(tmp_path):
    bags, y = sample()
    with pytest.raises(ValueError, match="holds a Pool, which predicts nothing"):
        save_model(small_model()[0].fit(bags, y), tmp_path / "m")


def test_header_values_must_be_plain(tmp_path):
    model = small_model()
    with pytest.raises(TypeError, match="method must be text or None, not int"):
        save_model(model, tmp_path / "m", method=3)
    with pytest.raises(TypeError, match="target must be text or None, not list"):
        save_model(model, tmp_path / "m", target=["y"])
    with pytest.raises(TypeError, match=r"training must be a dict, such as describe_training\(bags, y\) gives"):
        save_model(model, tmp_path / "m", training=[1])
    with pytest.raises(ValueError, match="training must be numbers, text and lists that JSON can hold"):
        save_model(model, tmp_path / "m", training={"mean": np.float32(1)})
    with pytest.raises(ValueError, match="y has 2 values for 24 bags"):
        describe_training(sample()[0], [1.0, 2.0])


def test_the_contract_takes_a_refusal_only_from_others():
    check_saves(Foreign())
    with pytest.raises(AssertionError, match="it holds .*Foreign"):
        check_saves(small_model(Foreign()))
