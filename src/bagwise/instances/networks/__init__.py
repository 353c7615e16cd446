"""Regression networks for instances, on the CPU and on GPUs."""
