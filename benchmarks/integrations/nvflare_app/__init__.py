"""What ``benchmarks.integrations.nvflare`` runs inside FLARE's own environment."""
