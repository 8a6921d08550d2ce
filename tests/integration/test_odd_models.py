"""Real models with something odd in their metadata: what works goes on, the rest is said."""

import pytest

from support import http_api
from support.cluster import CHAT, COMPLETIONS, Cluster, default_model
from support.gguf_file import edited, string_value

QUESTION = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4}
TEMPLATE = "tokenizer.chat_template"


def without(*names: str):
    return lambda name, value: None if name.startswith(names) else value


def with_template(text: str):
    return lambda name, value: string_value(text) if name == TEMPLATE else value


@pytest.fixture
def odd(tmp_path):
    """odd(change): a running cluster of the default model with changed metadata."""
    running = []

    def make(change) -> Cluster:
        model = edited(default_model(), tmp_path / "odd.gguf", change)
        running.append(Cluster(tmp_path, model=model).__enter__())
        return running[-1]

    yield make
    for cluster in running:
        cluster.close()


def ask(cluster, path: str, body: dict):
    return http_api.post(cluster.api, path, {"model": "odd", "temperature": 0, **body})


def completes(cluster) -> str:
    answer = ask(cluster, COMPLETIONS, {"prompt": "The capital of France is", "max_tokens": 8})
    assert answer.status == 200, answer.text()
    return answer.json()["choices"][0]["text"]


def refused(answer, *words: str) -> None:
    assert answer.status == 400, answer.text()
    error = answer.json()["error"]
    assert isinstance(error["code"], str)
    for word in words:
        assert word in error["message"], error


def test_a_copy_that_nothing_was_changed_in_answers_the_same(odd):
    assert "Paris" in completes(odd(lambda _, value: value))


def test_a_base_model_without_chat_template_completes_and_refuses_chats(odd):
    cluster = odd(without(TEMPLATE))
    refused(ask(cluster, CHAT, QUESTION), "chat template")
    assert "Paris" in completes(cluster)


def test_a_chat_template_that_cannot_be_read_refuses_chats_only(odd):
    cluster = odd(with_template("{% for message in messages %}{{ message.content }"))
    refused(ask(cluster, CHAT, QUESTION), "chat template")
    assert "Paris" in completes(cluster)


@pytest.mark.parametrize("endless", [
    "{% for i in range(1000000000) %}{{ messages[0].content }}{% endfor %}",
    "{{ 'x' * 1000000000000 }}",
    "{% macro again(n) %}{{ again(n + 1) }}{% endmacro %}{{ again(0) }}",
])
def test_a_chat_template_without_end_is_stopped_R16(odd, endless):
    cluster = odd(with_template(endless))
    refused(ask(cluster, CHAT, QUESTION), "chat template")
    assert "Paris" in completes(cluster)


def test_a_model_without_tokenizer_is_refused_at_start(tmp_path):
    model = edited(default_model(), tmp_path / "odd.gguf", without("tokenizer."))
    cluster = Cluster(tmp_path, model=model)
    with pytest.raises(AssertionError, match="tokenizer.ggml.model"):
        cluster.workers[0].start()
        cluster.workers[0].wait_ready()
    assert cluster.workers[0].process.returncode == 78
    cluster.close()
