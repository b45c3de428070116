#include "plan/schedule/serial.hpp"

namespace troupe::plan {

schedule serial_schedule(const core::model_table& table, const plan_options& options) {
  schedule out;
  if (options.mode == mode::save) return out;
  const auto units = static_cast<uint32_t>(table.units.size());
  for (uint32_t m = 0; m < options.accumulation; ++m) {
    for (uint32_t u = 0; u < units; ++u) out.push_back({u, m, use::forward});
    if (options.mode != mode::train) continue;
    for (uint32_t u = units; u-- > 0;) out.push_back({u, m, use::backward});
  }
  return out;
}

}  // namespace troupe::plan
