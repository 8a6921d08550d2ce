"""What a request must give: computed in one process that hands nothing over and keeps nothing
between two prompts."""

import json
import subprocess
from pathlib import Path

from support.build import BUILD
from support.cluster import default_model


def token_ids(count: int, kind: int = 1) -> list[int]:
    """A prompt; those of two kinds differ from their first id on."""
    return [1 + (kind * 7919 + i * 104729 + i * i * 31) % 49000 for i in range(count)]


def local_answers(folder: Path, prompts, max_tokens: int = 8, options=()) -> list[dict]:
    """Token ids and digests of every logits row, by prompt (token ids)."""
    batch = folder / "batch.jsonl"
    batch.write_text("".join(json.dumps({"prompt": prompt, "max_tokens": max_tokens}) + "\n"
                             for prompt in prompts))
    done = subprocess.run(
        [BUILD / "bin/baton", "complete", "--local", "--model", default_model(), "--batch", batch,
         "--json", "--logits-digest", "--ignore-eos", "--temperature", "0", "--no-prefix-cache",
         *options],
        capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]
