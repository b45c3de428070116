#include "formats/tensors/tensor_shares.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/tensor_view.hpp"
#include "core/text.hpp"

namespace troupe::formats {
namespace {

core::result<void> check_cut(const tensor_entry& t) {
  const auto& parts = t.cut.parts;
  if (!parts.empty() && (parts.size() > max_cut_parts || parts[0].empty() || parts[0].size() > max_shares))
    return fail(error_kind::limit,
                fmt::format("tensor {}: it is cut in {} parts over {} ranks, at most {} over 1 to {} are allowed",
                            shown(t), parts.size(), parts[0].size(), max_cut_parts, max_shares));
  return core::check_cut(shown(t.name), t.shape, t.cut, parts.empty() ? 1 : static_cast<uint32_t>(parts[0].size()));
}

uint64_t share_elements(const tensor_entry& t, uint32_t share, uint64_t elements) {
  if (!t.cut.cuts()) return elements;
  uint64_t width = 0;
  for (const auto& part : t.cut.parts) width += part[share];
  const auto whole = static_cast<uint64_t>(t.shape[t.cut.dimension]);
  return whole == 0 ? 0 : elements / whole * width;
}

}  // namespace

core::result<void> check_shares(const tensor_entry& t, uint64_t elements) {
  const auto bad = [&](const std::string& what) {
    return fail(error_kind::bad_input, fmt::format("tensor {}: {}", shown(t), what));
  };
  TROUPE_TRY(check_cut(t));
  const size_t shares = t.cut.cuts() ? t.cut.parts[0].size() : 1;
  size_t at = 0;
  for (uint32_t share = 0; share < shares; ++share) {
    const uint64_t count = share_elements(t, share, elements);
    const std::string of = t.cut.cuts() ? fmt::format(" of share {}", share) : "";
    uint64_t reached = 0;
    for (; at < t.pieces.size() && t.pieces[at].share == share; ++at) {
      const auto& p = t.pieces[at];
      if (p.count == 0) return bad(fmt::format("an empty piece at element {}{}", p.first, of));
      if (p.first < reached)
        return bad(fmt::format("the piece at element {}{} overlaps the one that ends at {}", p.first, of, reached));
      if (p.first > reached)
        return bad(fmt::format("no piece holds its {}{}", core::range_text("element", reached, p.first - reached), of));
      if (p.count > count - reached)
        return bad(
            fmt::format("{} elements from element {} on reach beyond its {} elements{}", p.count, p.first, count, of));
      reached += p.count;
    }
    if (reached != count)
      return bad(fmt::format("no piece holds its {}{}", core::range_text("element", reached, count - reached), of));
  }
  if (at < t.pieces.size())
    return bad(fmt::format("a piece of share {} is out of order, or its share does not exist: there are {}",
                           t.pieces[at].share, shares));
  return {};
}

std::string shown(const tensor_entry& t, const piece& p) {
  return fmt::format("{} of {}tensor {}", core::range_text("element", p.first, p.count),
                     t.cut.cuts() ? fmt::format("share {} of ", p.share) : "", shown(t));
}

tensor_shares::tensor_shares(const tensor_entry& t) : tensor_(t) {
  const size_t shares = t.cut.cuts() ? t.cut.parts[0].size() : 1;
  for (uint32_t s = 0; s < shares; ++s) shares_.emplace_back(t.shape, t.cut, s, core::tp_room::own);
}

std::vector<tensor_shares::part> tensor_shares::parts_of(uint64_t first, uint64_t count) const {
  std::vector<part> out;
  const auto& pieces = tensor_.pieces;
  for (uint32_t s = 0; s < shares_.size(); ++s) {
    const uint64_t from = shares_[s].before(first), to = shares_[s].before(first + count);
    if (from == to) continue;
    auto p = std::partition_point(pieces.begin(), pieces.end(), [&](const piece& q) {
      return q.share < s || (q.share == s && q.first + q.count <= from);
    });
    for (; p != pieces.end() && p->share == s && p->first < to; ++p) {
      const uint64_t begin = std::max(p->first, from);
      out.push_back({&*p, begin, std::min(p->first + p->count, to) - begin});
    }
  }
  return out;
}

tensor_entry without_shares(const tensor_entry& t) {
  if (!t.cut.cuts()) return t;
  tensor_entry out = t;
  out.cut = {};
  out.pieces.clear();
  const tensor_shares shares(t);
  for (const auto& p : t.pieces)
    for (const auto& run : shares.share_of(p).runs(p.first, p.count))
      out.pieces.push_back(
          {p.file, run.whole, run.count, p.offset_bytes + (run.local - p.first) * core::size_of(t.type), {}});
  std::sort(out.pieces.begin(), out.pieces.end(), [](const piece& a, const piece& b) { return a.first < b.first; });
  return out;
}

}  // namespace troupe::formats
