#!/usr/bin/env python3
"""Makes the fixtures of this folder: vocabularies, and the reference's token ids for every text.

    python3 make_fixtures.py SmolLM2-135M-Instruct.Q4_1.gguf [gemma-3-270m-q4_k_m.gguf]

Needs transformers 5.19.0, tokenizers 0.23.3, sentencepiece 0.2.3 and gguf 0.19.0; not run in CI.

  texts.json          the texts of texts.py, with U+E000 to U+E002 for a tokenizer's own markers
  smollm2.json        ids only; the vocabulary is in the GGUF file
  llama3_style.json   a small vocabulary under Llama 3's pre-tokenizer, trained here
  qwen2_style.json    ids under Qwen 2's pre-tokenizer (without its normalisation), same vocabulary
  gpt2_style.json     ids under GPT-2's pre-tokenizer, same vocabulary
  gemma_style.json    a small SentencePiece model as Gemma's: byte fallback, no space prefix
  llama2_style.json   the same trainer as Llama 2's: a space prefix
  gemma3.json         ids only, of sentencepiece over the vocabulary of the second GGUF file; for a
                      test that runs where somebody has that file

A vocabulary file has the fields of a GGUF file under their names there. "plain" has the ids of each
text as a user's text, where control tokens are data; "parsed" the ids where they are parsed, null
when equal. No bos or eos is added. "decoded" has ids and their text without special tokens.
"""

import io
import json
import os
import pathlib
import random
import sys

os.environ["RAYON_NUM_THREADS"] = "1"

import gguf
import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer

import texts

HERE = pathlib.Path(__file__).parent
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)


def write(name, content):
    text = json.dumps(content, ensure_ascii=True, separators=(",", ":"))
    (HERE / name).write_text(text + "\n")
    print(name, len(text))


def expected(encode, markers):
    """`encode(text, parse)` gives the reference's ids."""
    plain, parsed = [], []
    for text in texts.all_texts():
        for stand_in, marker in zip((texts.OPEN, texts.CLOSE, texts.USER), markers):
            text = text.replace(stand_in, marker)
        as_data, as_markers = encode(text, False), encode(text, True)
        plain.append(as_data)
        parsed.append(None if as_markers == as_data else as_markers)
    return {"markers": markers, "plain": plain, "parsed": parsed}


def tokenizers_encoder(tokenizer):
    def encode(text, parse):
        tokenizer.encode_special_tokens = not parse
        return tokenizer.encode(text, add_special_tokens=False).ids

    return encode


def decoded(tokenizer, count):
    """Random ids, which mostly are no well-formed text, and what the reference makes of them."""
    rng = random.Random(count)
    # Tokens of few bytes are the ones that cut code points.
    short = [i for i in range(count) if len(tokenizer.id_to_token(i)) < 3]
    cases = []
    for _ in range(300):
        ids = [
            rng.choice(short) if rng.random() < 0.8 else rng.randrange(count)
            for _ in range(rng.randrange(1, 20))
        ]
        cases.append({"ids": ids, "text": tokenizer.decode(ids, skip_special_tokens=True)})
    return cases


def make_smollm2(path):
    folder, name = os.path.split(os.path.abspath(path))
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name).backend_tokenizer
    # The conversion from GGUF forgets the model's splitting of digits (its tokenizer.json has it).
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    # The vocabulary has no user-defined token: a third control token stands in.
    markers = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]
    write(
        "smollm2.json",
        {
            **expected(tokenizers_encoder(tokenizer), markers),
            "decoded": decoded(tokenizer, tokenizer.get_vocab_size()),
        },
    )


def corpus():
    """Enough of every script for merges of each."""
    rng = random.Random(7)
    lines = [line for line in texts.SENTENCES + texts.CODE for _ in range(6)]
    for _ in range(400):
        lines.append(
            " ".join(rng.choice(texts.SENTENCES + texts.CODE).split(" ")[rng.randrange(2) :])
        )
    return lines


def split(pattern):
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def make_byte_level():
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = split(LLAMA3)
    trained.train_from_iterator(
        corpus(),
        trainers.BpeTrainer(
            vocab_size=1900,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    model = json.loads(trained.to_str())["model"]
    vocab, merges = model["vocab"], [tuple(m) for m in model["merges"]]
    # Tokens that merges do not reach: Llama 3 takes a word that is a token as it is.
    made = {"".join(m): m for m in merges}
    used = {part for m in merges for part in m}
    leaves = [t for t in made if t not in used][::4]
    merges = [m for m in merges if "".join(m) not in leaves]

    control = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|eot_id|>"]
    user = ["<tool_call>", "<tool>", "  \n"]
    tokens = sorted(vocab, key=vocab.get)
    types = [NORMAL] * len(tokens) + [CONTROL] * len(control) + [USER_DEFINED] * len(user)
    markers = ["<|start_header_id|>", "<|eot_id|>", "<tool_call>"]

    def reference(pre_tokenizer, whole_words):
        made = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=whole_words))
        made.pre_tokenizer = pre_tokenizer
        made.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in control])
        made.add_tokens([AddedToken(t, special=False, normalized=False) for t in user])
        assert [made.id_to_token(i) for i in range(len(types))] == tokens + control + user
        made.decoder = decoders.ByteLevel()
        return made, expected(tokenizers_encoder(made), markers)

    fields = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": tokens + control + user,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": [" ".join(m) for m in merges],
        "tokenizer.ggml.bos_token_id": len(tokens),
        "tokenizer.ggml.eos_token_id": len(tokens) + 3,
    }
    llama3, ids = reference(split(LLAMA3), True)
    write(
        "llama3_style.json",
        {
            "metadata": {**fields, "tokenizer.ggml.pre": "llama-bpe"},
            **ids,
            "decoded": decoded(llama3, len(tokens)),
        },
    )
    write("qwen2_style.json", reference(split(QWEN2), False)[1])
    write(
        "gpt2_style.json",
        reference(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True), False)[1],
    )


def split_at(text, spellings):
    """Text and spellings in turn, the longest spelling at each place."""
    parts, plain, at = [], "", 0
    while at < len(text):
        here = max((s for s in spellings if text.startswith(s, at)), key=len, default=None)
        if here is None:
            plain += text[at]
            at += 1
            continue
        parts += [plain, here]
        plain = ""
        at += len(here)
    return parts + [plain]


def sentencepiece_encoder(proto, reference):
    control = {p.piece: i for i, p in enumerate(proto.pieces) if p.type in (CONTROL, UNKNOWN)}

    def encode(text, parse):
        if not parse or not any(spelling in text for spelling in control):
            return reference.encode(text)
        ids = []
        for i, part in enumerate(split_at(text, [c for c in control if c in text])):
            ids += [control[part]] if i % 2 else reference.encode(part)
        return ids

    return encode


def make_sentencepiece(name, markers, unused_every, **options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus()),
        model_writer=model,
        model_type="bpe",
        vocab_size=1500,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        split_digits=True,
        character_coverage=0.98,
        num_threads=1,
        allow_whitespace_only_pieces=True,
        control_symbols=markers[:2],
        minloglevel=2,
        **options
    )
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    if unused_every:
        for piece in [p for p in proto.pieces if p.type == NORMAL and len(p.piece) > 1][
            ::unused_every
        ]:
            piece.type = UNUSED
    reference = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())

    write(
        name,
        {
            "metadata": {
                "tokenizer.ggml.model": "llama",
                "tokenizer.ggml.tokens": [p.piece for p in proto.pieces],
                "tokenizer.ggml.token_type": [p.type for p in proto.pieces],
                "tokenizer.ggml.scores": [p.score for p in proto.pieces],
                "tokenizer.ggml.bos_token_id": reference.bos_id(),
                "tokenizer.ggml.eos_token_id": reference.eos_id(),
                "tokenizer.ggml.unknown_token_id": reference.unk_id(),
                "tokenizer.ggml.add_space_prefix": options["add_dummy_prefix"],
            },
            **expected(sentencepiece_encoder(proto, reference), markers),
        },
    )


def make_gemma3(path):
    """sentencepiece itself over the file's vocabulary; the conversion in transformers differs on
    long runs of spaces."""
    fields = gguf.GGUFReader(path).fields
    tokens, scores, types = (
        fields["tokenizer.ggml." + key].contents() for key in ("tokens", "scores", "token_type")
    )
    proto = sentencepiece_model_pb2.ModelProto()
    proto.trainer_spec.model_type = proto.trainer_spec.BPE
    proto.trainer_spec.byte_fallback = True
    proto.trainer_spec.vocab_size = len(tokens)
    proto.trainer_spec.unk_id, proto.trainer_spec.bos_id, proto.trainer_spec.eos_id = 3, 2, 1
    proto.normalizer_spec.name = "identity"
    proto.normalizer_spec.add_dummy_prefix = False
    proto.normalizer_spec.remove_extra_whitespaces = False
    for i, (token, score, kind) in enumerate(zip(tokens, scores, types)):
        # Converters spell the spaces of user-defined tokens as spaces, and call <unk> control.
        kind = UNKNOWN if i == 3 else kind
        piece = token.replace(" ", "▁") if kind == USER_DEFINED else token
        proto.pieces.add(piece=piece, score=score, type=kind)
    reference = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
    write(
        "gemma3.json",
        expected(
            sentencepiece_encoder(proto, reference), ["<start_of_turn>", "<end_of_turn>", "<h1>"]
        ),
    )


def main():
    write("texts.json", texts.all_texts())
    make_smollm2(sys.argv[1])
    make_byte_level()
    make_sentencepiece(
        "gemma_style.json",
        ["<start_of_turn>", "<end_of_turn>", "<mask>"],
        9,
        add_dummy_prefix=False,
        user_defined_symbols=["<mask>", "▁▁", "▁▁▁▁", "\n\n"],
    )
    make_sentencepiece(
        "llama2_style.json",
        ["<|user|>", "<|end|>", "<extra>"],
        0,
        add_dummy_prefix=True,
        user_defined_symbols=["<extra>"],
    )
    if len(sys.argv) > 2:
        make_gemma3(sys.argv[2])


if __name__ == "__main__":
    main()
