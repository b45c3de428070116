// Chooses at random which weights a plan compresses, for tests of plans and of the code that runs them.
#pragma once

#include <algorithm>
#include <random>

#include "core/model_table.hpp"
#include "plan/options.hpp"

namespace troupe::plan {

/// Adds to `o` compressed uses of random parameters in random units, in ascending order. Tensor ranks exchange the
/// value ranges of groups of some of them, once or twice; the masks of some have learned scores. Also chooses the
/// layers whose input ranges are all-gathered together with the gradient square sums.
inline void compress_some(const core::model_table& table, std::mt19937_64& random, plan_options& o) {
  for (uint32_t u = 0; u < table.units.size(); ++u) {
    if (random() % 3 == 0) continue;
    auto reads = table.units[u].parameters;
    std::ranges::sort(reads);
    reads.erase(std::ranges::unique(reads).begin(), reads.end());
    for (const uint32_t q : reads) {
      if (random() % 2 == 0) continue;
      const bool tells = o.mesh.degree(core::axis::tensor) > 1 && random() % 2 == 0;
      const uint64_t ranges = tells ? 1 + random() % 9 : 0;
      o.compressed.weights.push_back(
          {u, q, random() % 2 * 100, 0, ranges, tells && random() % 2 == 0, random() % 4 == 0});
    }
  }
  for (uint32_t layer = 0; layer < table.layers.size(); ++layer)
    if (random() % 3 == 0) o.compressed.calibrated.push_back(layer);
}

}  // namespace troupe::plan
