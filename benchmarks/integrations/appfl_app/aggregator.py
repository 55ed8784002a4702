"""The file that ``aggregator_path`` names."""

from streamlink.integrations.appfl import StreamlinkAggregator

__all__ = ["StreamlinkAggregator"]
