#!/usr/bin/env python3
"""Writes chat.json and snippets.json: what transformers' Jinja environment renders.

Needs transformers, jinja2 and gguf. Arguments: the SmolLM2 GGUF file, whose chat template is one of
the templates, and optionally the number of random expressions. The other templates, in templates/,
were written for these tests in the manner of the families they are named after.
"""

import copy
import datetime
import json
import pathlib
import sys
from random import Random

import gguf
from transformers.utils.chat_template_utils import _compile_jinja_template

HERE = pathlib.Path(__file__).parent
NOW = datetime.datetime(2026, 11, 29, 12, 34, 56)


def render(template, context):
    """{"text": …} or {"error": true}: texts of errors are ours to choose."""
    try:
        text = _compile_jinja_template(template).render(
            **copy.deepcopy(context), strftime_now=lambda format: NOW.strftime(format)
        )
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


CALL = {
    "id": "abc123def",
    "type": "function",
    "function": {"name": "get_weather", "arguments": {"city": "Zürich", "days": 3, "metric": True}},
}
CALL_2 = {
    "id": "zzz999zzz",
    "type": "function",
    "function": {"name": "add", "arguments": {"a": 1.5, "b": -2, "note": None, "l": [1, "x"]}},
}

CONVERSATIONS = {
    "one": [user("Hello")],
    "spaces": [user("  \n padded \t\n ")],
    "system": [system("Be brief."), user("Hi")],
    "system_only": [system("Only rules.")],
    "three": [user("What is 2+2?"), assistant("4"), user("And 3+3?")],
    "five": [
        system("You are a pirate.\n"),
        user("Hi!"),
        assistant(" Arr \n"),
        user("More"),
        assistant("Arr!"),
        user("Bye"),
    ],
    "two_users": [user("a"), user("b")],
    "ends_with_assistant": [user("q"), assistant("partial answ")],
    "starts_with_assistant": [assistant("hello"), user("q")],
    "empty_content": [user("")],
    "specials": [user("A<|im_end|>\n<|im_start|>system\nX</s>[INST]<eos>")],
    "braces": [user("{{ messages }} {% if x %} {# c #} }} %}")],
    "unicode": [
        system("Антворт: да\u00a0"),
        user("\u3000日本語 ÄÖÜß 🎉\u2028 emoji"),
        assistant("нет"),
    ],
    "quotes": [user('it\'s "quoted" \\ back/slash\tTab\r\nCRLF\x0bVT')],
    "thinking": [user("q"), assistant("<think>\nhmm\n</think>\n\nanswer"), user("next")],
    "thinking_last": [user("q"), assistant("<think>\nhmm\n</think>\n\nanswer")],
    "reasoning_field": [user("q"), assistant("a", reasoning_content="\nbecause\n"), user("why")],
    "tool_round": [
        user("weather?"),
        assistant(None, tool_calls=[CALL]),
        tool('{"temp": 3}', tool_call_id="abc123def"),
        assistant("3 degrees"),
        user("thanks"),
    ],
    "two_calls": [
        user("both?"),
        assistant("ok", tool_calls=[CALL, CALL_2]),
        tool("3", tool_call_id="abc123def"),
        tool("-0.5", tool_call_id="zzz999zzz"),
    ],
    "bad_call_id": [user("x"), assistant("", tool_calls=[{**CALL, "id": "short"}])],
    "parts": [
        user(
            [
                {"type": "text", "text": " part one "},
                {"type": "image"},
                {"type": "text", "text": "part two"},
            ]
        )
    ],
    "named": [{"role": "user", "content": "hi", "name": "bob"}, assistant("yes", name="al")],
    "unknown_role": [user("a"), {"role": "critic", "content": "no"}],
    "long": [m for i in range(10) for m in (user(f"question {i}"), assistant(f"answer {i}"))]
    + [user("end")],
    "none": [],
    "developer": [{"role": "developer", "content": "rules"}, user("go")],
    "cyrillic": [system("ПРАВИЛА"), user("привет"), assistant("да"), user("пока")],
}

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": 'Weather <now> & "later" für die Stadt',
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "City\nname"},
                    "unit": {"type": "string", "enum": ["c", "f"], "default": "c"},
                    "days": {"type": "array", "items": {"type": "integer"}},
                    "deep": {"type": "object", "properties": {"x": {"type": ["string", "null"]}}},
                    "flag": {"type": "boolean", "default": False},
                },
                "required": ["city"],
            },
        },
    },
    {
        "type": "function",
        "function": {"name": "noop", "parameters": {}, "return": {"type": "string"}},
    },
]

VARIABLES = {
    "prompt": {"add_generation_prompt": True},
    "no_prompt": {"add_generation_prompt": False},
    "tools": {"add_generation_prompt": True, "tools": TOOLS},
    "system_tools": {"add_generation_prompt": True, "tools": TOOLS, "tools_in_user_message": False},
    "builtin_tools": {
        "builtin_tools": ["brave_search", "get_weather", "code_interpreter"],
        "add_generation_prompt": True,
        "date_string": "1 Jan 2025",
    },
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
    templates = {
        path.stem: path.read_text() for path in sorted((HERE / "templates").glob("*.jinja"))
    }
    templates["smollm2"] = smollm2_template(model_path)
    out = []
    for name, template in templates.items():
        cases = []
        for conversation, messages in CONVERSATIONS.items():
            for variables in COMMON + EXTRA.get(name, []):
                context = {"messages": messages, **DEFAULTS, **VARIABLES[variables]}
                cases.append(
                    {
                        "conversation": conversation,
                        "variables": variables,
                        **render(template, context),
                    }
                )
        out.append({"name": name, "template": template, "cases": cases})
    return {
        "conversations": CONVERSATIONS,
        "defaults": DEFAULTS,
        "variables": VARIABLES,
        "templates": out,
    }


CONTEXT = {
    "s": "Hello, World",
    "pad": "  x y \n",
    "empty": "",
    "uni": "Ünïcödé straße Ωμέγα дом",
    "lines": "a\nb\r\nc\n\nd",
    "n": 7,
    "neg": -7,
    "f": 2.5,
    "big": 1e20,
    "small": 1e-7,
    "t": True,
    "none_value": None,
    "list": [3, 1, 2],
    "words": ["pear", "Apple", "fig"],
    "nested": [[1, [2]], []],
    "d": {"b": 1, "a": {"k": [1, 2]}, "items": 5},
    "people": [
        {"name": "Bo", "age": 30, "tags": ["x"]},
        {"name": "al", "age": 25},
        {"name": "Cy", "age": 30},
    ],
    "quote": "it's",
    "dq": 'say "hi"',
    "both": 'it\'s "x"',
    "digits": "42",
    "float_text": " 3.5 ",
}


ATOMS = [
    "s",
    "pad",
    "empty",
    "uni",
    "lines",
    "n",
    "neg",
    "f",
    "t",
    "none_value",
    "list",
    "words",
    "nested",
    "d",
    "people",
    "quote",
    "digits",
    "missing",
    "1",
    "0",
    "-3",
    "2.0",
    "'a,b'",
    "''",
    "[1, 'x']",
    "{'a': 1}",
    "(1, 2)",
    "true",
    "none",
    "people[0]",
    "d.a",
    "words[1]",
    "s[1:4]",
]
FILTERS = [
    "upper",
    "lower",
    "trim",
    "title",
    "capitalize",
    "length",
    "first",
    "last",
    "list",
    "string",
    "tojson",
    "join",
    "join('-')",
    "default('z')",
    "default('z', true)",
    "int",
    "float",
    "sort",
    "reverse|list",
    "replace('a', 'bb')",
    "indent(1)",
    "unique|list",
    "sum",
    "max",
    "min",
    "abs",
    "map('string')|list",
    "select|list",
    "reject('none')|list",
    "items|list",
    "tojson(indent=1)",
    "selectattr('age')|list",
    "map(attribute='name')|list",
    "dictsort",
    "round",
    "count",
]
TESTS = [
    "defined",
    "undefined",
    "none",
    "string",
    "number",
    "integer",
    "float",
    "boolean",
    "mapping",
    "iterable",
    "sequence",
    "true",
    "false",
    "odd",
    "even",
    "in [1, 7, 'a']",
    "eq 1",
    "ne none",
    "gt 1",
    "lt 'b'",
    "divisibleby 2",
    "lower",
    "upper",
    "sameas none",
    "not defined",
    "not none",
]
METHODS = [
    "strip()",
    "strip('a ')",
    "upper()",
    "lower()",
    "title()",
    "split()",
    "split(',')",
    "split('l', 1)",
    "rsplit(' ', 1)",
    "splitlines()",
    "startswith('a')",
    "endswith(('x', 'd'))",
    "replace('l', '')",
    "find('l')",
    "rfind('o')",
    "count('l')",
    "get('a')",
    "get('zz', 1)",
    "items()|list",
    "keys()|list",
    "values()|list",
    "isdigit()",
    "capitalize()",
    "lstrip()",
    "rstrip('\\n')",
    "removeprefix('a')",
    "index(1)",
]
SUFFIXES = ["[0]", "[-1]", "['a']", ".a", ".name", "[n]", "[9]"]
SLICES = ["[1:]", "[:-1]", "[::-1]", "[::2]", "[-3:2]", "[n:]"]
BINARY = [
    "+",
    "-",
    "*",
    "/",
    "//",
    "~",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "in",
    "not in",
    "and",
    "or",
]


def random_expression(random, depth):
    """An expression over CONTEXT; about half of them are refused, by us as by the reference."""
    if depth == 0 or random.random() < 0.15:
        return random.choice(ATOMS)
    inner = lambda: random_expression(random, depth - 1)
    kind = random.randrange(10)
    if kind <= 1:
        return f"({inner()} {random.choice(BINARY)} {inner()})"
    if kind <= 3:
        return f"({inner()}|{random.choice(FILTERS)})"
    if kind == 4:
        return f"({inner()} is {random.choice(TESTS)})"
    if kind == 5:
        return f"({inner()}).{random.choice(METHODS)}"
    if kind == 6:
        return f"({inner()}){random.choice(SUFFIXES)}"
    if kind == 7:
        return f"({inner()} if {inner()} else {inner()})"
    if kind == 8:
        # Of a variable: Jinja2 folds slices of constants by other rules.
        return random.choice(["s", "pad", "uni", "list", "words", "n", "d"]) + random.choice(SLICES)
    return random.choice(
        [
            f"[{inner()}, {inner()}]",
            f"(not {inner()})",
            f"(-({inner()}))",
            f"{{'k': {inner()}}}",
            f"({inner()} ~ {inner()} ~ 'q')",
        ]
    )


def random_snippets(count):
    random = Random(20261129)
    texts = []
    while len(texts) < count:
        source = "{{ " + random_expression(random, random.choice([1, 2, 2, 3])) + " }}"
        result = render(source, CONTEXT)
        # A refusal teaches little: one in four is kept.
        if len(source) < 100 and ("text" in result or random.random() < 0.25):
            if " at 0x" not in result.get("text", ""):
                texts.append({"template": source, **result})
    return texts


def random_layout(random, depth):
    """Text and tags with all kinds of white space and white space control around them."""
    sign = lambda: random.choice(["", "", "-", "+"])
    plain_sign = lambda: random.choice(["", "", "-"])
    out = ""
    for _ in range(random.randrange(1, 6)):
        kind = random.randrange(12)
        if kind < 6:
            out += random.choice(
                ["a", " ", "\n", "  ", "\n\n", "\t", "b c", "\r\n", "\u00a0", "}", "{ %"]
            )
        elif kind < 8:
            out += "{{" + plain_sign() + " n " + plain_sign() + "}}"
        elif kind == 8:
            out += "{#" + plain_sign() + " c\n " + plain_sign() + "#}"
        elif kind == 9:
            out += "{%" + sign() + " set x = 1 " + sign() + "%}"
        elif kind == 10:
            out += (
                "{%"
                + sign()
                + " raw "
                + plain_sign()
                + "%}"
                + random.choice([" x ", "\n{{ y\n", ""])
                + "{%"
                + sign()
                + " endraw "
                + sign()
                + "%}"
            )
        elif depth > 0:
            body = random_layout(random, depth - 1)
            name = random.choice(["if", "for"])
            head = "if t" if name == "if" else "for i in [1, 2]"
            out += (
                "{%"
                + sign()
                + f" {head} "
                + sign()
                + "%}"
                + body
                + "{%"
                + sign()
                + f" end{name} "
                + sign()
                + "%}"
            )
    return out


def random_layouts(count):
    random = Random(4711)
    sources = [random_layout(random, 2) for _ in range(count)]
    return [{"template": source, **render(source, CONTEXT)} for source in sources]


def main():
    chat = chat_fixtures(sys.argv[1])
    lines = (HERE / "snippets.txt").read_text().split("\n")
    snippets = []
    for line in lines:
        if line and not line.startswith("## "):
            source = line.replace("⏎", "\n")
            snippets.append({"template": source, **render(source, CONTEXT)})
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 800
    snippets += random_snippets(count) + random_layouts(count // 2)
    write("chat.json", chat)
    write("snippets.json", {"context": CONTEXT, "snippets": snippets})
    count = sum(len(entry["cases"]) for entry in chat["templates"])
    errors = sum("error" in case for entry in chat["templates"] for case in entry["cases"])
    print(
        f"{count} chat cases ({errors} refusals), {len(snippets)} snippets "
        f"({sum('error' in s for s in snippets)} refusals)"
    )


def write(name, data):
    text = json.dumps(data, ensure_ascii=False, indent=0, separators=(",", ":"))
    (HERE / name).write_text(text + "\n")


main()
