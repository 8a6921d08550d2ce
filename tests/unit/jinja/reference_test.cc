// Comparison with the reference: transformers' Jinja environment over templates of many families,
// over one small template for each feature of the language, and over random expressions and
// layouts.
#include <boost/json/object.hpp>
#include <gtest/gtest.h>

#include "baton/tokenizer/jinja/json_value.h"
#include "baton/tokenizer/jinja/template.h"

#include "json_fixture.h"

namespace baton::tokenizer::jinja {
namespace {

RenderOptions fixture_options() {
  RenderOptions options;
  options.now = fixture_time;
  return options;
}

// Parse and render, as one result.
Result<Text> rendered(const std::string& source, const Value& context) {
  BATON_ASSIGN(const Template parsed, Template::parse(source));
  return parsed.render(context, fixture_options());
}

void expect_as_reference(const Result<Text>& ours, const boost::json::object& expected,
                         const std::string& what) {
  if (const boost::json::value* text = expected.if_contains("text")) {
    ASSERT_TRUE(ours.has_value()) << what << "\n" << ours.error().message();
    EXPECT_EQ(ours->bytes(), string_of(*text)) << what;
  } else {
    EXPECT_TRUE(ours.has_error()) << what << "\nreference: " << expected.at("error")
                                  << "\nours: " << ours->bytes();
  }
}

boost::json::object merged(boost::json::object base, const boost::json::object& more) {
  for (const auto& entry : more) base[entry.key()] = entry.value();
  return base;
}

TEST(Reference, ChatTemplatesRenderAsInTransformers) {
  const boost::json::value fixture = read_fixture("chat.json");
  std::size_t cases = 0;
  for (const auto& entry : fixture.at("templates").as_array()) {
    const Result<Template> parsed = Template::parse(string_of(entry.at("template")));
    ASSERT_TRUE(parsed.has_value()) << entry.at("name") << parsed.error().message();
    for (const auto& expected : entry.at("cases").as_array()) {
      const std::string conversation = string_of(expected.at("conversation"));
      const std::string variables = string_of(expected.at("variables"));
      boost::json::object context = merged(fixture.at("defaults").as_object(),
                                           fixture.at("variables").at(variables).as_object());
      context["messages"] = fixture.at("conversations").at(conversation);
      const Result<Text> ours =
          parsed->render(value_from_json(context, Origin::trusted), fixture_options());
      expect_as_reference(ours, expected.as_object(),
                          string_of(entry.at("name")) + "/" + conversation + "/" + variables);
      ++cases;
    }
  }
  EXPECT_GE(cases, 1'400U);
}

TEST(Reference, EveryFeatureRendersAsInJinja) {
  const boost::json::value fixture = read_fixture("snippets.json");
  const Value context = value_from_json(fixture.at("context"), Origin::trusted);
  for (const auto& entry : fixture.at("snippets").as_array()) {
    const std::string source = string_of(entry.at("template"));
    expect_as_reference(rendered(source, context), entry.as_object(), source);
  }
  EXPECT_GE(fixture.at("snippets").as_array().size(), 1'300U);
}

// What users wrote is Cyrillic, what templates write is not: each byte's origin can be seen.
TEST(Reference, TheOriginOfEveryByteIsKeptThroughEveryTemplate) {
  const boost::json::value fixture = read_fixture("chat.json");
  const auto is_cyrillic = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x80;
  };
  int rendered_count = 0;
  for (const auto& entry : fixture.at("templates").as_array()) {
    const Template parsed = Template::parse(string_of(entry.at("template"))).value();
    std::vector<Value> messages;
    for (const auto& message : fixture.at("conversations").at("cyrillic").as_array()) {
      messages.push_back(Value::dict(
          {{Value::trusted("role"), Value::trusted(string_of(message.at("role")))},
           {Value::trusted("content"), Value::user(string_of(message.at("content")))}}));
    }
    const Value context =
        Value::dict({{Value::trusted("messages"), Value::list(messages)},
                     {Value::trusted("tools"), Value::none()},
                     {Value::trusted("bos_token"), Value::trusted("<s>")},
                     {Value::trusted("eos_token"), Value::trusted("</s>")},
                     {Value::trusted("add_generation_prompt"), Value::boolean(true)}});
    const Result<Text> text = parsed.render(context, fixture_options());
    if (text.has_error()) continue;  // gemma2 refuses a system message
    ++rendered_count;
    for (std::size_t i = 0; i < text->size(); ++i) {
      const bool is_user = text->origin_at(i) == Origin::user;
      ASSERT_EQ(is_user, is_cyrillic(text->bytes()[i])) << entry.at("name") << " at " << i;
    }
    EXPECT_TRUE(text->has_user_data());
  }
  EXPECT_GE(rendered_count, 15);
}

}  // namespace
}  // namespace baton::tokenizer::jinja
