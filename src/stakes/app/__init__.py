"""The application around the library: specs, runs and the command line."""
