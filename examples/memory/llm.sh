#!/bin/sh
# The same with a language model that is moved and not trained: MODEL_NAME is tiny, 1gb, a folder, or
# a name of the Hugging Face Hub.
#   NUM_CLIENTS=3 MODEL_NAME=1gb examples/memory/llm.sh [any option of `streamlink profile llm`]
exec streamlink profile llm --clients "${NUM_CLIENTS:-2}" --model-name "${MODEL_NAME:-tiny}" "$@"
