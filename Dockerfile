# The service on CPUs. Build: docker build -t vrag .   With LibreOffice for office documents: --build-arg OFFICE=1
FROM python:3.11-slim-bookworm AS build
WORKDIR /build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
COPY deploy/image.lock deploy/build.lock deploy/
RUN python -m venv --without-pip /opt/vrag \
    && pip install --no-deps --require-hashes -r deploy/build.lock \
    && pip --python /opt/vrag/bin/python install --no-deps --require-hashes -r deploy/image.lock
COPY pyproject.toml README.md CHANGELOG.md LICENSE ./
COPY src src
RUN pip wheel --no-deps --no-build-isolation --no-index --wheel-dir wheels . \
    && pip --python /opt/vrag/bin/python install --no-deps --no-index wheels/*.whl

FROM python:3.11-slim-bookworm
ARG OFFICE=0
# hadolint ignore=DL3008
RUN if [ "$OFFICE" = 1 ]; then \
        apt-get update && apt-get install -y --no-install-recommends fonts-dejavu fonts-liberation \
            libreoffice-calc-nogui libreoffice-impress-nogui libreoffice-writer-nogui \
        && rm -rf /var/lib/apt/lists/*; \
    fi \
    && useradd --uid 10001 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin vrag \
    && install -d -o 10001 -g 10001 /data
COPY --from=build /opt/vrag /opt/vrag
ENV PATH=/opt/vrag/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 HOME=/tmp \
    XDG_CONFIG_HOME=/data/.config VRAG_COLLECTION=/data/documents
WORKDIR /data
USER 10001:10001
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
ENTRYPOINT ["vrag"]
# Without VRAG_API_KEY it refuses to start, and says so.
CMD ["serve", "--host", "0.0.0.0", "--logs", "json", "--files", "names"]
