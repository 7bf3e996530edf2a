"""A decision problem as a TOML file: schema, messages, the user's code and the user's tables."""

from stakes.app.spec.draft import Choosing
from stakes.app.spec.job import Job, job_of, read_job, restored_job, without_choice
from stakes.app.spec.messages import SpecError
from stakes.app.spec.reading import Tables
from stakes.app.spec.rows import Part, RowReader
from stakes.app.spec.schema import Spec
from stakes.app.spec.source import user_error
from stakes.app.spec.table import Table

__all__ = [
    "Choosing",
    "Job",
    "Part",
    "RowReader",
    "Spec",
    "SpecError",
    "Table",
    "Tables",
    "job_of",
    "read_job",
    "restored_job",
    "user_error",
    "without_choice",
]
