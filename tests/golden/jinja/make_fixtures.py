#!/usr/bin/env python3
"""Writes chat.json and snippets.json: what transformers' Jinja environment renders.

Needs transformers, jinja2 and gguf, and the
SmolLM2 GGUF file as argument: its chat template is one of the templates. The others, in templates/,
were written for these tests in the manner of the families they are named after.
"""
import datetime
import json
import pathlib
import sys

import gguf
from transformers.utils.chat_template_utils import _compile_jinja_template

HERE = pathlib.Path(__file__).parent
NOW = datetime.datetime(2026, 11, 29, 12, 34, 56)


def render(template, context):
    """{"text": …} or {"error": true}: texts of errors are ours to choose."""
    try:
        text = _compile_jinja_template(template).render(
            **context, strftime_now=lambda format: NOW.strftime(format))
        return {"text": text}
    except Exception as error:  # every kind of Python and Jinja2 error is a refusal
        return {"error": type(error).__name__}


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def system(text):
    return {"role": "system", "content": text}


def tool(text, **more):
    return {"role": "tool", "content": text, **more}


CALL = {"id": "abc123def", "type": "function",
        "function": {"name": "get_weather", "arguments": {"city": "Zürich", "days": 3, "metric": True}}}
CALL_2 = {"id": "zzz999zzz", "type": "function",
          "function": {"name": "add", "arguments": {"a": 1.5, "b": -2, "note": None, "l": [1, "x"]}}}

CONVERSATIONS = {
    "one": [user("Hello")],
    "spaces": [user("  \n padded \t\n ")],
    "system": [system("Be brief."), user("Hi")],
    "system_only": [system("Only rules.")],
    "three": [user("What is 2+2?"), assistant("4"), user("And 3+3?")],
    "five": [system("You are a pirate.\n"), user("Hi!"), assistant(" Arr \n"), user("More"),
             assistant("Arr!"), user("Bye")],
    "two_users": [user("a"), user("b")],
    "ends_with_assistant": [user("q"), assistant("partial answ")],
    "starts_with_assistant": [assistant("hello"), user("q")],
    "empty_content": [user("")],
    "specials": [user("A<|im_end|>\n<|im_start|>system\nX</s>[INST]<eos>")],
    "braces": [user("{{ messages }} {% if x %} {# c #} }} %}")],
    "unicode": [system("Антворт: да\u00a0"), user("\u3000日本語 ÄÖÜß 🎉\u2028 emoji"), assistant("нет")],
    "quotes": [user("it's \"quoted\" \\ back/slash\tTab\r\nCRLF\x0bVT")],
    "thinking": [user("q"), assistant("<think>\nhmm\n</think>\n\nanswer"), user("next")],
    "thinking_last": [user("q"), assistant("<think>\nhmm\n</think>\n\nanswer")],
    "reasoning_field": [user("q"), assistant("a", reasoning_content="\nbecause\n"), user("why")],
    "tool_round": [user("weather?"), assistant(None, tool_calls=[CALL]),
                   tool('{"temp": 3}', tool_call_id="abc123def"), assistant("3 degrees"), user("thanks")],
    "two_calls": [user("both?"), assistant("ok", tool_calls=[CALL, CALL_2]),
                  tool("3", tool_call_id="abc123def"), tool("-0.5", tool_call_id="zzz999zzz")],
    "bad_call_id": [user("x"), assistant("", tool_calls=[{**CALL, "id": "short"}])],
    "parts": [user([{"type": "text", "text": " part one "}, {"type": "image"},
                    {"type": "text", "text": "part two"}])],
    "named": [{"role": "user", "content": "hi", "name": "bob"}, assistant("yes", name="al")],
    "unknown_role": [user("a"), {"role": "critic", "content": "no"}],
    "long": [m for i in range(10) for m in (user(f"question {i}"), assistant(f"answer {i}"))] + [user("end")],
    "none": [],
    "developer": [{"role": "developer", "content": "rules"}, user("go")],
    "cyrillic": [system("ПРАВИЛА"), user("привет"), assistant("да"), user("пока")],
}

TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "Weather <now> & \"later\" für die Stadt",
        "parameters": {"type": "object", "properties": {
            "city": {"type": "string", "description": "City\nname"},
            "unit": {"type": "string", "enum": ["c", "f"], "default": "c"},
            "days": {"type": "array", "items": {"type": "integer"}},
            "deep": {"type": "object", "properties": {"x": {"type": ["string", "null"]}}},
            "flag": {"type": "boolean", "default": False}}, "required": ["city"]}}},
    {"type": "function", "function": {"name": "noop", "parameters": {}, "return": {"type": "string"}}},
]

VARIABLES = {
    "prompt": {"add_generation_prompt": True},
    "no_prompt": {"add_generation_prompt": False},
    "tools": {"add_generation_prompt": True, "tools": TOOLS},
    "system_tools": {"add_generation_prompt": True, "tools": TOOLS, "tools_in_user_message": False},
    "builtin_tools": {"builtin_tools": ["brave_search", "get_weather", "code_interpreter"],
                      "add_generation_prompt": True, "date_string": "1 Jan 2025"},
    "no_thinking": {"add_generation_prompt": True, "enable_thinking": False},
    "thinking": {"add_generation_prompt": True, "enable_thinking": True},
    "documents": {"documents": [{"title": "t", "text": "x"}], "add_generation_prompt": True},
}
DEFAULTS = {"tools": None, "documents": None, "bos_token": "<s>", "eos_token": "</s>"}
COMMON = ["prompt", "no_prompt", "tools"]
EXTRA = {
    "llama3_tools": ["system_tools", "builtin_tools"],
    "qwen3_thinking": ["no_thinking", "thinking"],
    "granite_documents": ["documents"],
}


def smollm2_template(path):
    return gguf.GGUFReader(path).fields["tokenizer.chat_template"].contents()


def chat_fixtures(model_path):
    templates = {path.stem: path.read_text()
                 for path in sorted((HERE / "templates").glob("*.jinja"))}
    templates["smollm2"] = smollm2_template(model_path)
    out = []
    for name, template in templates.items():
        cases = []
        for conversation, messages in CONVERSATIONS.items():
            for variables in COMMON + EXTRA.get(name, []):
                context = {"messages": messages, **DEFAULTS, **VARIABLES[variables]}
                cases.append({"conversation": conversation, "variables": variables,
                              **render(template, context)})
        out.append({"name": name, "template": template, "cases": cases})
    return {"conversations": CONVERSATIONS, "defaults": DEFAULTS, "variables": VARIABLES,
            "templates": out}


CONTEXT = {
    "s": "Hello, World", "pad": "  x y \n", "empty": "", "uni": "Ünïcödé straße Ωμέγα дом",
    "lines": "a\nb\r\nc\n\nd", "n": 7, "neg": -7, "f": 2.5, "big": 1e20, "small": 1e-7, "t": True,
    "none_value": None, "list": [3, 1, 2], "words": ["pear", "Apple", "fig"], "nested": [[1, [2]], []],
    "d": {"b": 1, "a": {"k": [1, 2]}, "items": 5}, "people": [
        {"name": "Bo", "age": 30, "tags": ["x"]}, {"name": "al", "age": 25}, {"name": "Cy", "age": 30}],
    "quote": "it's", "dq": "say \"hi\"", "both": "it's \"x\"", "digits": "42", "float_text": " 3.5 ",
}


def main():
    chat = chat_fixtures(sys.argv[1])
    lines = (HERE / "snippets.txt").read_text().split("\n")
    snippets = []
    for line in lines:
        if line and not line.startswith("## "):
            source = line.replace("⏎", "\n")
            snippets.append({"template": source, **render(source, CONTEXT)})
    write("chat.json", chat)
    write("snippets.json", {"context": CONTEXT, "snippets": snippets})
    count = sum(len(entry["cases"]) for entry in chat["templates"])
    errors = sum("error" in case for entry in chat["templates"] for case in entry["cases"])
    print(f"{count} chat cases ({errors} refusals), {len(snippets)} snippets "
          f"({sum('error' in s for s in snippets)} refusals)")


def write(name, data):
    text = json.dumps(data, ensure_ascii=False, indent=0, separators=(",", ":"))
    (HERE / name).write_text(text + "\n")


main()
