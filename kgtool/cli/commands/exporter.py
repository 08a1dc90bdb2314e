"""``kgtool exporter``: serve metrics to Prometheus."""

from __future__ import annotations

import click

from kgtool.cli.options.declare import declare, flag, option
from kgtool.cli.options.group_selection import Selection
from kgtool.cli.options.shared import cluster_options, filter_options
from kgtool.cli.options.types import duration
from kgtool.cli.output.output import Output
from kgtool.config import Settings
from kgtool.errors import KgError, UsageError

LISTEN = "127.0.0.1:9308"


@declare(
    "exporter",
    "kgtool exporter",
    "kgtool exporter --listen 0.0.0.0:9308 --token-file /run/secrets/token",
    "kgtool exporter --match 'billing-*' --time-lag --interval 30s",
)
@option(
    "--listen",
    "HOST:PORT",
    default=LISTEN,
    text=f"Where to listen (default: {LISTEN}); others need --token-file.",
)
@option("--token-file", "FILE", "The bearer token that scrapes must send.", type=click.Path())
@option(
    "--interval",
    "TIME",
    "How often to look at the cluster (default: 60s).",
    type=duration(),
    default="60s",
)
@option(
    "--within",
    "TIME",
    "Count offsets that expire within that time as findings (default: 48h).",
    type=duration(),
    default="48h",
)
@flag("--time-lag", "Also lag in time: reads one record for each partition that lags.")
@filter_options
@cluster_options()
def command(
    settings: Settings,
    output: Output,
    selection: Selection,
    listen: str,
    token_file: str | None,
    interval: int,
    within: int,
    time_lag: bool,
) -> int:
    """Serve metrics of all groups to Prometheus.

    Lag, expiry, states and findings of consumer groups: /metrics has the names of describe
    --prometheus and those of docs/monitoring.rst. The cluster is polled in the background; a
    scrape gets the latest results: kgtool_up says whether the last poll succeeded,
    kgtool_last_poll_timestamp_seconds when it was, kgtool_unreadable what is missing.
    Commit times and expiry are there as far as __consumer_offsets can be read.

    Only this machine can connect, unless --listen and --token-file are given. Needs
    pip install 'kafka-kgtool[exporter]'.
    """
    try:
        from prometheus_client import REGISTRY, generate_latest
    except ImportError:
        raise KgError(
            "kgtool exporter needs the package prometheus_client.",
            hint="pip install 'kafka-kgtool[exporter]'",
        ) from None
    from kgtool.exporter import serve
    from kgtool.exporter.collect import Collector, Options

    host, port = serve.parse_listen(listen)
    if token_file is not None:
        serve.read_token(token_file)
    elif not serve.is_local(host):
        raise UsageError(
            f"--listen {listen} lets other machines connect: give --token-file too, "
            "or listen on 127.0.0.1."
        )
    options = Options(interval, within, time_lag, selection.predicate())
    collector = Collector(settings, options, output.note)

    def metrics() -> list[bytes]:
        # The last part is about this process: memory, processor time.
        return [*collector.parts(), bytes(generate_latest(REGISTRY))]

    with serve.Server(host, port, metrics, token_file) as server:
        shown = f"[{host}]" if ":" in host else host
        output.note(f"Listening on http://{shown}:{server.server_address[1]}/metrics")
        collector.start()
        try:
            server.serve_forever()
        finally:
            collector.stop()
    return 0
