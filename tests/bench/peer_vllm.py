"""One cell of vLLM on the processor.

    VENV/bin/python tests/bench/peer_vllm.py MODEL THREADS CELL STEPS

MODEL is a .gguf file; vLLM reads the folder of its name without the ending, in Hugging Face's
format (bf16), beside it. Prints tokens per second; it cannot where there is no such folder (exit
code 3).
"""

import os
import re
import sys
import time
from pathlib import Path


def main():
    path, threads, cell, steps = sys.argv[1:5]
    folder = Path(path).with_suffix("")
    if not folder.is_dir():
        print(f"no folder {folder}", file=sys.stderr)
        sys.exit(3)
    kind, positions, batch = re.fullmatch(r"(prefill|decode)-(\d+)(?:x(\d+))?", cell).groups()
    positions, steps, batch = int(positions), int(steps), int(batch or 1)
    os.environ.update(VLLM_CPU_OMP_THREADS_BIND=f"0-{int(threads) - 1}", VLLM_CPU_KVCACHE_SPACE="2",
                      VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_LOGGING_LEVEL="ERROR",
                      VLLM_NO_USAGE_STATS="1", HF_HUB_OFFLINE="1")
    from vllm import LLM, SamplingParams

    model = LLM(str(folder), dtype="bfloat16", skip_tokenizer_init=True, disable_log_stats=True,
                enable_prefix_caching=False, enforce_eager=True,
                max_model_len=positions + steps + 16,
                max_num_seqs=max(batch, 1), max_num_batched_tokens=max(2048, positions))

    def run(count, tokens, sequences):
        prompts = [{"prompt_token_ids": [(i * 7919 + s) % 40000 + 100 for i in range(count)]}
                   for s in range(sequences)]
        sampling = SamplingParams(max_tokens=tokens, ignore_eos=True, temperature=0,
                                  detokenize=False)
        start = time.perf_counter()
        model.generate(prompts, sampling, use_tqdm=False)
        return time.perf_counter() - start

    run(positions, 2, batch)  # compiles and warms
    first = min(run(positions, 1, batch) for _ in range(3))
    if kind == "prefill":
        print(positions / first)
    else:
        print(batch * steps / (run(positions, steps + 1, batch) - first))


if __name__ == "__main__":
    main()
