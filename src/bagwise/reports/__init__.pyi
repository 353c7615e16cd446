from bagwise.reports import plots as plots
from bagwise.reports.html_reports import write_model_report as write_model_report, write_report as write_report

__all__ = ["write_model_report", "write_report"]
