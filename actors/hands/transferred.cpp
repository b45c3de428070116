#include "actors/hands/transferred.hpp"

#include <ATen/ops/from_blob.h>
#include <c10/util/strides.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "models/layers/torch_device.hpp"
#include "plan/job_layout.hpp"

namespace troupe::actors {
namespace {

struct header {
  uint32_t mark = 0, type = 0, dimensions = 0, is_there = 0;
  std::array<int64_t, transferred_dimensions_max> sizes = {}, strides = {};
};
static_assert(sizeof(header) == plan::transfer_header_bytes);
constexpr uint32_t header_mark = 0x54524f55;

std::span<std::byte> place_of_header(std::span<std::byte> slot) { return slot.last(sizeof(header)); }

at::Tensor over(std::span<std::byte> slot, const header& h) {
  return at::from_blob(slot.data(), at::IntArrayRef(h.sizes.data(), h.dimensions),
                       at::IntArrayRef(h.strides.data(), h.dimensions),
                       at::TensorOptions().dtype(static_cast<at::ScalarType>(h.type)));
}

header header_of(const at::Tensor& t) {
  header h{header_mark, static_cast<uint32_t>(t.scalar_type()), static_cast<uint32_t>(t.dim()), 1};
  const auto strides =
      t.is_non_overlapping_and_dense() ? c10::DimVector(t.strides()) : c10::contiguous_strides(t.sizes());
  std::ranges::copy(t.sizes(), h.sizes.begin());
  std::ranges::copy(strides, h.strides.begin());
  return h;
}

}  // namespace

core::result<void> put_transferred(const at::Tensor& t, std::span<std::byte> slot, const std::string& from) {
  const size_t room = slot.size() - sizeof(header);
  header h{header_mark};
  if (t.defined()) {
    if (t.nbytes() > room || t.dim() > static_cast<int64_t>(transferred_dimensions_max))
      return core::fail(core::error_kind::bad_input,
                        fmt::format("the output of {}: wanted at most {} bytes in {} dimensions, as in the first "
                                    "micro-batch, got {} in {}",
                                    from, room, transferred_dimensions_max, t.nbytes(), t.dim()));
    h = header_of(t);
    over(slot, h).copy_(t);
  }
  std::memcpy(place_of_header(slot).data(), &h, sizeof(h));
  return {};
}

core::result<at::Tensor> transferred(std::span<std::byte> slot) {
  header h;
  std::memcpy(&h, place_of_header(slot).data(), sizeof(h));
  if (h.mark != header_mark || h.dimensions > transferred_dimensions_max)
    return core::fail(core::error_kind::bug, "a slot between stages: wanted a tensor in it, got none");
  return h.is_there != 0 ? over(slot, h) : at::Tensor();
}

at::Tensor out_of_slot(const at::Tensor& t, std::span<const std::byte> slot) {
  if (!t.defined() || !t.has_storage()) return t;
  const auto* at = static_cast<const std::byte*>(t.storage().data());
  return !slot.empty() && at >= slot.data() && at < slot.data() + slot.size() ? t.clone() : t;
}

}  // namespace troupe::actors
