#include "baton/tokenizer/jinja/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "baton/tokenizer/jinja/template.h"
#include "baton/tokenizer/jinja/value.h"

namespace baton::tokenizer::jinja {
namespace {

using testing::ElementsAre;

// u(0)ser parts in brackets: "a[b]c".
std::string marked(const Text& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool user = text.origin_at(i) == Origin::user;
    const bool before = i > 0 && text.origin_at(i - 1) == Origin::user;
    if (user && !before) out += '[';
    if (!user && before) out += ']';
    out += text.bytes()[i];
  }
  if (!text.empty() && text.origin_at(text.size() - 1) == Origin::user) out += ']';
  return out;
}

TEST(Text, AppendingKeepsOriginsAndMergesRanges) {
  Text text("a");
  text.append("b", Origin::user);
  text.append("c", Origin::user);
  text.append("d");
  text.append("", Origin::user);
  text.append(text.slice(1, 4));
  EXPECT_EQ(marked(text), "a[bc]d[bc]d");
  EXPECT_THAT(text.user_ranges(), ElementsAre(ByteRange{1, 3}, ByteRange{4, 6}));
}

TEST(Text, SlicesCutRanges) {
  Text text("ab");
  text.append("cdef", Origin::user);
  text.append("gh");
  EXPECT_EQ(marked(text.slice(1, 4)), "b[cd]");
  EXPECT_EQ(marked(text.slice(3, 7)), "[def]g");
  EXPECT_EQ(marked(text.slice(6, 8)), "gh");
  EXPECT_EQ(marked(text.slice(4, 4)), "");
}

std::string render_marked(const std::string& source) {
  const Value context = Value::dict({{Value::trusted("u"), Value::user("x y,z")},
                                     {Value::trusted("p"), Value::user("  pad ")},
                                     {Value::trusted("q"), Value::user("q\"\n")},
                                     {Value::trusted("t"), Value::trusted("T")}});
  const Result<Text> text = Template::parse(source).value().render(context);
  return text.has_value() ? marked(*text) : text.error().message();
}

TEST(Text, StringOperationsKeepTheOriginOfWhatSurvives) {
  EXPECT_EQ(render_marked("<{{ u }}>"), "<[x y,z]>");
  EXPECT_EQ(render_marked("{{ t + u + t }}"), "T[x y,z]T");
  EXPECT_EQ(render_marked("{{ t ~ u ~ 1 }}"), "T[x y,z]1");
  EXPECT_EQ(render_marked("{{ ('<' + p + '>') | trim }}|{{ p | trim }}|{{ (t ~ p).strip() }}"),
            "<[  pad ]>|[pad]|T[  pad]");
  EXPECT_EQ(render_marked("{{ u.split(',')[1] ~ t }}"), "[z]T");
  EXPECT_EQ(render_marked("{{ (t ~ u).upper() }}{{ (t ~ u) | lower }}"), "T[X Y,Z]t[x y,z]");
  EXPECT_EQ(render_marked("{{ (t ~ u)[::-1] }}{{ (t ~ u)[0:2] }}{{ u[0] }}"), "[z,y x]TT[xx]");
  EXPECT_EQ(render_marked("{{ [t, u] | join('-') }}"), "T-[x y,z]");
  EXPECT_EQ(render_marked("{{ t * 2 ~ u[:1] * 2 }}"), "TT[xx]");
}

TEST(Text, ReplacingTakesTheOriginOfTheNewText) {
  EXPECT_EQ(render_marked("{{ u | replace('y', '<s>') }}"), "[x ]<s>[,z]");
  EXPECT_EQ(render_marked("{{ 'a%b' | replace('%', u) }}"), "a[x y,z]b");
  EXPECT_EQ(render_marked("{{ (t ~ u) | indent(2, true) }}"), "  T[x y,z]");
}

TEST(Text, JsonAndReprKeepOriginsInsideQuotes) {
  EXPECT_EQ(render_marked("{{ q | tojson }}"), "\"[q\\\"\\n]\"");
  EXPECT_EQ(render_marked("{{ {u: [t, q]} | tojson }}"), "{\"[x y,z]\": [\"T\", \"[q\\\"\\n]\"]}");
  EXPECT_EQ(render_marked("{{ [u, t] }}"), "['[x y,z]', 'T']");
}

TEST(Text, OriginsGoThroughVariablesMacrosBlocksAndLoops) {
  EXPECT_EQ(render_marked("{% macro m(a) %}<{{ a }}>{% endmacro %}{% set x = m(u) %}{{ x }}"),
            "<[x y,z]>");
  EXPECT_EQ(render_marked("{% set b %}({{ u }}){% endset %}{{ b | upper }}"), "([X Y,Z])");
  EXPECT_EQ(
      render_marked("{% set ns = namespace(s='') %}{% for c in u %}{% set ns.s = c ~ t ~ ns.s "
                    "%}{% endfor %}{{ ns.s }}"),
      "[z]T[,]T[y]T[ ]T[x]T");
  EXPECT_EQ(render_marked("{% filter upper %}a{{ u }}{% endfilter %}"), "A[X Y,Z]");
  EXPECT_EQ(render_marked("{% for k, v in {u: t}.items() %}{{ k }}{{ v }}{% endfor %}"),
            "[x y,z]T");
}

}  // namespace
}  // namespace baton::tokenizer::jinja
