#include "formats/torch/pieces.hpp"

#include <fmt/format.h>

namespace troupe::formats {

void add_piece(std::vector<piece>& out, piece p, uint64_t element_bytes) {
  if (p.count == 0) return;
  if (out.empty()) {
    p.first = 0;
    out.push_back(p);
    return;
  }
  auto& last = out.back();
  if (last.file == p.file && last.offset_bytes + last.count * element_bytes == p.offset_bytes) {
    last.count += p.count;
    return;
  }
  p.first = last.first + last.count;
  out.push_back(p);
}

core::result<void> add_pieces(std::vector<piece>& out, uint32_t file, const torch_tensor& t) {
  if (t.numel == 0) return {};
  const uint64_t width = core::size_of(t.type);
  size_t outer = t.shape.size();  // number of dimensions before the contiguous trailing ones
  int64_t run = 1;
  while (outer > 0 && (t.shape[outer - 1] == 1 || t.strides[outer - 1] == run)) run *= t.shape[--outer];
  std::vector<int64_t> index(outer, 0);
  for (;;) {
    if (out.size() >= max_pieces)
      return core::fail(core::error_kind::limit,
                        fmt::format("a tensor is stored in more than {} pieces of its file", max_pieces));
    uint64_t at = 0;
    for (size_t d = 0; d < outer; ++d) at += static_cast<uint64_t>(index[d] * t.strides[d]);
    add_piece(out, {file, 0, static_cast<uint64_t>(run), t.begin + at * width, {}}, width);
    size_t d = outer;
    while (d > 0 && ++index[d - 1] == t.shape[d - 1]) index[--d] = 0;
    if (d == 0) return {};
  }
}

}  // namespace troupe::formats
