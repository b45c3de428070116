// Implements flat_vector with prefix sums and a binary search.
#include "formats/deepspeed/flat.hpp"

#include <algorithm>
#include <limits>

#include "formats/torch/pieces.hpp"

namespace troupe::formats {
namespace {

constexpr uint32_t nowhere = std::numeric_limits<uint32_t>::max();  ///< file number of elements that no file stores

}  // namespace

core::result<void> flat_vector::append(uint32_t file, const torch_tensor& tensor) {
  if (!tensor.is_contiguous()) return core::fail(core::error_kind::bad_input, "a flat group is not contiguous");
  if (type_known_ && tensor.type != type_)
    return core::fail(core::error_kind::bad_input, "the shards of a flat group have different types");
  append(tensor.type, {piece{file, 0, tensor.numel, tensor.begin, {}}});
  return {};
}

void flat_vector::append(core::dtype type, const std::vector<piece>& pieces) {
  type_ = type;
  type_known_ = true;
  for (const auto& p : pieces) {
    pieces_.push_back(p);
    ends_.push_back(numel() + p.count);
  }
}

void flat_vector::skip_to(uint64_t numel) {
  if (numel <= this->numel()) return;
  pieces_.push_back({nowhere, 0, numel - this->numel(), 0, {}});
  ends_.push_back(numel);
}

bool flat_vector::is_skipped(uint64_t from, uint64_t n) const {
  if (n > numel() || from > numel() - n) return true;
  for (auto i = static_cast<size_t>(std::ranges::upper_bound(ends_, from) - ends_.begin());
       i < ends_.size() && ends_[i] - pieces_[i].count < from + n; ++i)
    if (pieces_[i].file == nowhere && pieces_[i].count > 0) return true;
  return false;
}

void flat_vector::cut(uint64_t from, uint64_t n, std::vector<piece>& out) const {
  const uint64_t width = core::size_of(type_);
  auto i = static_cast<size_t>(std::ranges::upper_bound(ends_, from) - ends_.begin());
  for (; n > 0; ++i) {
    const uint64_t begin = i == 0 ? 0 : ends_[i - 1];
    const uint64_t here = std::min(n, ends_[i] - from);
    if (here == 0) continue;
    add_piece(out, {pieces_[i].file, 0, here, pieces_[i].offset_bytes + (from - begin) * width, {}}, width);
    from += here;
    n -= here;
  }
}

}  // namespace troupe::formats
