"""The stages of a run by the number of ledgers that are left: in Spark, or in this process."""
