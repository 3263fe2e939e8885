# One image for every slc_ops service: the versions and hashes of requirements.txt, without the test tools.
ARG PYTHON_IMAGE=python:3.12.13-slim-bookworm
FROM ${PYTHON_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 UV_NO_CACHE=1 UV_PYTHON_DOWNLOADS=never
RUN pip install uv==0.13.7 && uv venv /opt/slc-ops
WORKDIR /src
COPY pyproject.toml README.md LICENSE requirements.txt ./
COPY slc_ops slc_ops
# The lock constrains: installed is what .[all] needs, in the locked versions, and uv checks every file
# against the locked hashes (pip cannot do that with constraints).
RUN uv pip install --python /opt/slc-ops/bin/python --compile-bytecode \
    --constraint requirements.txt --build-constraint requirements.txt ".[all]"

FROM ${PYTHON_IMAGE}
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /tmp --shell /usr/sbin/nologin slc-ops \
 && install --directory --mode=0700 --owner=slc-ops --group=slc-ops /var/lib/slc-ops /var/lib/objects /var/log/airflow
COPY --from=build /opt/slc-ops /opt/slc-ops
COPY dags /opt/slc-ops/dags
ENV PATH=/opt/slc-ops/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    HOME=/tmp \
    MPLBACKEND=Agg \
    SLC_OPS_HOME=/var/lib/slc-ops \
    SLC_OPS_DEPLOYMENTS=/etc/slc-ops/deployments.yaml \
    AIRFLOW_HOME=/tmp/airflow \
    AIRFLOW__CORE__DAGS_FOLDER=/opt/slc-ops/dags \
    AIRFLOW__LOGGING__BASE_LOG_FOLDER=/var/log/airflow
USER 10001:10001
WORKDIR /tmp
# Every service is checked before it starts: secrets, databases, schemas, broker, free space.
ENTRYPOINT ["python", "-m", "slc_ops.production", "run"]
CMD ["slc-ops", "--help"]
