"""Reports of evaluations and of comparisons: one page to browse, Markdown, and JSON."""

from vrag.evaluation.report.comparison_report import ComparisonPage, comparison_page
from vrag.evaluation.report.evaluation_report import ReportPage, report_page
from vrag.evaluation.report.images import Thumbnails

__all__ = ["ComparisonPage", "ReportPage", "Thumbnails", "comparison_page", "report_page"]
