"""Attention over the instances of a bag."""
