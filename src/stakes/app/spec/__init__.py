"""A decision problem as a TOML file: schema, messages, the user's code and the user's tables."""

from stakes.app.spec.job import Job, job_of, job_on_all_rows, read_job
from stakes.app.spec.messages import SpecError
from stakes.app.spec.proposing import propose
from stakes.app.spec.reading import Tables
from stakes.app.spec.rows import Part, RowReader
from stakes.app.spec.source import user_error, user_modules
from stakes.app.spec.table import Table
from stakes.app.spec.toml import (
    findings_text,
    path_of,
    spec_text,
    unit_of,
    with_values,
    without_choice,
)

__all__ = [
    "Job",
    "Part",
    "RowReader",
    "SpecError",
    "Table",
    "Tables",
    "findings_text",
    "job_of",
    "job_on_all_rows",
    "path_of",
    "propose",
    "read_job",
    "spec_text",
    "unit_of",
    "user_error",
    "user_modules",
    "with_values",
    "without_choice",
]
