# The daemon in a container; everything it keeps is in the volume /home/worker/.agent-worker, a project is mounted at
# /project. What it runs is tried by tests/test_container.py without a container; no test builds it.
#
#   docker build -t agent-worker .
#   docker run -d --name agent-worker -v agent-worker:/home/worker/.agent-worker -v "$PWD:/project" agent-worker
#   docker exec -it agent-worker agent-worker key set anthropic
#   docker exec -it agent-worker agent-worker ask alice "hello"
FROM python:3.13-slim

RUN apt-get update \
 && apt-get install -y --no-install-recommends bubblewrap git tini \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home worker \
 && install -d -m 0700 -o worker -g worker /home/worker/.agent-worker \
 && install -d -o worker -g worker /project

COPY pyproject.toml README.md LICENSE constraints.txt /source/
COPY src /source/src
RUN pip install --no-cache-dir --constraint /source/constraints.txt /source

USER worker
WORKDIR /project
VOLUME /home/worker/.agent-worker
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=10s --start-period=20s CMD ["agent-worker", "daemon", "status"]
ENTRYPOINT ["tini", "--"]
CMD ["agent-worker", "daemon", "run"]
