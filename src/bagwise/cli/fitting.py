"""What `bagwise fit` builds, and what it says of the result."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

SMALL = 200_000  # numbers in a table
BUDGET = 480.0  # seconds: with what comes after, ten minutes


def build(name: str, *, level: float | None, time_budget: float | None, n_jobs: int | None, seed: int):
    """An unfitted method by its name (or name:preset), with intervals unless the level is None."""
    import bagwise as bw
    from bagwise.protocol.entries import as_entries

    [entry] = as_entries([name], tune=False)
    model = entry.make(seed)
    model.set_params(**{key: n_jobs for key in model.get_params() if key == "n_jobs" or key.endswith("__n_jobs")})
    limited = "time_budget" in model.get_params()
    if time_budget is not None and not limited:
        raise ValueError(f"--time-budget is for the method auto; {name} takes the time it takes")
    if limited:
        model.set_params(time_budget=time_budget or BUDGET)
    return model if level is None else bw.Intervals(model, level=level, random_state=seed, n_jobs=n_jobs)


def jobs_for(bags, name: str) -> int:
    """All cores, or one where starting the others would take longer than the work."""
    return 1 if name != "auto" and bags.instances.size < SMALL else -1


def keep(model, out: Path, **header) -> None:
    """Save the model. If its place is gone or full after a long fit, it is saved for now among temporary files."""
    import bagwise as bw

    try:
        bw.save(model, out, **header)
    except OSError as error:
        place = Path(tempfile.mkdtemp(prefix="bagwise-")) / out.name
        try:
            bw.save(model, place, **header)
        except OSError:
            raise error from None
        raise OSError(f"{error}; the fitted model is in {place} instead: move it to where it can stay") from error
    except ValueError as error:
        raise ValueError(
            f"{error}. The fit is lost: fit another method (`bagwise methods`), or fit in Python, where bw.method(...) "
            "stays in memory and joblib.dump keeps it for your own use"
        ) from error


def held_out(model, y: np.ndarray) -> np.ndarray | None:
    """What each training bag is predicted by models that never saw it, where that is known."""
    if hasattr(model, "residuals_") and hasattr(model, "calibration_"):
        return y[model.calibration_] - model.residuals_
    return getattr(model, "held_out_", None)


def account(model, name: str, y: np.ndarray) -> dict:
    """The held-out scores, and a paragraph to paste into a paper."""
    known, inner = held_out(model, y), getattr(model, "method_", model)
    scores = None if known is None else _scores(known, y)
    if hasattr(inner, "scores_"):  # what auto compares with: the mean of the targets without those of the fold
        scores |= {"r2": inner.scores_["explained"], "rmse_of_mean": inner.scores_["mean_rmse"]}
    text = inner.paragraph() if hasattr(inner, "paragraph") else _paragraph(name, len(y), scores)
    if getattr(model, "lacking_", "no intervals at all") is None:
        text += (
            f" Prediction intervals at level {model.level:g} are conformal: {model.kind} (Barber et al. 2021) over "
            "folds of bags, scaled by bag size and spread."
        )
    told = {"method": name, "bags": len(y), "held_out": scores, "paragraph": text}
    return told | ({"summary": inner.summary()} if hasattr(inner, "summary") else {})


def tell(name: str, y: np.ndarray, known: np.ndarray | None) -> dict:
    """The same of a method without more to say: ``known`` are predictions of bags that were held out, if there are."""
    scores = None if known is None else _scores(known, y)
    return {"method": name, "bags": len(y), "held_out": scores, "paragraph": _paragraph(name, len(y), scores)}


def _paragraph(name: str, n_bags: int, scores: dict | None) -> str:
    from bagwise import __version__
    from bagwise.methods.catalogue import find

    found, _ = find(name)
    text = f"The method {name} ({found.cites}) was fitted to {n_bags:,} bags with bagwise {__version__}."
    if scores is None:
        return text
    return (
        f"{text} Bags held out in turn were predicted with a root mean squared error of {scores['rmse']:.4g} "
        f"(R² {scores['r2']:.2f}), where the mean of the targets has {scores['rmse_of_mean']:.4g}."
    )


def _scores(predicted: np.ndarray, y: np.ndarray) -> dict:
    errors, spread = np.mean((predicted - y) ** 2), np.var(y)
    return {
        "rmse": float(np.sqrt(errors)),
        "mae": float(np.mean(np.abs(predicted - y))),
        "r2": float(1 - errors / spread) if spread > 0 else 0.0,
        "rmse_of_mean": float(np.sqrt(spread)),
    }
