#include "models/segment/operations.hpp"

#include <array>
#include <atomic>

#include "models/segment/products.hpp"
#include "models/segment/torch_device.hpp"
#include "models/table/row_tiles.hpp"

namespace troupe::models {
namespace {

std::array<std::atomic<const operations*>, device::device_kinds>& tables() {
  static const operations on_cpu{.memory = &kernels::operations_of({device::device_kind::cpu}),
                                 .product_out = &product_on_cpu,
                                 .add_product = &add_product_on_cpu,
                                 .panel_rows = static_cast<int64_t>(panel_rows)};
  static std::array<std::atomic<const operations*>, device::device_kinds> all{&on_cpu, nullptr};
  return all;
}

}  // namespace

const operations& operations_for(const at::Tensor& t) {
  const device::device_id device = device_of(t.device());
  const operations* const found = tables()[static_cast<size_t>(device.kind)];
  TORCH_CHECK(found != nullptr, "no library of this program provides products on ", t.device());
  return *found;
}

void provide(device::device_kind kind, const operations& table) { tables()[static_cast<size_t>(kind)] = &table; }

}  // namespace troupe::models
