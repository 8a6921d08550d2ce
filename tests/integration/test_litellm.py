"""The same answers through litellm, which many gateways put before their models."""

import os

import pytest

from support import http_api
from support.build import PATIENCE_S
from support.cluster import CHAT, COMPLETIONS, Cluster

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would fetch a list of prices otherwise
import litellm  # noqa: E402

MODEL = "SmolLM2-135M-Instruct.Q4_1"
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
GREEDY = {"temperature": 0, "max_tokens": 12}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("litellm")) as running:
        yield running
        running.wait_baseline()


def target(cluster, kind: str = "openai") -> dict:
    return {"model": f"{kind}/{MODEL}", "api_base": f"http://{cluster.api}/v1",
            "api_key": "unused", "timeout": PATIENCE_S, "num_retries": 0}


def plain(cluster, path: str, **body) -> dict:
    return http_api.post(cluster.api, path, {"model": MODEL, **GREEDY, **body}).json()


def test_a_chat_answer_is_the_one_of_plain_http(cluster):
    expected = plain(cluster, CHAT, messages=QUESTION)
    answer = litellm.completion(**target(cluster), messages=QUESTION, **GREEDY)
    assert answer.choices[0].message.content == expected["choices"][0]["message"]["content"]
    assert answer.choices[0].finish_reason == expected["choices"][0]["finish_reason"]
    assert answer.usage.completion_tokens == expected["usage"]["completion_tokens"]


def test_a_streamed_chat_answer_is_whole_and_its_usage_comes_last(cluster):
    expected = plain(cluster, CHAT, messages=QUESTION)
    chunks = list(litellm.completion(**target(cluster), messages=QUESTION, **GREEDY, stream=True,
                                     stream_options={"include_usage": True}))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == expected["choices"][0]["message"]["content"]
    ends = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices]
    assert [each for each in ends if each] == [expected["choices"][0]["finish_reason"]]
    assert chunks[-1].usage.completion_tokens == expected["usage"]["completion_tokens"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_text_completion_is_the_one_of_plain_http(cluster, stream):
    prompt = "The capital of France is"
    expected = plain(cluster, COMPLETIONS, prompt=prompt)["choices"][0]["text"]
    answer = litellm.text_completion(**target(cluster, "text-completion-openai"), prompt=prompt,
                                     stream=stream, **GREEDY)
    if stream:
        assert "".join(chunk.choices[0].text or "" for chunk in answer) == expected
    else:
        assert answer.choices[0].text == expected


def test_errors_become_its_typed_exceptions(cluster):
    with pytest.raises(litellm.ContextWindowExceededError):
        litellm.completion(**target(cluster), max_tokens=1,
                           messages=[{"role": "user", "content": "word " * 20000}])
    with pytest.raises(litellm.NotFoundError):
        litellm.completion(**{**target(cluster), "model": "openai/nobody"}, messages=QUESTION)
