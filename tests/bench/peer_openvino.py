"""One cell of OpenVINO GenAI: VENV/bin/python tests/bench/peer_openvino.py MODEL THREADS CELL STEPS

Prints tokens per second. It cannot do cells with more than one sequence (exit code 3).
"""

import re
import sys

import numpy as np
import openvino as ov
import openvino_genai as genai


def main():
    path, threads, cell, steps = sys.argv[1:5]
    kind, positions, batch = re.fullmatch(r"(prefill|decode)-(\d+)(?:x(\d+))?", cell).groups()
    positions, steps = int(positions), int(steps)
    if int(batch or 1) > 1:
        print("one sequence only", file=sys.stderr)
        sys.exit(3)
    pipe = genai.LLMPipeline(path, "CPU", INFERENCE_NUM_THREADS=int(threads))

    def run(count, tokens, salt=0):
        ids = np.array([[((i + salt) * 7919) % 40000 + 100 for i in range(count)]], np.int64)
        inputs = genai.TokenizedInputs(ov.Tensor(ids), ov.Tensor(np.ones_like(ids)))
        config = genai.GenerationConfig(max_new_tokens=tokens, ignore_eos=True, do_sample=False)
        return pipe.generate(inputs, config).perf_metrics

    # What is counted is an engine that has been running: the same length once before.
    run(positions if kind == "prefill" else 8, 2, salt=1)
    if kind == "prefill":
        print(positions / (run(positions, 1).get_ttft().mean / 1000))
    else:
        print(1000 / run(positions, steps + 1).get_tpot().mean)


if __name__ == "__main__":
    main()
