"""The package's tree once more; what tests share is in ``tests.support``."""
