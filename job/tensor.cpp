#include "job/tensor.hpp"

#include <string>

namespace troupe::job {
namespace {

constexpr const char* degree_key = "parallel.tensor";

/// What a cut over the tensor axis does not go together with; none: nothing of the configuration.
const char* obstacle(const config::job_config& c) {
  if (c.optimizer.type == core::optimizer_type::muon) return "optimizer.type: Muon";
  return nullptr;
}

}  // namespace

core::result<void> check_beside_tensor(const config::job_config& c) {
  const char* const other = c.parallel.tensor > 1 ? obstacle(c) : nullptr;
  if (other == nullptr) return {};
  return core::fail(core::error_kind::bad_input, std::string(degree_key) + ": wanted 1 beside " + other +
                                                     ", with which it does not go together yet, got " +
                                                     std::to_string(c.parallel.tensor));
}

core::result<models::tensor_split> choose_split(const config::job_config& c, const models::model_spec& spec,
                                                uint64_t columns) {
  models::tensor_split split{.degree = c.parallel.tensor, .norms = c.parallel.sharded_norms};
  if (split.degree == 1) return split;
  if (auto ok = check_beside_tensor(c); !ok) return core::fail(ok.error());
  if (auto ok = models::check_split(spec, split, columns); !ok) return core::fail(ok.error().in(degree_key));
  return split;
}

core::result<models::sequence_split> choose_sequence(const config::job_config& c, const models::model_spec& spec,
                                                     const models::tensor_split& tensor, uint64_t columns) {
  const uint32_t context = c.parallel.context;
  const models::sequence_split out = context > 1 ? models::sequence_split{context, models::sequence_way::keys}
                                                 : models::sequence_split{c.parallel.sequence};
  if (context > 1 && c.parallel.sequence > 1)
    return core::fail(
        core::error_kind::bad_input,
        "parallel.context: wanted 1 beside parallel.sequence, with which it does not go together yet, got " +
            std::to_string(context));
  if (out.degree == 1) return out;
  for (uint32_t block = 0; block < spec.layers; ++block)
    if (auto ok = models::check_sequence(models::local_block(spec, tensor, block), columns, out); !ok)
      return core::fail(ok.error().in(context > 1 ? "parallel.context" : "parallel.sequence"));
  return out;
}

}  // namespace troupe::job
