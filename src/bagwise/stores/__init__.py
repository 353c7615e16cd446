"""Finished work that is kept: what a stored result depends on, and a folder of results."""
