# The image of kubernetes/cronjob, from a checkout of this project:
#   docker build --file deploy/docker/auditor.Dockerfile --tag bookkeeper-cluster-auditor:latest .
# Java comes with the extra `jdk`, the lister with `lister`, outputs in S3 and HDFS with `s3` and `hdfs`; versions are those of constraints.txt.
FROM python:3.12-slim
COPY pyproject.toml constraints.txt README.md LICENSE /src/
COPY auditor /src/auditor
RUN pip install --no-cache-dir --constraint /src/constraints.txt '/src[jdk,lister,s3,hdfs]' && rm -r /src
ENV HOME=/tmp XDG_CACHE_HOME=/tmp/cache PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /tmp
# A run ends by itself; a lister is watched by the port that it listens on.
HEALTHCHECK NONE
ENTRYPOINT ["auditor"]
CMD ["--help"]
