// Which tensors a model must have, and the check of a file against it.
#pragma once

#include <string>
#include <vector>

#include "baton/base/result.h"
#include "baton/modelfile/model_file.h"
#include "baton/weights/model_weights.h"

namespace baton::weights {

struct TensorSpec {
  std::string name;
  int inputs = 0;
  int outputs = 0;  ///< 0: a vector of `inputs` elements
};

/// Every tensor that a model of this shape has. Fails when the family has no name for one.
Result<std::vector<TensorSpec>> plan(const Shape& shape);

/// The tensor is there with its shape and a usable type.
Result<void> check_tensor(const modelfile::ModelFile& file, const TensorSpec& spec);

/// Every planned tensor is there with its shape and a usable type, and nothing else is.
Result<void> check(const modelfile::ModelFile& file, const std::vector<TensorSpec>& specs);

}  // namespace baton::weights
