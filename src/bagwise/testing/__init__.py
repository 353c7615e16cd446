"""For tests: the zoo of awkward bags, naive references, and contract checks for bag estimators."""

from bagwise.testing import naive
from bagwise.testing.zoo import zoo

__all__ = ["naive", "zoo"]
