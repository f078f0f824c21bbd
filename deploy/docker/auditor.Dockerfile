# The image of kubernetes/cronjob, from a checkout of this project (BuildKit, the builder of Docker since version 23):
#   docker build --file deploy/docker/auditor.Dockerfile --tag bookkeeper-cluster-auditor:latest .
# Java comes with the extra `jdk`, the lister with `lister`, outputs in S3 and HDFS with `s3` and `hdfs`. Each file is that of
# deploy/release/, by its hash. What has no wheel (PySpark, the auditor) is built by the pinned tools.
FROM python:3.12-slim AS wheels
COPY deploy/release/build.txt deploy/release/runtime.txt /release/
RUN pip install --no-cache-dir --require-hashes --requirement /release/build.txt \
    && pip wheel --no-cache-dir --no-build-isolation --require-hashes --requirement /release/runtime.txt --wheel-dir /wheels
COPY pyproject.toml README.md LICENSE /src/
COPY deploy/release/wheel_metadata.py /src/deploy/release/
COPY auditor /src/auditor
RUN pip wheel --no-cache-dir --no-build-isolation --no-deps --wheel-dir /wheels /src

FROM python:3.12-slim
RUN --mount=type=bind,from=wheels,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --no-deps /wheels/*.whl
ENV HOME=/tmp XDG_CACHE_HOME=/tmp/cache PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /tmp
# A run ends by itself; a lister is watched by the port that it listens on.
HEALTHCHECK NONE
ENTRYPOINT ["auditor"]
CMD ["--help"]
