// Where tests find the default model, which is not in the repository.
#pragma once

#include <filesystem>

namespace baton::test {

/// $BATON_TEST_MODEL, else models/SmolLM2-135M-Instruct.Q4_1.gguf in Baton's cache directory, where
/// deploy/up puts it. Empty when the file is not there.
std::filesystem::path default_model();

/// Why a test that needs it was skipped.
inline constexpr const char* no_default_model =
    "the default model is not in the cache directory and BATON_TEST_MODEL is not set; "
    "./tests/run fetches it";

}  // namespace baton::test
