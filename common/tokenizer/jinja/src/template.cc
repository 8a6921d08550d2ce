#include "baton/tokenizer/jinja/template.h"

#include "ast.h"
#include "interpreter.h"
#include "lexer.h"
#include "parser.h"

namespace baton::tokenizer::jinja {
namespace {

constexpr std::size_t longest_source_bytes = 1U << 20;

}  // namespace

struct Template::Parsed {
  Block block;
};

Template::Template(std::unique_ptr<const Parsed> parsed) : parsed_(std::move(parsed)) {}
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;
Template::~Template() = default;

Result<Template> Template::parse(std::string_view source) {
  if (source.size() > longest_source_bytes) return syntax_error(1, "longer than 1 MiB");
  BATON_ASSIGN(Block block, parse_template(source));
  return Template(std::make_unique<const Parsed>(Parsed{std::move(block)}));
}

Result<Text> Template::render(const Value& context, const RenderOptions& options) const {
  Interpreter interpreter(context, options);
  return interpreter.run(parsed_->block);
}

}  // namespace baton::tokenizer::jinja
