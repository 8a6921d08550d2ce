#include "baton/tokenizer/jinja/template.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "baton/tokenizer/jinja/value.h"

namespace baton::tokenizer::jinja {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string parse_error(const std::string& source) {
  const Result<Template> parsed = Template::parse(source);
  if (parsed.has_value()) return "parsed";
  EXPECT_EQ(parsed.error().reason(), Reason::bad_model_file);
  return parsed.error().message();
}

std::string render_error(const std::string& source, const Value& context) {
  const Result<Text> text = Template::parse(source).value().render(context);
  if (text.has_value()) return "rendered: " + text->bytes();
  EXPECT_EQ(text.error().reason(), Reason::invalid_request);
  return text.error().message();
}

std::string render_error(const std::string& source) {
  return render_error(source, Value::dict({}));
}

TEST(Template, SyntaxErrorsNameTheLine) {
  EXPECT_EQ(parse_error("a\n\n{{ 1 + }}"),
            "chat template, line 3: expected an expression, found the end of the tag");
  EXPECT_EQ(parse_error("{% if x %}\n{% endfor %}"),
            "chat template, line 2: the tag 'endfor' is not supported here");
  EXPECT_EQ(parse_error("{% for x in y %}\n\n"),
            "chat template, line 2: the template ends before 'endfor'");
  EXPECT_EQ(parse_error("{#\n\n#}{{ 'a\nb' ? }}"), "chat template, line 4: unexpected character");
  EXPECT_EQ(parse_error("\n{{ 'abc }}"), "chat template, line 2: a string is not closed");
  EXPECT_EQ(parse_error("{% include 'x' %}"),
            "chat template, line 1: the tag 'include' is not supported here");
}

TEST(Template, RenderErrorsNameTheLineAndWhatIsUndefined) {
  EXPECT_EQ(render_error("a\n{{ x.y.z }}"), "chat template, line 2: 'x' is undefined");
  EXPECT_EQ(render_error("{% set d = {} %}\n\n{{ d.foo.bar }}"),
            "chat template, line 3: 'foo' of a dict is undefined");
  EXPECT_EQ(render_error("{{ 1 + 'a' }}"),
            "chat template, line 1: '+' does not work between an integer and a string");
  EXPECT_EQ(render_error("{% macro m() %}\n{{ 1 / 0 }}{% endmacro %}\n{{ m() }}"),
            "chat template, line 2: division by zero");
}

TEST(Template, UnsupportedFiltersAreRefusedOnlyWhenReached) {
  EXPECT_EQ(render_error("{% if false %}{{ 1 | urlize }}{% endif %}ok"), "rendered: ok");
  EXPECT_THAT(render_error("{{ 1 | urlize }}"), HasSubstr("the filter 'urlize' is not supported"));
}

TEST(Template, R24RaisedMessagesLeaveOutWhatUsersWrote) {
  const Value context = Value::dict({{Value::trusted("secret"), Value::user("my password")}});
  EXPECT_EQ(render_error("{{ raise_exception('Bad role: ' + secret + '!') }}", context),
            "chat template, line 1: the model's chat template refuses the messages: "
            "Bad role: (...)!");
  EXPECT_THAT(render_error("{{ {}[secret].x }}", context), Not(HasSubstr("password")));
  EXPECT_THAT(render_error("{{ secret + 1 }}", context), Not(HasSubstr("password")));
  EXPECT_THAT(render_error("{{ secret.nothing() }}", context), Not(HasSubstr("password")));
}

TEST(Template, WithoutAClockStrftimeNowIsUndefined) {
  EXPECT_EQ(render_error("{{ strftime_now is defined }}"), "rendered: False");
  EXPECT_THAT(render_error("{{ strftime_now('%Y') }}"), HasSubstr("'strftime_now' is undefined"));
  RenderOptions options;
  options.now = CivilTime{2024, 2, 29, 1, 2, 3};
  const Template parsed = Template::parse("{{ strftime_now('%a %d %b %Y') }}").value();
  EXPECT_EQ(parsed.render(Value::dict({}), options)->bytes(), "Thu 29 Feb 2024");
}

TEST(Template, AContextVariableHidesAFunction) {
  const Value context = Value::dict({{Value::trusted("range"), Value::trusted("mine")}});
  EXPECT_EQ(render_error("{{ range }}", context), "rendered: mine");
}

TEST(Template, InvalidUtf8IsCarriedThroughUnchanged) {
  const Value context = Value::dict({{Value::trusted("s"), Value::user("a\xff\xc3 b\xe2\x82")}});
  EXPECT_EQ(
      render_error("{{ s }}|{{ s | length }}|{{ s[1] }}|{{ s.split() | join('_') }}", context),
      "rendered: a\xff\xc3 b\xe2\x82|7|\xff|a\xff\xc3_b\xe2\x82");
}

}  // namespace
}  // namespace baton::tokenizer::jinja
