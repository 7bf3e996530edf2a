"""Run folders: what a run leaves behind, so that it can go on, decide later, and be checked.

Arrays, text and JSON only: no code, no pickle. Every byte is covered by a checksum, and every file
is swapped in whole.
"""

from stakes.storage.folder import RunFolder
from stakes.storage.journal import FileJournal, read_courses
from stakes.storage.manifest import Manifest

__all__ = ["FileJournal", "Manifest", "RunFolder", "read_courses"]
