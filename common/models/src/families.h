// What distinguishes the families beyond the fields of their files.
#pragma once

#include <string_view>

#include "baton/kernels/kernels.h"

namespace baton::models {

struct Family {
  std::string_view name;  ///< general.architecture
  kernels::Activation activation = kernels::Activation::silu;
  /// The file's q and k rows are permuted so that rope turns neighbouring pairs.
  bool interleaved_rope = false;
  bool qk_norm = false;
  bool post_norms = false;
  bool scaled_embeddings = false;  ///< by sqrt(width)
  float rope_base = 10'000;        ///< when the file has none
  /// Layers with a sliding window have a rope of their own with this base, never scaled; 0: the
  /// same rope as the other layers.
  float local_rope_base = 0;
  /// Without a field for it, every n-th layer is global and the others see the window; 0: all
  /// layers see the window when the file declares one.
  int window_pattern = 0;
  bool window_required = false;
  /// The model with this many layers scales attention by 1 / sqrt(width / heads); 0: none does. The
  /// files do not say it.
  int width_scaled_attention_layers = 0;
};

/// nullptr for a family that Baton does not know.
const Family* find_family(std::string_view architecture);

}  // namespace baton::models
