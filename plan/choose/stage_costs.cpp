#include "plan/choose/stage_costs.hpp"

#include <algorithm>

#include "core/math.hpp"
#include "plan/keeping.hpp"
#include "plan/layout/activation_extents.hpp"
#include "plan/layout/matrices.hpp"
#include "plan/layout/update_memory.hpp"

namespace troupe::plan {
namespace {

class modeller {
 public:
  modeller(const core::model_table& table, const plan_options& o, const cost_model& costs)
      : table_(table), o_(o), costs_(costs) {}

  [[nodiscard]] modelled_unit model(uint32_t which) const {
    const core::unit_info& unit = table_.units[which];
    const bool again = o_.recomputes(which), goes_back = which >= table_.first_trained_unit();
    modelled_unit out;
    uint64_t saved = 0;
    for (uint32_t k = 0; k < unit.segments.size(); ++k) {
      const core::segment_info& s = unit.segments[k];
      const segment_keeping keeps = keeping_of(table_, o_, which, k);
      saved += keeps.bytes;
      out.micro.forward_s += seconds(s.training_flops(), s.saved_bytes);
      if (!goes_back) continue;
      out.micro.backward_input_s += seconds(keeps.backward_flops - s.weight_part_flops(), s.saved_bytes) +
                                    (again ? seconds(keeps.recompute_flops, s.saved_bytes) : 0);
      out.micro.backward_weight_s += seconds(s.weight_part_flops(), gradient_bytes(s));
      out.micro.weight_part_bytes += s.weight_bytes;
    }
    out.micro.activation_bytes = again && goes_back ? recomputed_from_bytes(unit, o_) : saved;
    for (const uint32_t q : unit.parameters) add_states(q, out);
    return out;
  }

 private:
  [[nodiscard]] double seconds(double flops, uint64_t bytes) const {
    return flops / costs_.flops_per_s + static_cast<double>(bytes) / costs_.copy_bytes_per_s;
  }
  [[nodiscard]] uint64_t gradient_bytes(const core::segment_info& s) const {
    uint64_t n = 0;
    for (const uint32_t q : s.parameters)
      if (table_.parameters[q].trainable) n += table_.parameters[q].numel();
    return n * core::size_of(o_.bucket_type());
  }
  void add_states(uint32_t q, modelled_unit& out) const {
    const uint64_t all = table_.parameters[q].numel(), own = core::div_up(all, o_.shards());
    const uint64_t updated = o_.updates_all() ? all : own, master = core::size_of(o_.master());
    const bool stays = o_.tiers.optimizer != tier::nvme;
    if (o_.tiers.parameters != tier::nvme)
      out.state_bytes += (o_.stage == 3 ? own : all) * core::size_of(o_.types.parameter);
    if (!table_.parameters[q].trainable) return;
    const uint64_t states =
        updated * master * (o_.update_of(q).moments + (o_.master_is_parameter() ? uint64_t{0} : uint64_t{1}));
    const uint64_t gradient = (o_.reduces_in_place() ? all : updated) * core::size_of(o_.types.accumulation);
    out.state_bytes += (stays ? states : 0) + (o_.tiers.swap_gradients ? 0 : gradient);
    const optimizer_bytes touched = optimizer_bytes_of(o_, o_.update_of(q));
    out.update_s += seconds(0, updated * (touched.prepared + touched.updated));
    if (o_.update_of(q).need != update_need::whole_matrix) return;
    // The ranks that hold a matrix, or shares of it, divide the orthogonalisation of all matrices among themselves.
    const double ranks = double(o_.shards()) * o_.mesh.degree(core::axis::tensor);
    out.update_s += seconds(orthogonalise_flops(whole_shape(table_, o_, q)) / ranks, 0);
  }

  const core::model_table& table_;
  const plan_options& o_;
  const cost_model& costs_;
};

}  // namespace

std::vector<modelled_unit> model_units(const core::model_table& table, const plan_options& options,
                                       const cost_model& costs) {
  const modeller of(table, options, costs);
  std::vector<modelled_unit> out;
  for (uint32_t u = 0; u < table.units.size(); ++u) out.push_back(of.model(u));
  return out;
}

void add_costs(const modelled_unit& more, modelled_unit& to) {
  to.micro.forward_s += more.micro.forward_s;
  to.state_bytes += more.state_bytes;
}

std::vector<unit_cost> costs_for_cut(const std::vector<modelled_unit>& units, uint32_t micro_batches) {
  std::vector<unit_cost> out;
  for (const auto& u : units) {
    const double micro_s = u.micro.forward_s + u.micro.backward_input_s + u.micro.backward_weight_s;
    out.push_back({micro_s + u.update_s / micro_batches, u.state_bytes, u.micro.activation_bytes});
  }
  return out;
}

pipeline_costs costs_of_stages(const core::model_table& table, const std::vector<modelled_unit>& units,
                               const stage_offsets& cut, const cost_model& costs) {
  pipeline_costs out;
  for (size_t s = 0; s + 1 < cut.size(); ++s) {
    stage_cost& stage = out.stages.emplace_back();
    for (uint32_t u = cut[s]; u < cut[s + 1]; ++u) {
      const stage_cost& one = units[u].micro;
      stage.forward_s += one.forward_s;
      stage.backward_input_s += one.backward_input_s;
      stage.backward_weight_s += one.backward_weight_s;
      stage.activation_bytes += one.activation_bytes;
      stage.weight_part_bytes += one.weight_part_bytes;
    }
    if (s == 0) continue;
    const uint64_t of_teacher = table.teacher_units > 0 ? table.teacher_bytes : 0;
    const auto bytes = static_cast<double>(table.units[table.teacher_units + cut[s]].input_bytes + of_teacher);
    out.transfer_s = std::max(out.transfer_s, costs.latency_s + bytes / costs.copy_bytes_per_s);
  }
  return out;
}

}  // namespace troupe::plan
