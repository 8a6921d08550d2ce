#include "support/models/default_model.h"

#include <cstdlib>
#include <system_error>

#include "baton/weights/content_digest.h"

namespace baton::test {

std::filesystem::path default_model() {
  const char* given = std::getenv("BATON_TEST_MODEL");
  const std::filesystem::path path =
      given != nullptr ? std::filesystem::path(given)
                       : weights::cache_directory() / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf";
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) ? path : std::filesystem::path();
}

}  // namespace baton::test
