#include "actors/checkpoint_state.hpp"

#include "checkpoint/load_plan.hpp"
#include "checkpoint/native_read.hpp"
#include "kernels/cast.hpp"

namespace troupe::actors {
namespace {

using checkpoint::tensor_kind;

/// The elements of `parameter` that `rank` holds of the parameter itself: all of them below stage 3.
plan::slice held_slice(const plan::step_plan& p, uint32_t q) {
  return p.gathers() ? p.partition.of(q, p.rank) : plan::slice{0, p.table->parameters[q].numel()};
}

/// `range` as a piece of the rank's states.
plan::owned_piece owned(const plan::step_plan& p, uint32_t q, plan::slice range) {
  return {q, range, p.state_offset[p.rank][q] + range.first - p.state_slice(q, p.rank).first};
}

/// Reads elements of a parameter's tensors, converted to the type wanted.
class tensor_reader {
 public:
  explicit tensor_reader(const checkpoint::checkpoint_folder& from) : from_(from) {}

  core::result<void> read(const core::parameter_info& p, tensor_kind kind, const std::string& moment, plan::slice range,
                          core::dtype type, std::byte* to) {
    const auto* found = checkpoint::find_tensor(from_.content, p.name, kind, moment);
    const core::dtype stored = found == nullptr ? type : found->type;  // one that is missing is refused by the plan
    const checkpoint::wanted_slice wanted{p.name, kind, moment, stored, p.shape, range.first, range.count, 0};
    const auto plan = checkpoint::plan_load(from_.content, std::span(&wanted, 1));
    if (!plan) return core::fail(plan.error().in(from_.folder.string()));
    std::span destination(to, range.count * core::size_of(type));
    if (stored != type) {
      scratch_.resize(range.count * core::size_of(stored));
      destination = scratch_;
    }
    if (auto did = checkpoint::read_pieces(checkpoint::real_files(), from_, *plan, destination); !did)
      return core::fail(did.error());
    if (stored != type) kernels::cast(scratch_.data(), stored, to, type, range.count);
    return {};
  }

 private:
  const checkpoint::checkpoint_folder& from_;
  std::vector<std::byte> scratch_;  // as large as the largest slice that is converted
};

}  // namespace

core::result<void> read_checkpoint(const checkpoint::checkpoint_folder& from, rank_memory& memory,
                                   const optimizer_groups& groups) {
  const auto& p = memory.plan();
  tensor_reader reader(from);
  for (uint32_t q = 0; q < p.table->parameters.size(); ++q) {
    const auto& parameter = p.table->parameters[q];
    // A parameter's weights: its master, or, where the run that wrote it had frozen it, itself.
    const bool was_frozen = checkpoint::find_tensor(from.content, parameter.name, tensor_kind::frozen) != nullptr;
    const auto weights = was_frozen ? tensor_kind::frozen : tensor_kind::master;
    const plan::slice held = held_slice(p, q);
    if (auto ok = reader.read(parameter, weights, {}, held, p.options.parameter, memory.parameter(q, held.first)); !ok)
      return ok;
    const plan::slice states = p.state_slice(q, p.rank);
    if (states.count == 0) continue;
    const auto piece = owned(p, q, states);
    const core::dtype master = p.options.master();
    if (!p.options.master_is_parameter())
      if (auto ok = reader.read(parameter, weights, {}, states, master, memory.master(piece)); !ok) return ok;
    // What was not trained has no moments: they start afresh.
    for (uint32_t k = 0; k < p.options.update_of(q).moments && !was_frozen; ++k)
      if (auto ok = reader.read(parameter, tensor_kind::moment, moment_name(groups, q, k), states, master,
                                memory.moment(piece, k));
          !ok)
        return ok;
  }
  return {};
}

}  // namespace troupe::actors
