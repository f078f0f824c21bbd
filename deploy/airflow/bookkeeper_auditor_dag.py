"""A nightly audit of one BookKeeper cluster, for Airflow 3.

Copy it to the DAG folder and set COMMAND. The auditor has its own virtual environment on the
workers: Airflow and PySpark do not agree on versions, so the auditor is a process, never an import.
Its exit code decides (docs: deploy/README.md):

    0            success 1, 2, 4      failed at once: findings, a wrong setting, or a fault of the
    auditor do not go away by trying again 3, 5, other  tried again: something could not be judged,
    or ZooKeeper or Spark was out of reach
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.providers.standard.hooks.subprocess import SubprocessHook
from airflow.sdk import DAG, BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

COMMAND = [
    "/opt/bookkeeper-auditor/bin/auditor",
    "run",
    "--config",
    "/etc/bookkeeper-auditor/auditor.toml",
]
"""On a Spark cluster: [".../deploy/spark-submit/auditor-submit.sh", "--master", "yarn", "--",
"run", "--config", ...].
"""

SOUND = 0
FINAL = {
    1: "the cluster has findings: the report is in this log, and in the run's directory",
    2: "the auditor was called wrongly or its configuration is wrong: nothing was contacted",
    4: "the auditor is at fault: its results are withheld, keep the run's directory for a report",
}
AGAIN = {
    3: "some ledgers could not be judged, or none was listed",
    5: "the metadata service or Spark could not be reached: earlier results are as they were",
}


class AuditOperator(BaseOperator):
    """Runs the auditor, its output into the task's log; returns the last line of the report, which
    is made for machines.
    """

    template_fields = ("command",)

    def __init__(self, *, command: list[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.command = command
        self._hook: SubprocessHook | None = None

    def execute(self, context: Any) -> str:
        """Raises AirflowFailException where trying again is no use, else AirflowException."""
        self._hook = SubprocessHook()
        done = self._hook.run_command(self.command)
        code = done.exit_code
        if code in FINAL:
            raise AirflowFailException(f"exit code {code}: {FINAL[code]}")
        if code != SOUND:
            raise AirflowException(f"exit code {code}: {AGAIN.get(code, 'the auditor was ended')}")
        return str(done.output)

    def on_kill(self) -> None:
        """The auditor cancels its Spark jobs and leaves earlier results as they were."""
        if self._hook is not None:
            self._hook.send_sigterm()


with DAG(
    dag_id="bookkeeper_auditor",
    description="Is every acknowledged entry of the cluster where its metadata says it is?",
    schedule="17 3 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["bookkeeper"],
) as dag:
    AuditOperator(
        task_id="audit",
        command=COMMAND,
        retries=2,
        retry_delay=timedelta(minutes=15),
        execution_timeout=timedelta(hours=12),
    )
