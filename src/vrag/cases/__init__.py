"""Cases: questions with known answers, their JSON and parquet, their gold and their statistics."""

from vrag.cases.annotations import (
    UNANSWERABLE,
    Overlap,
    Statistics,
    count_cases,
    find_overlaps,
    gold_documents,
    gold_pages,
    graded_pages,
    is_gold,
)
from vrag.cases.case_json import case_of, overhang_of, row_of, write_cases
from vrag.cases.parquet import ParquetOptions, parquet_schema, write_parquet

__all__ = [
    "UNANSWERABLE",
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
    "overhang_of",
    "parquet_schema",
    "row_of",
    "write_cases",
    "write_parquet",
]
