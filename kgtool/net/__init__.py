"""The only place with sockets, TLS and clocks: one selectors loop, many brokers, pipelined."""
