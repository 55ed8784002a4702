"""What FLARE imports when it walks ``streamlink.integrations.nvflare``; see ``install``."""
