"""A decision problem as a TOML file, and what `stakes` makes of it.

`schema` says which sections and fields there are, `constructors` makes the values that they name,
and `assembly` puts the problem together. `data_tables` reads the tables that a spec names, and
`new_file` tables of new rows. The result is a `Job`. `proposing` and `toml` write a spec for a
table of the user.
"""

from stakes.app.spec.data_tables import FIT as FIT
from stakes.app.spec.data_tables import HELD_OUT as HELD_OUT
from stakes.app.spec.data_tables import Tables as Tables
from stakes.app.spec.job import Job as Job
from stakes.app.spec.job import job_of as job_of
from stakes.app.spec.job import job_on_all_rows as job_on_all_rows
from stakes.app.spec.job import read_job as read_job
from stakes.app.spec.messages import SpecError as SpecError
from stakes.app.spec.new_file import NewFile as NewFile
from stakes.app.spec.new_file import Part as Part
from stakes.app.spec.proposing import propose as propose
from stakes.app.spec.source import user_error as user_error
from stakes.app.spec.source import user_modules as user_modules
from stakes.app.spec.table import Table as Table
from stakes.app.spec.toml import findings_text as findings_text
from stakes.app.spec.toml import path_of as path_of
from stakes.app.spec.toml import spec_text as spec_text
from stakes.app.spec.toml import unit_of as unit_of
from stakes.app.spec.toml import with_values as with_values
from stakes.app.spec.toml import without_choice as without_choice
