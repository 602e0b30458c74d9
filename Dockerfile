# The service on CPUs. Build: make image (docker, podman or buildah), or docker build -t vrag .
# With LibreOffice for office documents: make image OFFICE=1, or --build-arg OFFICE=1
#
# One line names the base. To pin it, add the digest that `docker buildx imagetools inspect` prints for the tag
# (python:3.11-slim-bookworm@sha256:...): dependabot renews digests that are there. The provenance of a release
# records the digest that it was built from.
FROM python:3.11-slim-bookworm AS base

FROM base AS packages
WORKDIR /build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
COPY deploy/image.lock deploy/build.lock deploy/
# The packages' tests are not used here.
RUN python -m venv --without-pip /opt/vrag \
    && pip install --no-deps --require-hashes -r deploy/build.lock \
    && pip --python /opt/vrag/bin/python install --no-deps --require-hashes -r deploy/image.lock \
    && find /opt/vrag -type d -name tests -prune -exec rm -r {} +

FROM packages AS program
COPY pyproject.toml README.md CHANGELOG.md LICENSE NOTICE ./
COPY src src
RUN pip wheel --no-deps --no-build-isolation --no-index --wheel-dir wheels . \
    && pip --python /opt/vrag/bin/python install --no-deps --no-index --root /program wheels/*.whl

FROM base
ARG OFFICE=0
# Any user in the group 0 may write to /data: OpenShift chooses the user's number itself.
# hadolint ignore=DL3008
RUN if [ "$OFFICE" = 1 ]; then \
        apt-get update && apt-get install -y --no-install-recommends fonts-crosextra-caladea fonts-crosextra-carlito \
            fonts-dejavu fonts-liberation \
            libreoffice-calc-nogui libreoffice-impress-nogui libreoffice-math-nogui libreoffice-writer-nogui \
        && rm -rf /var/lib/apt/lists/*; \
    fi \
    && useradd --uid 10001 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin vrag \
    && install -d -o 10001 -g 0 -m 775 /data
# The packages change seldom and the program often: a new version is a layer of a few megabytes.
COPY --from=packages /opt/vrag /opt/vrag
COPY --from=program /program/opt/vrag /opt/vrag
# Two pools of memory: with one for each thread, as glibc has, a server that runs for long keeps hundreds of megabytes.
ENV MALLOC_ARENA_MAX=2
ENV PATH=/opt/vrag/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 HOME=/tmp \
    XDG_CONFIG_HOME=/data/.config XDG_STATE_HOME=/data/.state VRAG_COLLECTION=/data/documents
LABEL org.opencontainers.image.title=vrag \
    org.opencontainers.image.description="Answers questions about documents by looking at them" \
    org.opencontainers.image.source=https://github.com/vrag-agent/vrag \
    org.opencontainers.image.documentation=https://vrag-agent.github.io/vrag/ \
    org.opencontainers.image.licenses=Apache-2.0
WORKDIR /data
USER 10001:10001
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/healthz', timeout=8)"]
ENTRYPOINT ["vrag"]
# Without VRAG_API_KEY it refuses to start, and says so.
CMD ["serve", "--host", "0.0.0.0", "--logs", "json", "--files", "names"]
