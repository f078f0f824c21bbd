# The image of kubernetes/lister-sidecar.yaml, from a checkout of this project (BuildKit, the builder of Docker since version 23):
#   docker build --file deploy/docker/lister.Dockerfile --tag bookkeeper-cluster-auditor:latest .
# Each file is that of deploy/release/, by its hash; lister.txt has the extra `lister` alone.
FROM python:3.12-slim AS wheels
COPY deploy/release/build.txt deploy/release/lister.txt /release/
RUN pip install --no-cache-dir --require-hashes --requirement /release/build.txt \
    && pip wheel --no-cache-dir --no-build-isolation --require-hashes --requirement /release/lister.txt --wheel-dir /wheels
COPY pyproject.toml README.md LICENSE /src/
COPY deploy/release/wheel_metadata.py /src/deploy/release/
COPY auditor /src/auditor
RUN pip wheel --no-cache-dir --no-build-isolation --no-deps --wheel-dir /wheels /src

FROM python:3.12-slim
RUN --mount=type=bind,from=wheels,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --no-deps /wheels/*.whl
# The sidecar's user. Its group is the bookie's, who may read the directories.
USER 10001
CMD ["auditor", "lister"]
