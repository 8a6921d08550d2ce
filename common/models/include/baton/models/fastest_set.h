// Which kernel set computes a model fastest.
#pragma once

#include <string_view>

#include "baton/modelfile/model_file.h"

namespace baton::models {

/// kernels::fastest_set() for the type of most of the file's bytes. All that compute a model by
/// default take it, or they would be of two numerics classes.
std::string_view fastest_set(const modelfile::ModelFile& file);

}  // namespace baton::models
