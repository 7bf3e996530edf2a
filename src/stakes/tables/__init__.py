"""The user's tables: frames, files and streams, whose columns become numbers.

`sources` and `delimited` read files and open streams; `dataframes` reads pandas, Polars and PyArrow
frames.

The `doctor` says what a column holds and what is odd about it: `columns` defines a column, and
`findings` the text of a finding. `values` keeps what words stand for, so that other tables get the
same numbers as the table of the fit.

`copying` shuffles a table larger than memory on disk, as the records that `records` makes of it.
"""

from stakes.tables.columns import Column as Column
from stakes.tables.columns import Hints as Hints
from stakes.tables.columns import Kind as Kind
from stakes.tables.columns import Values as Values
from stakes.tables.copying import OnDisk as OnDisk
from stakes.tables.copying import Passes as Passes
from stakes.tables.copying import Scratch as Scratch
from stakes.tables.copying import Shuffled as Shuffled
from stakes.tables.copying import copy_shuffled as copy_shuffled
from stakes.tables.copying import release_pages as release_pages
from stakes.tables.dataframes import Read as Read
from stakes.tables.dataframes import TableRows as TableRows
from stakes.tables.dataframes import Wanted as Wanted
from stakes.tables.dataframes import columns_in as columns_in
from stakes.tables.dataframes import is_table as is_table
from stakes.tables.dataframes import lacking as lacking
from stakes.tables.dataframes import read as read
from stakes.tables.delimited import Dialect as Dialect
from stakes.tables.delimited import Raw as Raw
from stakes.tables.doctor import Examined as Examined
from stakes.tables.doctor import examine as examine
from stakes.tables.findings import Finding as Finding
from stakes.tables.findings import refuse as refuse
from stakes.tables.records import ROW as ROW
from stakes.tables.sources import Stream as Stream
from stakes.tables.sources import TableFile as TableFile
from stakes.tables.values import DATE_PARTS as DATE_PARTS
from stakes.tables.values import DAYS as DAYS
from stakes.tables.values import Coding as Coding
from stakes.tables.values import categories_of as categories_of
from stakes.tables.values import codes_of as codes_of
from stakes.tables.values import holds_dates as holds_dates
from stakes.tables.values import part_of as part_of
from stakes.tables.values import source_of as source_of
