"""Questions whose answers are known: read, written, converted and counted."""

from vrag.cases.case_format import UNANSWERABLE, CaseFormat
from vrag.cases.dataset import case_of, overhang_of, row_of, write_cases
from vrag.cases.formats import SOURCES
from vrag.cases.gold import gold_documents, gold_pages, graded_pages, is_gold
from vrag.cases.load import open_cases, read_cases, source_named, with_distinct_ids
from vrag.cases.parquet import ParquetOptions, parquet_schema, write_parquet
from vrag.cases.statistics import Overlap, Statistics, count_cases, find_overlaps

__all__ = [
    "SOURCES",
    "UNANSWERABLE",
    "CaseFormat",
    "Overlap",
    "ParquetOptions",
    "Statistics",
    "case_of",
    "count_cases",
    "find_overlaps",
    "gold_documents",
    "gold_pages",
    "graded_pages",
    "is_gold",
    "open_cases",
    "overhang_of",
    "parquet_schema",
    "read_cases",
    "row_of",
    "source_named",
    "with_distinct_ids",
    "write_cases",
    "write_parquet",
]
