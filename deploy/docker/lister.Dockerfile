# The image of kubernetes/lister-sidecar.yaml, from a checkout of this project:
#   docker build --file deploy/docker/lister.Dockerfile --tag bookkeeper-cluster-auditor:latest .
FROM python:3.12-slim
COPY pyproject.toml constraints.txt README.md LICENSE /src/
COPY auditor /src/auditor
RUN pip install --no-cache-dir --constraint /src/constraints.txt '/src[lister]' && rm -r /src
# The sidecar's user. Its group is the bookie's, who may read the directories.
USER 10001
CMD ["auditor", "lister"]
