#include "models/segment/columns.hpp"

#include <ATen/ops/cat.h>

#include <vector>

namespace troupe::models {

at::Tensor columns_of(const at::Tensor& all, int64_t dimension, const core::column_set& own, int64_t shift) {
  std::vector<at::Tensor> out;
  for (const core::column_run& run : own.runs) out.push_back(all.narrow(dimension, run.first + shift, run.count));
  return out.size() == 1 ? out.front() : at::cat(out, dimension);
}

}  // namespace troupe::models
