#include "actors/hands/transferred.hpp"

#include <ATen/ops/from_blob.h>
#include <c10/util/strides.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "core/math.hpp"
#include "core/model_table.hpp"
#include "plan/job_layout.hpp"

namespace troupe::actors {
namespace {

struct header {
  uint32_t mark = 0, tensors = 0, is_there = 0;
  uint16_t type = 0, dimensions = 0;
  std::array<int64_t, transferred_dimensions_max> sizes = {}, strides = {};
  [[nodiscard]] bool is_sound() const { return mark == header_mark && dimensions <= transferred_dimensions_max; }
  static constexpr uint32_t header_mark = 0x54524f55;
};
static_assert(sizeof(header) == plan::transfer_header_bytes);

/// Returns the memory in `slot` for the header of tensor number `i`; headers are stored backwards from the slot's end.
std::span<std::byte> place_of_header(std::span<std::byte> slot, size_t i) {
  return slot.subspan(slot.size() - (i + 1) * plan::transfer_header_bytes, sizeof(header));
}

at::Tensor over(std::byte* at, const header& h) {
  return at::from_blob(at, at::IntArrayRef(h.sizes.data(), h.dimensions),
                       at::IntArrayRef(h.strides.data(), h.dimensions),
                       at::TensorOptions().dtype(static_cast<at::ScalarType>(h.type)));
}

header header_of(const at::Tensor& t) {
  header h{.is_there = 1, .type = static_cast<uint16_t>(t.scalar_type()), .dimensions = static_cast<uint16_t>(t.dim())};
  const auto strides =
      t.is_non_overlapping_and_dense() ? c10::DimVector(t.strides()) : c10::contiguous_strides(t.sizes());
  std::ranges::copy(t.sizes(), h.sizes.begin());
  std::ranges::copy(strides, h.strides.begin());
  return h;
}

}  // namespace

core::result<void> put_transferred(const models::values& all, std::span<std::byte> slot, const std::string& from) {
  const uint64_t room = slot.size() - all.size() * plan::transfer_header_bytes;
  uint64_t end = 0;
  int64_t dimensions = 0;
  for (const at::Tensor& t : all) {
    if (t.defined()) end = core::round_up(end, core::input_alignment) + t.nbytes();
    if (t.defined()) dimensions = std::max(dimensions, t.dim());
  }
  if (slot.size() < all.size() * plan::transfer_header_bytes || end > room ||
      dimensions > static_cast<int64_t>(transferred_dimensions_max))
    return core::fail(core::error_kind::bad_input,
                      fmt::format("the output of {}: wanted at most {} bytes in {} dimensions, as in the first "
                                  "micro-batch, got {} in {}",
                                  from, room, transferred_dimensions_max, end, dimensions));
  end = 0;
  for (size_t i = 0; i < std::max<size_t>(all.size(), 1); ++i) {
    header h;
    if (i < all.size() && all[i].defined()) {
      const at::Tensor& t = all[i];
      h = header_of(t);
      end = core::round_up(end, core::input_alignment);
      over(slot.data() + end, h).copy_(t);
      end += t.nbytes();
    }
    h.mark = header::header_mark;
    h.tensors = static_cast<uint32_t>(all.size());
    std::memcpy(place_of_header(slot, i).data(), &h, sizeof(h));
  }
  return {};
}

core::result<void> put_rows(const at::Tensor& t, int64_t first, int64_t count, std::span<std::byte> slot,
                            const std::string& from) {
  if (t.nbytes() + plan::transfer_header_bytes > slot.size() || !t.is_contiguous() ||
      t.dim() > static_cast<int64_t>(transferred_dimensions_max))
    return core::fail(core::error_kind::bug,
                      fmt::format("rows of the output of {}: wanted at most {} bytes side by side, got {}", from,
                                  slot.size() - plan::transfer_header_bytes, t.nbytes()));
  header h = header_of(t);
  if (first == 0) {
    h.mark = header::header_mark;
    h.tensors = 1;
    std::memcpy(place_of_header(slot, 0).data(), &h, sizeof(h));
  }
  const at::Tensor rows = t.view({-1, t.size(-1)});
  const int64_t end = std::min(rows.size(0), first + count);
  if (first < end)
    over(slot.data(), h).view({-1, t.size(-1)}).narrow(0, first, end - first).copy_(rows.narrow(0, first, end - first));
  return {};
}

core::result<void> put_parts(const at::Tensor& t, const slot_parts& parts, std::span<std::byte> slot,
                             const std::string& from) {
  const at::Tensor all = parts.own ? t.unsqueeze(0) : t;  // [part]: the parts of a gathered tensor that this rank sends
  const uint64_t bytes = all.numel() == 0 ? 0 : all.select(0, 0).nbytes();
  if (bytes > parts.bytes || parts.bytes % t.itemsize() != 0 ||
      static_cast<size_t>(all.dim()) > transferred_dimensions_max)
    return core::fail(core::error_kind::bug, fmt::format("a part of the output of {}: wanted at most {} bytes, got {}",
                                                         from, parts.bytes, bytes));
  header h = header_of(all.contiguous());
  h.strides[0] = static_cast<int64_t>(parts.bytes / t.itemsize());
  over(slot.data() + parts.given_at + parts.own.value_or(0) * parts.bytes, h).copy_(all);
  h.sizes[0] = parts.count;
  if (parts.become_one) {
    std::shift_left(h.sizes.begin(), h.sizes.end(), 1);
    std::shift_left(h.strides.begin(), h.strides.end(), 1);
    --h.dimensions;
  }
  h.mark = header::header_mark;
  h.tensors = 1;
  std::memcpy(place_of_header(slot, 0).data(), &h, sizeof(h));
  return {};
}

core::result<models::values> transferred(std::span<std::byte> slot) {
  std::vector<at::Tensor> out;
  uint64_t end = 0;
  for (size_t i = 0, count = 1; i < count; ++i) {
    header h;
    std::memcpy(&h, place_of_header(slot, i).data(), sizeof(h));
    if (!h.is_sound())
      return core::fail(core::error_kind::bug, "a slot between stages: wanted a tensor in it, got none");
    count = h.tensors;
    if (count == 0) break;
    out.emplace_back();
    if (h.is_there == 0) continue;
    end = core::round_up(end, core::input_alignment);
    out.back() = over(slot.data() + end, h);
    end += out.back().nbytes();
  }
  return models::values(std::move(out));
}

models::values out_of(std::span<const std::byte> bytes, const models::values& all) {
  const auto lies_there = [&](const at::Tensor& t) {
    if (!t.defined() || !t.has_storage()) return false;
    const auto* at = static_cast<const std::byte*>(t.storage().data());
    return at >= bytes.data() && at < bytes.data() + bytes.size();
  };
  if (std::ranges::none_of(all, lies_there)) return all;
  std::vector<at::Tensor> out;
  for (const at::Tensor& t : all) out.push_back(lies_there(t) ? t.clone() : t);
  return models::values(std::move(out));
}

}  // namespace troupe::actors
