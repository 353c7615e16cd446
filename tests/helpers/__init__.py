"""What several test files share: small estimators, files made on purpose, readers of pages."""
