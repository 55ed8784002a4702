"""The gRPC carrier: the only part of the package that knows gRPC."""
