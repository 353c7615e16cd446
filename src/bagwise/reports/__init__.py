"""Plots, the methods page, and the report of a run or a model as one HTML file."""

__all__ = ["write_model_report", "write_report"]


def __getattr__(name):
    """Loaded when first used: pictures alone do not need what the reports need."""
    if name == "write_report":
        from bagwise.reports.run_report import write_report

        return write_report
    if name == "write_model_report":
        from bagwise.reports.model_report import write_model_report

        return write_model_report
    raise AttributeError(f"module 'bagwise.reports' has no attribute {name!r}")
