// Prefix sums and a binary search.
#include "checkpoint/deepspeed_flat.hpp"

namespace troupe::checkpoint {

core::result<void> flat_vector::append(uint32_t file, const torch_tensor& tensor) {
  if (!tensor.is_contiguous()) return core::fail(core::error_kind::bad_input, "a flat group is not contiguous");
  if (!ends_.empty() && tensor.type != type_)
    return core::fail(core::error_kind::bad_input, "the shards of a flat group have different types");
  type_ = tensor.type;
  pieces_.push_back({file, tensor.begin, tensor.numel * core::size_of(type_)});
  ends_.push_back(numel() + tensor.numel);
  return {};
}

void flat_vector::cut(uint64_t from, uint64_t n, std::vector<file_piece>& out) const {
  const uint64_t width = core::size_of(type_);
  auto i = static_cast<size_t>(std::ranges::upper_bound(ends_, from) - ends_.begin());
  for (; n > 0; ++i) {
    const uint64_t begin = i == 0 ? 0 : ends_[i - 1];
    const uint64_t here = std::min(n, ends_[i] - from);
    if (here == 0) continue;
    out.push_back({pieces_[i].file, pieces_[i].begin + (from - begin) * width, here * width});
    from += here;
    n -= here;
  }
}

}  // namespace troupe::checkpoint
