# One image for every role: coordinator, generator, critic, refiner, publisher.
#   docker build --tag redraft:0.1.0 .
# With the actors that ask language models, and with what exports traces and metrics:
#   docker build --build-arg EXTRAS='[llm,telemetry]' --tag redraft:0.1.0 .
ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY events events
COPY actors actors
COPY projections projections
COPY app app
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheel .
COPY constraints.txt ./
ARG EXTRAS=
RUN python -m venv --without-pip /opt/redraft \
    && pip --python /opt/redraft/bin/python install --no-cache-dir --constraint constraints.txt "$(ls /wheel/*.whl)${EXTRAS}"

FROM python:${PYTHON}-slim
RUN useradd --uid 10001 --no-log-init --no-create-home --home-dir /tmp --shell /usr/sbin/nologin redraft
COPY --from=build /opt/redraft /opt/redraft
ENV PATH=/opt/redraft/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 REDRAFT_HEALTH_FILE=/tmp/health
# The example's actors, so that the image works as it is. Mount or copy your own modules here.
COPY examples/article.py /actors/
WORKDIR /actors
USER 10001:10001
# Healthy is a process that reaches its servers. One that hangs is killed, so that the container is started again.
HEALTHCHECK --interval=30s --timeout=20s --start-period=60s CMD ["sh", "-c", "\
    test -z \"$(find /tmp/health.alive -mmin +1)\" || kill -9 $(cat /tmp/health.alive); \
    test -n \"$(find /tmp/health -mmin -1)\""]
ENTRYPOINT ["redraft"]
CMD ["--help"]
