"""The benchmark: suites, runs that can be resumed, tables, comparisons, and their verification."""
