"""Plots, and the report of a run or a model as one HTML file."""

from typing import TYPE_CHECKING

from bagwise.first_use import exported

if TYPE_CHECKING:
    from bagwise.reports.html_reports import write_model_report, write_report

__all__ = ["write_model_report", "write_report"]

__getattr__, __dir__ = exported(__name__, {"html_reports": ("write_model_report", "write_report")})
