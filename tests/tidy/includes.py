"""Who may include whom, after design rule "downwards only": ARCHITECTURE.md has the picture."""

import re

from tree import Tree, line_of, without_comments

# Each library sees what stands below it, by level, and nothing of its own level.
LEVELS = [
    {"base"},
    {"metrics", "net", "protocol", "modelfile", "prefix", "tensor"},
    {"process", "tokenizer", "kernels"},
    {"weights", "kvcache", "transport"},
    {"models", "handoff"},
    {"engine"},
    # What the two workers share. The router has no part in it.
    {"worker"},
]
LIBRARIES = set().union(*LEVELS)
ROLES = ("prefill_node", "decode_node", "router")
# Pure parts that are libraries of their own (below).
CORES = {"kvcache/core", "handoff/core", "engine/core", "worker/core"}
# The router needs no weights (design rule): it holds ids and text, never tensors.
NOT_IN_A_ROUTER = {"tensor", "kernels", "weights", "models", "engine", "engine/core", "worker",
                   "worker/core"}
# What lies across the levels or is narrower than its level.
ONLY = {
    "process": {"base", "metrics", "net"},
    "tokenizer": {"base", "modelfile"},
    "transport": {"base", "protocol", "metrics", "net", "tensor"},
    "kvcache/core": {"base", "prefix"},
    "handoff/core": {"base", "protocol", "kvcache/core"},
    "engine/core": {"base", "prefix", "kvcache/core"},
    "worker/core": {"base", "prefix", "protocol", "kvcache/core", "handoff/core", "engine/core"},
    "router/core": {"base", "prefix", "protocol", "kvcache/core", "handoff/core"},
    "prefill_node/core": {"base", "prefix", "protocol"} | CORES,
    "decode_node/core": {"base", "prefix", "protocol"} | CORES,
}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+(["<])([^">]+)[">]', re.MULTILINE)


def includes_of(text: str):
    """(offset, spelled path, whether in quotes) of every include line."""
    for match in INCLUDE.finditer(without_comments(text)):
        yield match.start(), match.group(2), match.group(1) == '"'


def module_of(path: str) -> str:
    """The library, role or area that a file belongs to; a core is a library of its own."""
    parts = path.split("/")
    if parts[0] == "common" and len(parts) > 2:
        return parts[1] + ("/core" if "core" in parts[2:-1] else "")
    if parts[0] in ROLES and len(parts) > 1:
        return parts[0] + ("/core" if "core" in parts[1:-1] else "")
    return "/".join(parts[:2]) if parts[0] in ("deploy", "tests") else parts[0]


def target_of(include: str) -> str | None:
    """The module that "baton/x/..." belongs to, or None for a header of no library of ours."""
    parts = include.split("/")
    if parts[0] != "baton" or len(parts) < 3:
        return None
    return parts[1] + ("/core" if len(parts) > 3 and parts[2] == "core" else "")


def allowed(module: str) -> set[str] | None:
    """What a module may include besides itself, or None where everything is allowed."""
    area = module.split("/")[0]
    if module in ONLY:
        return ONLY[module]
    if area in ROLES:
        visible = LIBRARIES | CORES | {area + "/core", area}
        return visible - NOT_IN_A_ROUTER if area == "router" else visible
    if area == "deploy":
        return LIBRARIES | CORES | set(ROLES) | {area}
    for level, names in enumerate(LEVELS):
        if area in names:
            visible = set().union({area}, *LEVELS[:level])
            return visible | {core for core in CORES if core.split("/")[0] in visible}
    return None


def check_includes(tree: Tree) -> list[str]:
    findings = []
    for path, text in tree.cpp().items():
        module = module_of(path)
        visible = allowed(module)
        for offset, include, quoted in includes_of(text):
            where = f"{path}:{line_of(text, offset)}"
            if quoted and ".." in include.split("/"):
                findings.append(f"{where}: {include} climbs out of its folder")
            target = target_of(include) if quoted else None
            if include.endswith(".pb.h") and module != "protocol" and not path.startswith("tests/"):
                findings.append(f"{where}: only common/protocol includes generated messages")
            if target and visible is not None and target != module and target not in visible:
                findings.append(f"{where}: {module} may not include {target} ({include})")
    return findings


# A core is a function of its arguments: time, randomness and effects come in and go out as values.
IMPURE = [
    (r"\bmonotonic_now\b|\bsystem_clock\b|\bsteady_clock\b|\bwall_now\b|\bgettimeofday\b"
     r"|\bclock_gettime\b", "reads a clock"),
    (r"\bgetenv\b|\benviron\b", "reads the environment"),
    (r"\brandom_device\b|\bgetrandom\b|\bRAND_bytes\b", "draws from the system's generator"),
    (r"<fstream>|<filesystem>|<iostream>|\bfopen\b|\bstd::(?:cout|cerr|printf)\b|\bprintf\b",
     "touches files or prints"),
    (r"<sys/socket\.h>|boost/(?:asio|beast)", "touches sockets"),
    (r"<thread>|<mutex>|<shared_mutex>|<condition_variable>|<future>|<atomic>|\bpthread_",
     "knows of threads"),
    (r"\blog_(?:debug|info|warn|warning|error)\b|\bspdlog\b|baton/base/log\.h", "logs"),
    (r"\bprobe\w*(?:\.|->)|\"[^\"]*probe\.h\"|prometheus", "calls a probe"),
    (r"\bunordered_(?:multi)?(?:map|set)\b", "iterates in no order (use an ordered container)"),
]


def check_cores(tree: Tree) -> list[str]:
    findings = []
    for path, text in tree.cpp().items():
        if "core" not in path.split("/")[:-1] or path.startswith("tests/"):
            continue
        code = without_comments(text)
        for pattern, what in IMPURE:
            for match in re.finditer(pattern, code):
                findings.append(f"{path}:{line_of(code, match.start())}: a core {what}: "
                                f"{match.group(0)}")
    return findings
