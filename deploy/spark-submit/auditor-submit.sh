#!/usr/bin/env bash
# Runs the auditor through spark-submit:
#
#     auditor-submit.sh [SPARK-SUBMIT OPTION ...] -- run [AUDITOR OPTION ...]
#     auditor-submit.sh --master yarn --conf spark.executor.cores=8 -- run --config /etc/bookkeeper-auditor/auditor.toml
#
# In client mode (spark-submit's default) the exit code is the auditor's: 0 sound, 1 findings, 2 usage, 3 something could not be
# judged, 4 the auditor is at fault, 5 ZooKeeper or Spark out of reach. In cluster mode only success and failure come back.
#
# SPARK_SUBMIT     the spark-submit to use; else that of SPARK_HOME, else the first on PATH
# PYSPARK_PYTHON   a Python with the auditor, here and on the executors; else the one beside spark-submit, else python3
set -euo pipefail

readonly EXIT_USAGE=2 EXIT_UNREACHABLE=5
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)

end() {
    local code=$1
    shift
    printf 'auditor-submit: %s\n' "$*" >&2
    exit "$code"
}

find_spark_submit() {
    if [[ -n ${SPARK_SUBMIT:-} ]]; then
        printf '%s\n' "$SPARK_SUBMIT"
    elif [[ -n ${SPARK_HOME:-} ]]; then
        printf '%s\n' "$SPARK_HOME/bin/spark-submit"
    else
        command -v spark-submit || true
    fi
}

find_python() {
    local beside
    beside=$(dirname -- "$1")/python
    if [[ -n ${PYSPARK_PYTHON:-} ]]; then
        printf '%s\n' "$PYSPARK_PYTHON"
    elif [[ -x $beside ]]; then
        printf '%s\n' "$beside"
    else
        printf '%s\n' python3
    fi
}

spark_options=()
while [[ $# -gt 0 && $1 != -- ]]; do
    spark_options+=("$1")
    shift
done
if [[ $# -lt 2 ]]; then
    end "$EXIT_USAGE" 'write auditor-submit.sh [SPARK-SUBMIT OPTION ...] -- run [AUDITOR OPTION ...]: -- and a command are missing'
fi
shift

submit=$(find_spark_submit)
if [[ -z $submit || ! -x $submit ]]; then
    end "$EXIT_UNREACHABLE" "no spark-submit (looked for '${submit:-spark-submit on PATH}'): set SPARK_HOME or SPARK_SUBMIT"
fi
PYSPARK_PYTHON=$(find_python "$submit")
export PYSPARK_PYTHON
# The archive of a packed environment has its Python on the executors only: PYSPARK_DRIVER_PYTHON is the one here.
driver_python=${PYSPARK_DRIVER_PYTHON:-$PYSPARK_PYTHON}
"$driver_python" -c 'import auditor' ||
    end "$EXIT_USAGE" "$driver_python cannot import the auditor: install it there, or set PYSPARK_PYTHON to a Python that has it"
if [[ " ${spark_options[*]-} " == *' --deploy-mode cluster '* || " ${spark_options[*]-} " == *' --deploy-mode=cluster '* ]]; then
    printf 'auditor-submit: in cluster mode the exit code only tells success from failure: read summary.json\n' >&2
fi

exec "$submit" ${spark_options[@]+"${spark_options[@]}"} "$here/auditor_submit.py" "$@"
