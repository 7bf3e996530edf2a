"""Decision problems that tests, docs, benchmarks and the demo share."""
