"""How pipelines run: stages, links, supervision of sources, statistics, probes, messages."""
