#include "compression/compression_scheduler.hpp"

#include <algorithm>
#include <map>
#include <memory>

#include "job/compression/compression.hpp"
#include "job/compression/snip_rule.hpp"
#include "kernels/compress/snip_momentum.hpp"

namespace troupe::compression {

struct compression_scheduler::rules {
  job::chosen_compression chosen;
  // Schedules by which the pruned fraction grows under the method snip_momentum; key: index in chosen.pruned.
  std::map<size_t, kernels::prune_schedule> schedules;
};

namespace {

scheduled_module quantised(const char* technique, const auto& chosen, uint64_t updates, uint32_t bits) {
  return {technique, chosen.module, chosen.group, chosen.from_update, chosen.from_update <= updates, bits, 1};
}

}  // namespace

core::result<compression_scheduler> compression_scheduler::make(const config::job_config& config,
                                                                const core::model_table& table) {
  job::chosen_tensor uncut;
  uncut.whole = std::shared_ptr<const core::model_table>(std::shared_ptr<const void>(), &table);
  TROUPE_ASSIGN(auto chosen, job::choose_compression(config, table, uncut, 1));
  rules out;
  for (size_t i = 0; i < chosen.pruned.size(); ++i) {
    const auto& m = chosen.pruned[i];
    if (m.method != config::pruning_method::snip_momentum) continue;
    const auto& section = config.compression.sparse;
    const auto group = std::ranges::find(section.groups, m.group, &config::pruned_group::name);
    out.schedules.emplace(i, job::snip_rule_of(section, group->dense_ratio, m.matrix)->schedule);
  }
  out.chosen = std::move(chosen);
  return compression_scheduler(std::make_shared<const rules>(std::move(out)));
}

std::vector<uint64_t> compression_scheduler::phases() const { return rules_->chosen.phases(); }

std::vector<scheduled_module> compression_scheduler::state() const {
  const job::chosen_compression& chosen = rules_->chosen;
  const auto& schedules = rules_->schedules;
  std::vector<scheduled_module> out;
  for (const auto& m : chosen.modules) {
    const bool moves = m.bits && m.from_update <= training_steps_;
    const auto now = moves ? m.after(training_steps_, 0, 0).grid->bits : m.recipe.grid.bits;
    out.push_back(quantised("weight_quantization", m, training_steps_, now));
  }
  const size_t weights = out.size();
  for (size_t i = 0; i < chosen.pruned.size(); ++i) {
    const auto& m = chosen.pruned[i];
    scheduled_module row{std::string(job::name_of(m.part)), m.module, m.group, m.from_update};
    row.enabled = m.from_update <= training_steps_;
    if (const auto at = schedules.find(i); at != schedules.end())
      row.dense_ratio = 1 - at->second.sparsity_at(training_steps_);
    else if (row.enabled)
      row.dense_ratio = static_cast<double>(m.kept) / static_cast<double>(m.scores());
    out.push_back(std::move(row));
  }
  constexpr std::string_view order[] = {"sparse_pruning", "row_pruning", "head_pruning", "channel_pruning"};
  std::stable_sort(out.begin() + static_cast<std::ptrdiff_t>(weights), out.end(), [&](const auto& a, const auto& b) {
    return std::ranges::find(order, a.technique) < std::ranges::find(order, b.technique);
  });
  for (const auto& l : chosen.layers)
    out.push_back(quantised("activation_quantization", l, training_steps_, l.grid.bits));
  return out;
}

bool compression_scheduler::is_enabled(const std::string& technique) const {
  return std::ranges::any_of(state(), [&](const auto& m) { return m.technique == technique && m.enabled; });
}

}  // namespace troupe::compression
