#include "formats/distributed/chunks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "core/tensor_view.hpp"
#include "formats/tensors/tensor_shares.hpp"
#include "formats/torch/pieces.hpp"

namespace troupe::formats {
namespace {

using shape_type = std::vector<int64_t>;

uint64_t unsigned_of(int64_t n) { return static_cast<uint64_t>(n); }

/// True if the elements of a box with the sizes `sizes` are consecutive in a row-major tensor of shape `whole`: the
/// box's first sizes are 1, one size may be anything, and all later dimensions are whole.
bool is_stretch(const shape_type& whole, const shape_type& sizes) {
  size_t d = 0;
  while (d < sizes.size() && sizes[d] == 1) ++d;
  for (size_t behind = d + 1; behind < sizes.size(); ++behind)
    if (sizes[behind] != whole[behind]) return false;
  return true;
}

/// Returns the index, in a row-major tensor of shape `whole`, of the element at position `at`.
uint64_t number_of(const shape_type& whole, const shape_type& at) {
  uint64_t out = 0;
  for (size_t d = 0; d < whole.size(); ++d) out = out * unsigned_of(whole[d]) + unsigned_of(at[d]);
  return out;
}

/// The bands into which chunks cut one dimension of a tensor. Key: index of the band's first element along the
/// dimension. Value: the band's width in elements, and the band's position among the bands, counted from 0. bands_of()
/// returns nothing if chunks overlap partly, leave a gap or do not cut the dimension.
using bands = std::map<int64_t, std::pair<int64_t, uint32_t>>;
std::optional<bands> bands_of(const shape_type& whole, const std::vector<placed_chunk>& chunks, size_t d) {
  bands out;
  for (const auto& c : chunks) {
    const auto [at, fresh] = out.try_emplace(c.offsets[d], c.sizes[d], 0);
    if (!fresh && at->second.first != c.sizes[d]) return std::nullopt;
  }
  int64_t reached = 0;
  uint32_t number = 0;
  for (auto& [begin, band] : out) {
    if (begin != reached) return std::nullopt;
    reached += band.first;
    band.second = number++;
  }
  if (reached != whole[d] || out.size() < 2 || out.size() > max_shares) return std::nullopt;
  return out;
}

/// Looks for a dimension along which the tensor can be cut into shares so that the elements of every chunk are
/// consecutive in one share. Sets the cut and the pieces of `t`; returns false if there is no such dimension.
bool lay_in_shares(tensor_entry& t, const std::vector<placed_chunk>& chunks) {
  for (size_t d = t.shape.size(); d-- > 1;) {
    const auto found = bands_of(t.shape, chunks, d);
    if (!found) continue;
    auto share = t.shape;
    const auto is_one = [&](const placed_chunk& c) {
      share[d] = c.sizes[d];
      return is_stretch(share, c.sizes);
    };
    if (!std::ranges::all_of(chunks, is_one)) continue;
    core::tp_widths widths;
    for (const auto& [begin, band] : *found) widths.push_back(unsigned_of(band.first));
    t.cut = {.style = core::tp_style::row, .dimension = static_cast<uint32_t>(d), .parts = {std::move(widths)}};
    for (const auto& c : chunks) {
      share[d] = c.sizes[d];
      auto at = c.offsets;
      at[d] = 0;
      const uint64_t first = number_of(share, at);
      for (auto p : c.pieces) {
        p.first += first;
        p.share = found->at(c.offsets[d]).second;
        t.pieces.push_back(p);
      }
    }
    return true;
  }
  return false;
}

/// Adds the elements of a box to the tensor as one piece for each row of the box.
core::result<void> lay_in_rows(tensor_entry& t, const placed_chunk& c) {
  const uint64_t width = core::size_of(t.type);
  size_t outer = c.sizes.size();
  uint64_t run = 1;
  while (outer > 0) {
    run *= unsigned_of(c.sizes[--outer]);
    if (c.sizes[outer] != t.shape[outer]) break;
  }
  shape_type index(outer, 0), at = c.offsets;
  uint64_t row = 0;
  for (size_t p = 0;;) {
    for (size_t d = 0; d < outer; ++d) at[d] = c.offsets[d] + index[d];
    const uint64_t first = number_of(t.shape, at);
    for (uint64_t done = 0; done < run;) {
      while (c.pieces[p].first + c.pieces[p].count <= row + done) ++p;
      const auto& from = c.pieces[p];
      const uint64_t inside = row + done - from.first, n = std::min(run - done, from.count - inside);
      if (t.pieces.size() >= max_pieces)
        return core::fail(core::error_kind::limit,
                          fmt::format("its chunks have more than {} contiguous pieces", max_pieces));
      t.pieces.push_back({from.file, first + done, n, from.offset_bytes + inside * width, {}});
      done += n;
    }
    row += run;
    size_t d = outer;
    while (d > 0 && ++index[d - 1] == c.sizes[d - 1]) index[--d] = 0;
    if (d == 0) return {};
  }
}

}  // namespace

core::result<void> lay_chunks(tensor_entry& t, const std::vector<placed_chunk>& chunks) {
  const auto is_one = [&](const placed_chunk& c) { return is_stretch(t.shape, c.sizes); };
  if (std::ranges::all_of(chunks, is_one)) {
    for (const auto& c : chunks)
      for (auto p : c.pieces) {
        p.first += number_of(t.shape, c.offsets);
        t.pieces.push_back(p);
      }
    return {};
  }
  if (lay_in_shares(t, chunks)) return {};
  for (const auto& c : chunks) TROUPE_TRY(lay_in_rows(t, c));
  return {};
}

}  // namespace troupe::formats
