#include "plan/choose/bandwidth.hpp"

namespace troupe::plan {

double transfer_efficiency(double intensity, double bytes_per_s, double peak_flops_per_s) {
  const double fed = intensity * bytes_per_s;
  return fed > 0 ? fed / (fed + peak_flops_per_s) : 0;
}

double bandwidth_for(double efficiency, double intensity, double peak_flops_per_s) {
  return peak_flops_per_s * efficiency / (1 - efficiency) / intensity;
}

arithmetic_intensity intensity_of(const transformer_shape& shape) {
  const auto tokens = static_cast<double>(shape.batch) * static_cast<double>(shape.sequence);
  return {tokens, tokens / 4, 24 * static_cast<double>(shape.width) * static_cast<double>(shape.checkpoint_every)};
}

swap_volume swapped_by_deepspeed(uint64_t total_parameters, uint32_t ranks, uint32_t micro_batches) {
  const uint64_t p = total_parameters;
  return {(uint64_t{micro_batches} * 4 * p + 16 * p) / ranks, (12 * p + 2 * p + 4 * p) / ranks};
}

}  // namespace troupe::plan
