"""A decision problem as a TOML file: schema, messages, the user's code and the user's table."""

from stakes.spec.job import Job, job_of, read_job, restored_job
from stakes.spec.messages import SpecError
from stakes.spec.schema import Spec
from stakes.spec.table import Table

__all__ = ["Job", "Spec", "SpecError", "Table", "job_of", "read_job", "restored_job"]
