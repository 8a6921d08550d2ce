// Chat templates: the part of Jinja2 that model files use, as transformers configures it
// (ImmutableSandboxedEnvironment, trim_blocks, lstrip_blocks, loop controls, {% generation %}).
// Sandboxed (R16): a template sees the values it is given, the documented filters, tests, methods
// and functions, and nothing else; steps, output, recursion and sizes are bounded. Time is bounded
// in steps: one for each node evaluated plus one for each 16 bytes handled. Non-goals: template
// inheritance, includes, imports, recursive loops, * arguments, autoescaping.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "baton/base/result.h"
#include "baton/tokenizer/jinja/text.h"
#include "baton/tokenizer/jinja/value.h"

namespace baton::tokenizer::jinja {

struct Limits {
  std::uint64_t max_steps = 10'000'000;      ///< under a second
  std::size_t max_output_bytes = 16U << 20;  ///< of the result and of every text on the way
  std::size_t max_depth = 400;               ///< nested evaluations, macro calls among them
  std::size_t max_value_depth = 64;          ///< nesting of lists and dicts
};

/// Day and time of a render as the caller wants it to appear in strftime_now().
struct CivilTime {
  int year = 1970;
  int month = 1;  ///< 1 to 12
  int day = 1;
  int hour = 0;
  int minute = 0;
  int second = 0;
};

struct RenderOptions {
  Limits limits;
  /// Without it strftime_now() is undefined, as in older versions of transformers.
  std::optional<CivilTime> now;
};

/// A parsed template. Immutable: may be rendered by many threads at once.
class Template {
 public:
  /// Errors: bad_model_file, with the line. The source is at most 1 MiB.
  static Result<Template> parse(std::string_view source);

  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;
  ~Template();

  /// `context` is a dict of the variables. Errors are invalid_request: what raise_exception() said,
  /// a wrong type, an undefined value used, a limit. User text is never part of the message (R24).
  Result<Text> render(const Value& context, const RenderOptions& options = {}) const;

 private:
  struct Parsed;
  explicit Template(std::unique_ptr<const Parsed> parsed);

  std::unique_ptr<const Parsed> parsed_;
};

}  // namespace baton::tokenizer::jinja
