#include "actors/session/host_model.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include "job/compression/mask_scores.hpp"
#include "models/host/module_table.hpp"

namespace troupe::actors {

core::result<void> copy_weights(const session& from, const models::module_model& into) {
  const core::model_table table = job::without_scores(from.table());
  if (auto ok = models::check_alike(table, into); !ok) return core::fail(ok.error().in("copying weights"));
  const at::NoGradGuard no_grad;
  const auto parameters = models::parameters_of(into, table);
  std::vector<float> values;
  for (uint32_t q = 0; q < parameters.size(); ++q) {
    if (!parameters[q].defined())
      return core::fail(error_kind::bad_input, "copying weights: the unit of '" + table.parameters[q].name +
                                                   "' is not built: call models::build first");
    values.resize(table.parameters[q].numel());
    if (auto ok = from.read_parameter(q, 0, values); !ok) return core::fail(ok.error().in("copying weights"));
    parameters[q].copy_(at::from_blob(values.data(), parameters[q].sizes()));
  }
  return {};
}

}  // namespace troupe::actors
