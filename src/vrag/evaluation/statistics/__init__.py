"""Statistics of records: means, intervals, significance tests and paired comparisons."""
