"""Operations as generators: routing, retries and cluster state, without sockets or clocks."""
