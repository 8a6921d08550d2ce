// From token ids to the text that a client gets: detokenised, cut at the first stop string, never
// sent twice. Stop strings may span tokens.
#pragma once

#include <string>
#include <vector>

#include "baton/base/ids.h"
#include "baton/tokenizer/detokenizer.h"

namespace baton::router {

/// Finds the first stop string in a text that comes piece by piece. What could still become one is
/// held back. Joined answers equal the text cut before the occurrence that is complete first,
/// however the text was cut into pieces (API-09, API-11).
class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  /// Text that is final now. After a match it gives nothing any more.
  std::string push(std::string_view text);
  /// The end of the text: what was held back.
  std::string flush();
  bool matched() const { return matched_; }
  std::size_t held_bytes() const { return held_.size(); }

 private:
  std::size_t first_match() const;
  std::size_t possible_prefix() const;

  std::vector<std::string> stops_;
  std::string held_;
  bool matched_ = false;
};

class TextStream {
 public:
  TextStream(tokenizer::Tokenizer tokenizer, std::vector<std::string> stops)
      : detokenizer_(std::move(tokenizer)), stops_(std::move(stops)) {}

  std::string push(TokenId id) { return stops_.push(detokenizer_.push(id)); }
  std::string flush() {
    const std::string last = stops_.push(detokenizer_.flush());
    return last + stops_.flush();
  }
  bool stopped() const { return stops_.matched(); }
  /// Every token so far has been answered in full.
  bool at_boundary() const { return detokenizer_.at_boundary() && stops_.held_bytes() == 0; }

 private:
  tokenizer::Detokenizer detokenizer_;
  StopMatcher stops_;
};

}  // namespace baton::router
