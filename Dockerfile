# Troupe in a container, from the packages that `make package` leaves in dist/:
#   docker build -t troupe .        (or buildah build)
#   docker run --rm -v "$PWD:/work" troupe train /usr/share/troupe/examples/smallest.yaml
# No compiler, no root. docs/install.md says which options a job wants.
ARG BASE=debian:12-slim
FROM ${BASE}
RUN --mount=type=bind,source=dist,target=/packages \
    apt-get update && \
    apt-get install -y --no-install-recommends /packages/troupe_*.deb /packages/troupe-train_*.deb && \
    rm -rf /var/lib/apt/lists/*
RUN useradd --create-home --uid 1000 troupe && mkdir /work && chown troupe: /work
USER troupe
WORKDIR /work
ENTRYPOINT ["troupe"]
CMD ["doctor"]
