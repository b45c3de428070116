// Intersects slices, sorts, joins.
#include "checkpoint/source/load_plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

#include "core/tensor_view.hpp"

namespace troupe::checkpoint {
namespace {

using core::error_kind;
using core::fail;

core::result<const tensor_entry*> matching(const tensor_list& m, const wanted_slice& w) {
  const tensor_entry* t = find_tensor(m, w.name, w.kind, w.moment);
  const auto name = shown(w.name, w.kind, w.moment);
  if (t == nullptr)
    return fail(error_kind::mismatch, fmt::format("tensor {} is wanted and not in the checkpoint", name));
  if (t->shape != w.shape || t->type != w.type)
    return fail(error_kind::mismatch, fmt::format("tensor {}: wanted {} {}, found {} {}", name, core::name_of(w.type),
                                                  w.shape, core::name_of(t->type), t->shape));
  const uint64_t elements = core::numel_of(t->shape);
  if (w.first > elements || w.count > elements - w.first)
    return fail(error_kind::mismatch, fmt::format("tensor {}: wanted {} elements from element {} on, it has {}", name,
                                                  w.count, w.first, elements));
  return t;
}

bool by_place(const range_read& a, const range_read& b) {
  return std::tie(a.file, a.offset_bytes, a.destination_bytes) < std::tie(b.file, b.offset_bytes, b.destination_bytes);
}

}  // namespace

core::result<load_plan> plan_load(const tensor_list& m, std::span<const wanted_slice> wanted) {
  load_plan out;
  std::vector<range_read> reads;
  for (const auto& w : wanted) {
    const auto found = matching(m, w);
    if (!found) return fail(found.error());
    if (w.count == 0) continue;
    const tensor_entry& t = **found;
    const uint64_t element_bytes = core::size_of(t.type), end = w.first + w.count;
    auto p = std::partition_point(t.pieces.begin(), t.pieces.end(),
                                  [&](const piece& q) { return q.first + q.count <= w.first; });
    for (; p != t.pieces.end() && p->first < end; ++p) {
      const uint64_t from = std::max(p->first, w.first), to = std::min(p->first + p->count, end);
      const range_read read{p->file, p->offset_bytes + (from - p->first) * element_bytes, (to - from) * element_bytes,
                            w.destination_bytes + (from - w.first) * element_bytes};
      reads.push_back(read);
      if (to - from == p->count) out.checks.push_back({read, p->digest, static_cast<uint32_t>(&t - m.tensors.data())});
      out.bytes += read.bytes;
      out.destination_bytes = std::max(out.destination_bytes, read.destination_bytes + read.bytes);
    }
  }
  std::sort(reads.begin(), reads.end(), by_place);
  std::sort(out.checks.begin(), out.checks.end(),
            [](const piece_check& a, const piece_check& b) { return by_place(a.range, b.range); });
  for (const auto& r : reads) {
    if (!out.reads.empty()) {
      auto& last = out.reads.back();
      if (last.file == r.file && last.offset_bytes + last.bytes == r.offset_bytes &&
          last.destination_bytes + last.bytes == r.destination_bytes) {
        last.bytes += r.bytes;
        continue;
      }
    }
    out.reads.push_back(r);
  }
  return out;
}

}  // namespace troupe::checkpoint
