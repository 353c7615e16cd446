"""Methods with short training and few candidates, for tests of contracts."""

BRIEF = {"epochs": 2, "restarts": 1, "rounds": 3, "draws": 10, "warmup": 10, "n_features": 32}


def trained(model) -> bool:
    """Return whether the training can be shortened."""
    return any(key.split("__")[-1] in BRIEF for key in model.get_params())


def brief(model):
    for name, value in model.get_params().items():
        if (key := name.split("__")[-1]) in BRIEF:
            model.set_params(**{name: (1, BRIEF[key]) if isinstance(value, tuple) else BRIEF[key]})
        elif key == "penalties" and len(value) > 1:
            model.set_params(**{name: value[::4]})
        elif key == "grid" and value:
            model.set_params(**{name: {of: list(values)[::4] for of, values in value.items()}})
    return model
