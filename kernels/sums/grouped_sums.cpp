// Sums the rows of each group, one group after another. Plain loops over neighbouring columns, which the compiler turns
// into vector code: every column has a sum of its own, so vectors cannot change the order of additions.
#include "kernels/sums/grouped_sums.hpp"

#include <algorithm>
#include <vector>

#include "kernels/base/with_dtype.hpp"

namespace troupe::kernels {

void grouped_sums(const std::byte* rows, core::dtype type, uint64_t width, const row_groups& groups, std::byte* sums) {
  with_float_dtype(type, [&]<class T>(std::type_identity<T>) {
    using wide = decltype(widen(T{}));
    const auto* from = reinterpret_cast<const T*>(rows);
    auto* to = reinterpret_cast<T*>(sums);
    std::vector<wide> sum(width);
    for (uint64_t group = 0; group < groups.count; ++group, to += width) {
      std::fill(sum.begin(), sum.end(), wide{0});
      for (int64_t i = groups.begin[group]; i < groups.begin[group + 1]; ++i) {
        const T* row = from + static_cast<uint64_t>(groups.order[i]) * width;
        for (uint64_t c = 0; c < width; ++c) sum[c] += widen(row[c]);
      }
      for (uint64_t c = 0; c < width; ++c) to[c] = narrow<T>(sum[c]);
    }
  });
}

}  // namespace troupe::kernels
