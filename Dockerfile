# Images of the wheel that `make dist` puts into dist/; `make image` builds both targets.
#   slim     the command line, with the exporter, remote journals and the MCP server
#   analyze  the same, with Spark and a JVM for kgtool analyze
# The user has no rights, but a name, which Spark asks for; the journal is kept on the volume /journal.
# No cache: what the JVM records there for a faster next start would be gone with the container.
ARG PYTHON=python:3.12-slim
ARG JRE=eclipse-temurin:21-jre

FROM $PYTHON AS build
COPY dist/kafka_kgtool-*.whl /tmp/
RUN python3 -m venv /opt/kgtool
RUN /opt/kgtool/bin/pip install --no-cache-dir "$(ls /tmp/kafka_kgtool-*.whl)[exporter,remote,mcp]"

FROM build AS build-analyze
RUN /opt/kgtool/bin/pip install --no-cache-dir "$(ls /tmp/kafka_kgtool-*.whl)[analyze]"

FROM $JRE AS jre

FROM $PYTHON AS analyze
COPY --from=jre /opt/java/openjdk /opt/java/openjdk
COPY --from=build-analyze /opt/kgtool /opt/kgtool
RUN mkdir -m 0777 /journal && echo "kgtool:x:65532:65532:kgtool:/tmp:/bin/sh" >> /etc/passwd
ENV JAVA_HOME=/opt/java/openjdk
ENV XDG_CACHE_HOME=/nonexistent
ENV PATH=/opt/kgtool/bin:/usr/local/bin:/usr/bin:/bin
ENV HOME=/tmp
ENV KGTOOL_JOURNAL_DIR=/journal
USER 65532:65532
ENTRYPOINT ["kgtool"]

FROM $PYTHON AS slim
COPY --from=build /opt/kgtool /opt/kgtool
RUN mkdir -m 0777 /journal && echo "kgtool:x:65532:65532:kgtool:/tmp:/bin/sh" >> /etc/passwd
ENV PATH=/opt/kgtool/bin:/usr/local/bin:/usr/bin:/bin
ENV HOME=/tmp
ENV KGTOOL_JOURNAL_DIR=/journal
USER 65532:65532
ENTRYPOINT ["kgtool"]
