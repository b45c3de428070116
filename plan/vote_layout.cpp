#include "plan/vote_layout.hpp"

namespace troupe::plan {

uint64_t blocks_of(const job_layout& l, uint32_t parameter) {
  if (!l.trains(parameter) || l.is_copy(parameter)) return 0;
  return blocks_each(l, parameter) * (l.is_cut(parameter) ? l.options.mesh.tensor_ranks() : 1);
}

uint64_t measured_elements(const job_layout& l) {
  for (uint32_t q = 0; q < l.table->parameters.size() && l.num_blocks > 0; ++q)
    if (l.need_of(q) == update_need::parameter_norms) return 2 * l.num_blocks;
  return 0;
}

}  // namespace troupe::plan
