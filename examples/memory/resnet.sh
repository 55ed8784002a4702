#!/bin/sh
# Where the memory goes with ResNet18: both versions, each process under memray, and the analysis.
#   NUM_CLIENTS=3 examples/memory/resnet.sh [any option of `streamlink profile resnet`]
exec streamlink profile resnet --clients "${NUM_CLIENTS:-2}" "$@"
