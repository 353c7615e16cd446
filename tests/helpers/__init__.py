"""Helpers of several test files: small estimators, prepared files, readers of pages."""
