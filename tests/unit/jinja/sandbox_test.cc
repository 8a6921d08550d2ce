// R16: a hostile template gets an error, whatever it tries; time, memory and stack stay bounded.
#include <array>
#include <ctime>
#include <iterator>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "baton/tokenizer/jinja/template.h"
#include "baton/tokenizer/jinja/value.h"

#include "json_fixture.h"

namespace baton::tokenizer::jinja {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

std::string outcome(const std::string& source, const Value& context, const Limits& limits = {}) {
  const Result<Template> parsed = Template::parse(source);
  if (parsed.has_error()) return parsed.error().message();
  RenderOptions options;
  options.limits = limits;
  const Result<Text> text = parsed->render(context, options);
  return text.has_value() ? "rendered" : text.error().message();
}

std::string outcome(const std::string& source, const Limits& limits = {}) {
  return outcome(source, Value::dict({}), limits);
}

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

TEST(SandboxR16, AttributesOutsideTheDocumentedOnesAreUndefined) {
  for (const std::string name : {"__class__", "__init__", "__globals__", "format", "format_map",
                                 "encode", "mro", "gi_frame", "__subclasses__"}) {
    for (const std::string object : {"''", "[]", "{}", "1", "range", "namespace()", "none", "(1,)",
                                     "''.strip", "raise_exception"}) {
      EXPECT_EQ(outcome("{% if (" + object + ")." + name + " is defined %}{{ 1 / 0 }}{% endif %}"),
                "rendered")
          << object << name;
      EXPECT_THAT(outcome("{{ (" + object + ")." + name + ".x }}"), HasSubstr("undefined"));
    }
  }
}

TEST(SandboxR16, NamesOutsideTheContextAreUndefined) {
  for (const std::string name : {"self", "request", "config", "lipsum", "cycler", "joiner", "open",
                                 "eval", "__builtins__", "import", "super"}) {
    EXPECT_THAT(outcome("{{ " + name + ".x }}"), HasSubstr("'" + name + "' is undefined"));
  }
}

TEST(SandboxR16, NothingThatATemplateIsGivenCanBeChanged) {
  for (const std::string change : {"l.append(1)", "l.clear()", "l.pop()", "d.update({})",
                                   "d.pop('a')", "d.clear()", "d.setdefault('q', 1)"}) {
    EXPECT_THAT(outcome("{% set l = [1] %}{% set d = {'a': 1} %}{{ " + change + " }}"),
                HasSubstr("undefined"))
        << change;
  }
}

TEST(SandboxR16, StepsAreBounded) {
  const std::string nested =
      "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}"
      "{% endfor %}";
  EXPECT_THAT(outcome(nested), HasSubstr("the step limit is exceeded"));
  Limits few;
  few.max_steps = 100;
  EXPECT_THAT(outcome("{% for a in range(60) %}{{ a }}{% endfor %}", few), HasSubstr("step limit"));
  EXPECT_EQ(outcome("{% for a in range(10) %}{{ a }}{% endfor %}", few), "rendered");
  EXPECT_THAT(outcome("{{ range(100001) }}"), HasSubstr("a range is too long"));
}

TEST(SandboxR16, OutputIsBounded) {
  EXPECT_THAT(outcome("{{ 'a' * 100000000 }}"), HasSubstr("the output limit is exceeded"));
  EXPECT_THAT(outcome("{{ [1] * 100000000 }}"), HasSubstr("the output limit is exceeded"));
  EXPECT_THAT(outcome("{% set ns = namespace(s='a') %}{% for i in range(40) %}"
                      "{% set ns.s = ns.s ~ ns.s %}{% endfor %}"),
              HasSubstr("the output limit is exceeded"));
  EXPECT_THAT(outcome("{% set s = 'a' * 9999999 %}{{ s }}{{ s }}"), HasSubstr("the output limit"));
  EXPECT_THAT(outcome("{{ ('a' * 9999) | replace('a', 'b' * 9999) }}"), HasSubstr("output limit"));
  EXPECT_THAT(outcome("{{ ([1] * 99999) | join('x' * 9999) }}"), HasSubstr("output limit"));
  EXPECT_THAT(outcome("{{ ('\\n' * 99999) | indent('x' * 9999, true, true) }}"),
              HasSubstr("output limit"));
  Limits small;
  small.max_output_bytes = 10;
  EXPECT_EQ(outcome("0123456789", small), "rendered");
  EXPECT_THAT(outcome("0123456789a", small), HasSubstr("the output limit is exceeded"));
}

TEST(SandboxR16, RecursionIsBounded) {
  EXPECT_THAT(outcome("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
              HasSubstr("the recursion limit is exceeded"));
  EXPECT_THAT(outcome("{% macro m() %}" + repeated("{% if true %}", 50) + "{{ m() }}" +
                      repeated("{% endif %}", 50) + "{% endmacro %}{{ m() }}"),
              HasSubstr("the recursion limit is exceeded"));
}

TEST(SandboxR16, DeepSyntaxIsRefusedWhenParsed) {
  for (const auto& [open, inner, close] :
       std::vector<std::array<std::string, 3>>{{"(", "1", ")"},
                                               {"[", "", "]"},
                                               {"{1:", "1", "}"},
                                               {"-", "1", ""},
                                               {"not ", "1", ""},
                                               {"1 + ", "1", ""},
                                               {"1if 1else ", "1", ""},
                                               {"", "x", ".a"},
                                               {"", "x", "[0]"},
                                               {"", "x", "()"},
                                               {"", "x", " | e"},
                                               {"", "x", " or x"},
                                               {"x(", "1", ")"},
                                               {"x[", "1", "]"},
                                               {"x(a=", "1", ")"}}) {
    EXPECT_THAT(outcome("{{ " + repeated(open, 80'000) + inner + repeated(close, 80'000) + " }}"),
                HasSubstr("nested too deeply"))
        << open << inner << close;
  }
  EXPECT_THAT(outcome(repeated("{% if x %}", 20'000)), HasSubstr("nested too deeply"));
  EXPECT_THAT(outcome(repeated("{% for x in y %}", 20'000)), HasSubstr("nested too deeply"));
  EXPECT_THAT(outcome(std::string(2 << 20, 'a')), HasSubstr("longer than 1 MiB"));
}

TEST(SandboxR16, DeepValuesAreRefusedWhenMade) {
  for (const std::string wrap :
       {"[ns.v]", "(ns.v,)", "{'a': ns.v}", "[ns.v.count]", "dict(a=ns.v)", "namespace(v=ns.v)"}) {
    EXPECT_THAT(
        outcome("{% set ns = namespace(v=[1]) %}{% for i in range(50000) %}{% set ns.v = " + wrap +
                " %}{% endfor %}"),
        AnyOf(HasSubstr("nested too deeply"), HasSubstr("undefined"), HasSubstr("rendered")))
        << wrap;
  }
  EXPECT_THAT(outcome("{% set ns = namespace() %}{% for i in range(9999) %}{% for x in [ns.l] %}"
                      "{% set ns.l = loop %}{% endfor %}{% endfor %}"),
              HasSubstr("nested too deeply"));
}

// Each of these would leak or end in endless recursion if the interpreter did not take it apart.
TEST(SandboxR16, ObjectsThatHoldThemselvesAreFreed) {
  EXPECT_EQ(
      outcome("{% set ns = namespace() %}{% set ns.me = ns %}{% set ns.l = [ns, {'a': ns}] %}"),
      "rendered");
  EXPECT_EQ(outcome("{% for x in [1] %}{% set y = loop.changed(loop, loop.changed) %}{% endfor %}"),
            "rendered");
  EXPECT_EQ(outcome("{% macro m() %}{{ caller() }}{% endmacro %}{% set a = [m] %}{% call m() %}{% "
                    "endcall %}"),
            "rendered");
  EXPECT_EQ(outcome("{% set ns = namespace() %}{% for i in range(9999) %}{% set ns.v = "
                    "namespace(before=ns.v) %}{% endfor %}"),
            "rendered");
}

TEST(SandboxR16, ArithmeticThatOverflowsIsAnError) {
  for (const std::string source :
       {"9223372036854775807 + 1", "-9223372036854775807 - 2", "9223372036854775807 * 2", "2 ** 64",
        "(-9223372036854775807 - 1) // -1", "-(-9223372036854775807 - 1)",
        "(-9223372036854775807 - 1) | abs"}) {
    EXPECT_THAT(outcome("{{ " + source + " }}"), HasSubstr("an integer overflows")) << source;
  }
  EXPECT_EQ(outcome("{{ (-9223372036854775807 - 1) % -1 }}"), "rendered");
  EXPECT_EQ(outcome("{{ 1e308 * 10 }}{{ (1e308 * 10) | int }}{{ 'nan' | float | int }}"),
            "rendered");
  EXPECT_EQ(outcome("{{ 'abc'[-9223372036854775807:9223372036854775807:9223372036854775807] }}"),
            "rendered");
  EXPECT_EQ(outcome("{{ [1, 2][::-9223372036854775807] }}{{ 'abc'[9223372036854775807] }}"),
            "rendered");
}

TEST(SandboxR16, TimeGrowsWithTheSizeOfTheTextOnly) {
  // The worst of each operation on 1 MiB: seconds would mean a search that backtracks.
  const std::string large(1U << 20, 'a');
  Limits limits;
  limits.max_steps = 1'000'000;
  const Value context =
      Value::dict({{Value::trusted("u"), Value::user(large)},
                   {Value::trusted("half"), Value::user(large.substr(1U << 19) + "b")}});
  const std::clock_t start = std::clock();  // processor time: the machine may be busy
  for (const std::string source :
       {"{{ half in u }}", "{{ u.find(half) }}", "{{ u.rfind(half) }}",
        "{{ u | replace(half, 'x') }}", "{{ u.split(half) | length }}",
        "{{ u.rsplit(half) | length }}", "{{ u.count(half) }}", "{{ u | trim }}",
        "{{ u | tojson }}", "{{ u | upper | length }}", "{{ u.strip(half) }}",
        "{% for c in u %}{% endfor %}", "{% for i in range(99999) %}{{ u[i] }}{% endfor %}",
        "{% for i in range(99999) %}{{ u | length }}{% endfor %}", "{{ u.split('a') | length }}",
        "{{ u | list | unique | list | length }}"}) {
    outcome(source, context, limits);
  }
  EXPECT_LT((std::clock() - start) / CLOCKS_PER_SEC, 20);
}

// Broken variants of real templates end in text or in an error of ours.
TEST(SandboxR16, MutatedTemplatesGiveTextOrATypedError) {
  const boost::json::value fixture = read_fixture("chat.json");
  std::vector<std::string> sources;
  for (const auto& entry : fixture.at("templates").as_array()) {
    sources.push_back(string_of(entry.at("template")));
  }
  const Value context =
      Value::dict({{Value::trusted("messages"),
                    Value::list({Value::dict({{Value::trusted("role"), Value::trusted("user")},
                                              {Value::trusted("content"), Value::user("hi")}})})}});
  constexpr std::string_view pieces[] = {"{{",  "}}",  "{%", "%}", "{#", "-%}", "|",
                                         "(",   ")",   "[",  "'",  "\"", ".",   "if",
                                         "for", "set", "\n", "\\", "1",  "-"};
  Limits limits;
  limits.max_steps = 100'000;
  std::mt19937_64 random(7);
  int rendered = 0;
  for (int round = 0; round < 6'000; ++round) {
    std::string source = sources[random() % sources.size()];
    for (std::size_t changes = 1 + random() % 3; changes > 0; --changes) {
      const std::size_t at = random() % source.size();
      switch (random() % 4) {
        case 0:
          source.erase(at, 1 + random() % 5);
          break;
        case 1:
          source.insert(at, pieces[random() % std::size(pieces)]);
          break;
        case 2:
          source[at] = static_cast<char>(random());
          break;
        default:
          source.resize(at + 1);
      }
    }
    rendered += outcome(source, context, limits) == "rendered" ? 1 : 0;
  }
  EXPECT_GT(rendered, 300);
  EXPECT_LT(rendered, 5'700);
}

}  // namespace
}  // namespace baton::tokenizer::jinja
