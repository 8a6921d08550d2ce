// Makes a changed copy of a model file, for planting mistakes.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "baton/modelfile/model_file.h"

#include "support/gguf/gguf_writer.h"

namespace baton::test {

struct Changes {
  std::set<std::string> dropped;  ///< fields and tensors to leave out
  std::function<void(GgufWriter&)> add_fields;
  /// Changes an F32 tensor's values in place.
  std::function<void(const std::string& name, std::vector<float>& values)> edit;
};

modelfile::ModelFile rewrite(const modelfile::ModelFile& file, const Changes& changes);

}  // namespace baton::test
