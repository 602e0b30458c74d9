"""Questions whose answers are known: read, written, converted and counted."""

from vrag.cases.dataset import case_of, dump_cases, parse_cases, read_cases, write_cases
from vrag.cases.parquet import ParquetOptions, parquet_schema, write_parquet
from vrag.cases.reading import open_cases, source_named
from vrag.cases.source import UNANSWERABLE, Source
from vrag.cases.sources import SOURCES
from vrag.cases.statistics import Overlap, Statistics, count_cases, find_overlaps

__all__ = [
    "SOURCES",
    "UNANSWERABLE",
    "Overlap",
    "ParquetOptions",
    "Source",
    "Statistics",
    "case_of",
    "count_cases",
    "dump_cases",
    "find_overlaps",
    "open_cases",
    "parquet_schema",
    "parse_cases",
    "read_cases",
    "source_named",
    "write_cases",
    "write_parquet",
]
