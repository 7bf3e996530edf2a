"""The machine around the mathematics: compiled programs, files, signals, progress and workers."""
