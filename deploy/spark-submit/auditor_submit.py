"""What spark-submit runs: the `auditor` command, in Spark's driver. See auditor-submit.sh."""

from auditor.__main__ import main

if __name__ == "__main__":
    main()
