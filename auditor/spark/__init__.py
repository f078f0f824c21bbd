"""Everything that needs Spark: sessions, the executor of stages, and public data sources."""
