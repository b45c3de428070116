#include "models/segment/operations.hpp"

#include "models/segment/products.hpp"
#include "models/segment/torch_device.hpp"

namespace troupe::models {

const operations& operations_for(const at::Tensor& t) {
  const device::device_id device = device_of(t.device());
  static const operations on_cpu{&kernels::operations_of({device::device_kind::cpu}), &product_on_cpu};
  switch (device.kind) {
    case device::device_kind::cpu:
      return on_cpu;
  }
  return on_cpu;
}

}  // namespace troupe::models
