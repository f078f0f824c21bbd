"""The metrics, checked by promtool and by a real Pushgateway on loopback."""

import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from base64 import b64encode
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from support import report_stories as stories
from support.requirements import lack

from auditor.telemetry import metrics

WAIT_S = 20
PACKAGES = {"promtool": "prometheus", "prometheus-pushgateway": "prometheus-pushgateway"}


def program(name: str) -> str:
    """Return where `name` is. Without it the test is skipped, with a message; in CI it fails."""
    found = shutil.which(name)
    return found or lack(f"{name} is not installed (Debian: {PACKAGES[name]})")


def texts() -> dict[str, str]:
    finished = metrics.exposition(
        stories.wiped_bookie(40)[0], cluster="prod", spark_version="4.3.0"
    )
    return {
        "finished": finished,
        "failed": metrics.failed_run(
            finished, outcome="UNREACHABLE", now_s=1.8e9, cluster="prod", version="0.1.0"
        ),
        "first_failed": metrics.failed_run(
            "", outcome="UNREACHABLE", now_s=1.8e9, cluster="prod", version="0.1.0"
        ),
    }


@pytest.mark.parametrize("story", ["finished", "failed", "first_failed"])
def test_promtool_finds_nothing_to_say(story):
    """Names, types, help and units follow Prometheus' rules."""
    check = [program("promtool"), "check", "metrics"]
    done = subprocess.run(
        check, input=texts()[story], capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_promtool_does_bite():
    """The check above can fail."""
    check = [program("promtool"), "check", "metrics"]
    done = subprocess.run(
        check,
        input="some_total_things 1\n",
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode != 0


def wait_until_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        assert process.poll() is None, "the Pushgateway ended"
        try:
            if get(f"{url}/-/ready"):
                return
        except OSError:
            time.sleep(0.05)
    pytest.fail(f"the Pushgateway was not ready within {WAIT_S} s")


def get(url: str) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=WAIT_S) as answer:
        return answer.read().decode()


@pytest.fixture
def pushgateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Yield the URL of a Pushgateway on a free loopback port, which ends after the test."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    path = program("prometheus-pushgateway")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(
        [path, f"--web.listen-address=127.0.0.1:{port}"], cwd=tmp_path, stderr=subprocess.DEVNULL
    )
    try:
        wait_until_ready(url, process)
        yield url
    finally:
        process.kill()
        process.wait(WAIT_S)


def ours(text: str) -> set[str]:
    return {line for line in text.splitlines() if line.startswith(metrics.PREFIX)}


def test_a_push_replaces_the_group_of_its_cluster_alone(pushgateway):
    """What was pushed is served; a second push replaces it completely; another cluster's group
    stays.
    """
    story = texts()
    other = metrics.exposition(stories.summary(), cluster="a/b")
    assert metrics.push(pushgateway, other, "a/b") is None
    assert metrics.push(pushgateway, story["finished"], "prod") is None
    served = ours(get(f"{pushgateway}/metrics"))
    assert len(ours(story["finished"])) + len(ours(other)) == len(served)
    assert all('job="bookkeeper_auditor"' in line and 'instance=""' in line for line in served)
    assert any(
        'kind="ENTRY_BELOW_WRITE_QUORUM"' in line and line.endswith(" 40") for line in served
    )
    assert metrics.push(f"{pushgateway}/", story["first_failed"], "prod") is None
    served = ours(get(f"{pushgateway}/metrics"))
    assert len(ours(story["first_failed"])) + len(ours(other)) == len(served)


def test_a_push_the_gateway_refuses_is_a_sentence(pushgateway):
    """A wrong path answers 404, which becomes a sentence for the log."""
    said = metrics.push(f"{pushgateway}/elsewhere", texts()["finished"], "prod")
    assert said is not None and "404" in said


def test_credentials_go_into_the_header_alone(monkeypatch):
    """user:password@ of the URL becomes Authorization, with %-escapes decoded; the path has only
    job and cluster.
    """
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    seen = []

    class Gateway(BaseHTTPRequestHandler):
        def do_PUT(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            seen.append((self.path, self.headers["Authorization"]))
            self.send_response(202)
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Gateway) as server:
        server.timeout = WAIT_S
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        said = metrics.push(
            f"http://joe:s3%40cret@127.0.0.1:{server.server_port}", texts()["finished"], "prod"
        )
        thread.join(WAIT_S)
    assert said is None
    assert [
        (
            "/metrics/job/bookkeeper_auditor/cluster/prod",
            "Basic " + b64encode(b"joe:s3@cret").decode(),
        )
    ] == seen
