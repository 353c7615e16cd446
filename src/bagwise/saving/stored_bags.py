"""Bags in a model file (training bags that a kernel compares new ones with): plain parts, and real Bags when opened.

skops would set the slots of `Bags` one by one, and holding Bags is the proof that they are valid. So a file holds the
parts in a tuple, and opening it gives them to the constructor, which checks them as it does those of a user.
"""

from __future__ import annotations

from bagwise.bags import Bags

LOADER = "ConstructorFromReduceNode"  # of skops: it calls what is named with the parts
PLACE, NAME = __name__, "make_bags"
PARTS = tuple(name for name in Bags.__slots__ if name != "compared")  # what is known of new bags alone


def make_bags(
    instances, offsets, ids, groups, feature_names, has_missing, weights, covariates, covariate_names
) -> Bags:
    """Bags from the parts of Bags, in the order of their slots, each checked again.

    Examples
    --------
    >>> import bagwise as bw
    >>> bags = bw.from_arrays([[[1.0], [2.0]], [[3.0]]], ids=["a", "b"])
    >>> make_bags(*(getattr(bags, name) for name in PARTS)) == bags
    True
    """
    return Bags(
        instances,
        offsets,
        ids,
        groups=groups,
        feature_names=feature_names,
        missing="keep" if has_missing else "refuse",
        weights=weights,
        covariates=covariates,
        covariate_names=covariate_names,
    )


def in_parts(node: dict) -> None:
    """Turn the node that skops has made of Bags, a state of slots, into one that calls `make_bags`."""
    if (node["__module__"], node["__class__"]) == (Bags.__module__, Bags.__name__):
        slots = node["content"]["content"][1]["content"]
        parts = {"__class__": "tuple", "__module__": "builtins", "__loader__": "TupleNode"}
        parts["content"] = [slots[name] for name in PARTS]
        node.update(__class__=NAME, __module__=PLACE, __loader__=LOADER, content=parts)
