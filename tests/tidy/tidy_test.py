"""The rules on this tree, and each rule on a planted sample that it must catch.

Run by ctest; by hand: python3 tests/tidy/tidy_test.py. Needs only the standard library.
"""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from includes import check_cores, check_includes  # noqa: E402
from reach import check_headers, check_scripts, check_sources  # noqa: E402
from sizes import check_sizes  # noqa: E402
from tree import Tree, without_comments  # noqa: E402
from words import check_words  # noqa: E402

THE_TREE = Tree.of_disk()


def body(lines: int) -> str:
    return "int f(int x) {\n" + "  ++x;\n" * (lines - 2) + "}\n"


class TheTree(unittest.TestCase):
    def clean(self, rule):
        findings = rule(THE_TREE)
        self.assertFalse(findings, "\n" + "\n".join(findings))

    def test_includes_go_downwards(self):
        self.clean(check_includes)

    def test_cores_are_pure(self):
        self.clean(check_cores)

    def test_lines_files_headers_and_functions_are_short(self):
        self.clean(check_sizes)

    def test_words_are_those_of_the_product(self):
        self.clean(check_words)

    def test_every_source_is_built(self):
        self.clean(check_sources)

    def test_every_header_is_included(self):
        self.clean(check_headers)

    def test_every_script_is_used(self):
        self.clean(check_scripts)


class PlantedSamples(unittest.TestCase):
    def caught(self, rule, files, words):
        findings = rule(Tree(files))
        self.assertEqual(len(findings), 1, findings)
        self.assertIn(words, findings[0])

    def passes(self, rule, files):
        self.assertEqual(rule(Tree(files)), [])

    # Includes.
    def include(self, path, header):
        return {path: f'#pragma once\n#include "{header}"\n'}

    def test_an_include_upwards_is_caught(self):
        self.caught(check_includes, self.include("common/base/src/a.cc", "baton/net/frame.h"),
                    "base may not include net")
        self.caught(check_includes,
                    self.include("common/kvcache/include/baton/kvcache/a.h", "baton/engine/step.h"),
                    "kvcache may not include engine")

    def test_an_include_on_the_same_level_is_caught(self):
        self.caught(check_includes, self.include("common/net/src/a.cc", "baton/metrics/registry.h"),
                    "net may not include metrics")
        self.caught(check_includes,
                    self.include("common/transport/src/a.cc", "baton/kvcache/arena.h"),
                    "transport may not include kvcache")

    def test_the_router_includes_no_tensors(self):
        for library in ("tensor", "kernels", "weights", "models", "engine"):
            self.caught(check_includes, self.include("router/io/a.cc", f"baton/{library}/x.h"),
                        f"router may not include {library}")
        self.passes(check_includes, self.include("router/io/a.cc", "baton/tokenizer/x.h"))

    def test_a_core_includes_only_what_a_core_may(self):
        self.caught(check_includes, self.include("router/core/a.cc", "baton/net/frame.h"),
                    "router/core may not include net")
        self.caught(check_includes,
                    self.include("common/kvcache/core/src/a.cc", "baton/kvcache/arena.h"),
                    "kvcache/core may not include kvcache")
        self.passes(check_includes,
                    self.include("common/handoff/core/src/a.cc", "baton/kvcache/core/pool.h"))

    def test_roles_do_not_know_each_other(self):
        self.caught(check_includes, self.include("prefill_node/io/a.cc", "baton/router/router.h"),
                    "may not include router")
        self.passes(check_includes, self.include("deploy/cli/a.cc", "baton/router/router.h"))
        self.caught(check_includes, self.include("deploy/cli/a.cc", "baton/router/core/table.h"),
                    "deploy/cli may not include router/core")

    def test_only_protocol_includes_generated_messages(self):
        self.caught(check_includes, self.include("router/io/a.cc", "control.pb.h"), "generated")
        self.passes(check_includes, self.include("common/protocol/src/a.cc", "control.pb.h"))

    def test_an_include_that_climbs_is_caught(self):
        self.caught(check_includes, self.include("router/io/a.cc", "../core/table.h"), "climbs")

    def test_an_include_in_a_comment_is_none(self):
        self.passes(check_includes, {"common/base/src/a.cc": '// #include "baton/net/frame.h"\n'})

    # Cores.
    def test_each_impurity_of_a_core_is_caught(self):
        for code, words in (("auto t = monotonic_now();", "clock"),
                            ("getenv(\"X\");", "environment"),
                            ("std::random_device r;", "generator"),
                            ("#include <fstream>", "files"),
                            ("#include <boost/asio.hpp>", "sockets"),
                            ("#include <mutex>", "threads"),
                            ("#include <thread>", "threads"),
                            ("log_info(\"x\");", "logs"),
                            ("probe_.refused();", "probe"),
                            ("std::unordered_map<int, int> m;", "no order")):
            self.caught(check_cores, {"router/core/src/a.cc": code}, words)
            self.passes(check_cores, {"router/io/a.cc": code})
        self.passes(check_cores, {"router/core/src/a.cc": "// who logs? not log_info()"})

    # Sizes.
    def test_a_long_line_is_caught(self):
        self.caught(check_sizes, {"a.cc": "x" * 101}, "columns: 101, 100")
        self.passes(check_sizes, {"a.cc": "x" * 100})

    def test_a_long_file_is_caught_and_the_hard_limit_cannot_be_bought(self):
        self.caught(check_sizes, {"a.py": "x\n" * 501}, "file: 501, 500")
        ratchet = {"tests/tidy/ratchet.txt": "file 900 a.py\n"}
        self.caught(check_sizes, {"a.py": "x\n" * 850, **ratchet}, "file: 850, 800")
        self.passes(check_sizes, {"a.cc": "// Made by a.py\n" + "x\n" * 900})

    def test_a_long_header_is_caught(self):
        self.caught(check_sizes, {"a.h": "x;\n" * 201}, "header: 201")

    def test_a_long_function_is_caught_wherever_it_stands(self):
        for before, after in (("", ""), ("namespace a {\n", "}\n"),
                              ("class A {\n public:\n", "};\n"),
                              ("namespace {\nstruct A : B {\n", "};\n}\n")):
            self.passes(check_sizes, {"a.cc": before + body(70) + after})
            self.caught(check_sizes, {"a.cc": before + body(71) + after}, "function: 71")

    def test_braces_in_strings_and_tables_are_no_functions(self):
        self.passes(check_sizes, {"a.cc": 'const char* x = "{(";\nint f() { return 1; }\n'})
        self.passes(check_sizes, {"a.cc": "const T t[] = {\n" + "{f(1)},\n" * 100 + "};\n"})

    def test_the_ratchet_only_tightens(self):
        ratchet = {"tests/tidy/ratchet.txt": "# why\nfunction 80 a.cc\n"}
        self.passes(check_sizes, {"a.cc": body(80), **ratchet})
        self.caught(check_sizes, {"a.cc": body(81), **ratchet}, "function: 81, 80")
        self.caught(check_sizes, {"a.cc": body(71), **ratchet}, "has shrunk to 71")
        self.passes(check_sizes, {"a.cc": body(75), **ratchet})
        self.caught(check_sizes, {"a.cc": body(60), **ratchet}, "needs no entry")

    # Words.
    def test_unfinished_work_is_caught(self):
        self.caught(check_words, {"a.cc": "// TO" "DO: later"}, "unfinished")
        self.caught(check_words, {"a.md": "FIX" "ME"}, "unfinished")

    def test_a_place_of_one_machine_is_caught(self):
        self.caught(check_words, {"README.md": "see /wo" "rk/x"}, "one machine")
        self.caught(check_words, {"a.sh": "cat .libr" "ary/x"}, "one machine")

    # Reach.
    def test_a_source_that_no_list_names_is_caught(self):
        lists = {"tests/unit/x/CMakeLists.txt": "baton_test(NAME x SOURCES a_test.cc)"}
        self.passes(check_sources, {"tests/unit/x/a_test.cc": "", **lists})
        self.caught(check_sources, {"tests/unit/x/b_test.cc": "", **lists}, "no CMakeLists.txt")
        self.caught(check_sources, {"tests/unit/x/test_b.py": "", **lists}, "baton_pytest")

    def test_a_header_that_nobody_includes_is_caught(self):
        header = {"common/x/include/baton/x/a.h": "#pragma once\n"}
        self.caught(check_headers, header, "nothing includes")
        self.passes(check_headers, {**header, "b.cc": '#include "baton/x/a.h"\n'})

    def test_a_script_that_nothing_names_is_caught(self):
        self.caught(check_scripts, {"tests/golden/make_it.py": ""}, "nothing runs")
        self.passes(check_scripts, {"tests/golden/make_it.py": "",
                                    "tests/golden/README.md": "made by `make_it.py`"})

    # The helper that all of them rest on.
    def test_comments_go_and_lines_stay(self):
        text = 'int a; // x\n/* y\n z */ int b = 1\'000; char c = \'"\'; // "\nR"(// no)"'
        cut = without_comments(text)
        self.assertEqual(cut.count("\n"), text.count("\n"))
        self.assertNotIn("x", cut)
        self.assertNotIn("y", cut)
        self.assertIn("// no", cut)
        self.assertIn("1'000", cut)


if __name__ == "__main__":
    unittest.main()
