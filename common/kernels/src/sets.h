// How the sets of this folder are made; callers use make_kernels().
#pragma once

#include <memory>

#include "baton/kernels/kernels.h"

namespace baton::kernels {

std::unique_ptr<Kernels> make_ref(ThreadPool& pool);

/// XXH3-128 over the bits of every operation of `kernels` on fixed inputs.
Digest128 run_probe(Kernels& kernels);

}  // namespace baton::kernels
