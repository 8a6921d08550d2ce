// Tokens → syntax tree, by Jinja2's grammar with the loop controls and the generation tag of
// transformers' environment.
#pragma once

#include <string_view>

#include "baton/base/result.h"

#include "ast.h"

namespace baton::tokenizer::jinja {

/// Errors are bad_model_file and name the line.
Result<Block> parse_template(std::string_view source);

}  // namespace baton::tokenizer::jinja
