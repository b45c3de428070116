#include "job/compression/clean.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "job/compression/module_choice.hpp"
#include "job/compression/related_modules.hpp"
#include "kernels/compress/pruning.hpp"

namespace troupe::job {
namespace {

using core::layer_info;

const config::pruning_section& section_of(const config::job_config& c, pruned_part part) {
  switch (part) {
    case pruned_part::rows:
      return c.compression.rows;
    case pruned_part::heads:
      return c.compression.heads;
    case pruned_part::channels:
      return c.compression.channels;
    case pruned_part::elements:
      break;
  }
  return c.compression.sparse;
}

class cleaner {
 public:
  /// `changes`: true if the result will change weights, at the end of a run; a weight that a second layer reads is then
  /// refused. False if only the widths of the cleaned layers are wanted.
  cleaner(const config::job_config& c, const core::model_table& table, uint64_t updates, const mask_lookup& mask,
          widths_said said, bool changes = true)
      : config_(c), table_(table), updates_(updates), mask_(mask), said_(said), changes_(changes) {}

  core::result<std::shared_ptr<const cleaning>> all() {
    chosen_tensor uncut;
    uncut.whole = std::shared_ptr<const core::model_table>(std::shared_ptr<const void>(), &table_);
    TROUPE_ASSIGN(auto chosen, choose_compression(config_, table_, uncut, 1));
    out_->chosen = std::move(chosen);
    out_->used = config_.parameter_dtype();
    for (auto& m : out_->chosen.modules)
      if (m.from_update <= updates_) TROUPE_TRY(quantise(m));
    for (const auto& m : out_->chosen.pruned) {
      if (m.score_parameter) of(*m.score_parameter).drops = true;
      if (m.from_update > updates_) continue;
      TROUPE_TRY(prune(m));
    }
    if (said_ == widths_said::by_config_json) TROUPE_TRY(same_in_all_blocks());
    for (const auto& [name, cut] : cuts_.all()) take(cut);
    for (auto& [q, p] : parameters_) out_->parameters.push_back(std::move(p));
    return out_;
  }

 private:
  cleaned_parameter& of(uint32_t q) {
    const auto [at, is_new] = parameters_.try_emplace(q);
    if (is_new) {
      const auto& p = table_.parameters[q];
      at->second.name = p.name;
      at->second.rows = static_cast<uint64_t>(p.shape[0]);
      at->second.columns = p.numel() / at->second.rows;
    }
    return at->second;
  }
  core::result<void> quantise(compressed_module& m) {
    const auto& w = config_.compression.weights;
    const std::string key = "compression_training.weight_quantization";
    const auto now = m.after(updates_, config_.seed, m.use.parameter);
    if (now.kept > 0)
      return refused(w.where, key,
                     fmt::format("wanted fully quantised weights, got those of {}, of which a share of {:f} is not yet "
                                 "quantised (fp16_mixed_quantize); train for more steps",
                                 m.module, now.kept));
    if (now.grid) m.recipe.grid = *now.grid;
    m.recipe.stochastic = false;  // a permanent weight is rounded to nearest, not stochastically
    const auto is_alike = [&](const layer_info& l) {
      return std::ranges::any_of(out_->chosen.modules, [&](const compressed_module& x) {
        return x.module == l.name && x.group == m.group && x.recipe.groups == m.recipe.groups;
      });
    };
    if (changes_) TROUPE_TRY(check_not_shared(table_, m.module, m.use.parameter, is_alike, w.where, key));
    of(m.use.parameter).recipe = &m.recipe;
    out_->modules.push_back({m.module, fmt::format("weight_quantization, {} bits", m.recipe.grid.bits)});
    return {};
  }

  core::result<void> prune(const pruned_module& m) {
    const auto& section = section_of(config_, m.part);
    const std::string key = "compression_training." + std::string(name_of(m.part));
    const auto is_alike = [&](const layer_info& l) {
      return std::ranges::any_of(out_->chosen.pruned, [&](const pruned_module& x) {
        return x.module == l.name && x.part == m.part && x.group == m.group;
      });
    };
    if (changes_) TROUPE_TRY(check_not_shared(table_, m.module, m.weight, is_alike, section.where, key));
    const auto bits = mask_(m);
    if (!bits) return refused(section.where, key, "wanted the mask of " + m.module + ", the checkpoint has none");
    auto& weight = of(m.weight);
    if (weight.mask.empty()) weight.mask = kernels::whole_mask(m.matrix.elements());
    switch (m.part) {
      case pruned_part::elements:
        kernels::and_elements(m.matrix, *bits, weight.mask);
        break;
      case pruned_part::heads:
        kernels::and_heads(m.matrix, *bits, m.heads, weight.mask);
        break;
      case pruned_part::rows:
      case pruned_part::channels:
        kernels::and_rows(m.matrix, *bits, weight.mask);
        break;
    }
    if (m.bias) of(*m.bias).mask = *bits;
    for (const auto& v : m.along) of(v.parameter).mask = *bits;
    const uint64_t kept = kernels::kept_in(*bits, m.scores());
    out_->modules.push_back({m.module, fmt::format("{}, {} of {} kept", name_of(m.part), kept, m.scores())});
    return cut_related(m, *bits, section);
  }

  core::result<void> cut_related(const pruned_module& m, const kernels::mask_bits& bits,
                                 const config::pruning_section& section) {
    const auto g = std::ranges::find(section.groups, m.group, &config::pruned_group::name);
    const std::string key = related_key(m);
    if (!pairs_) pairs_.emplace(out_->chosen.pruned, table_);
    TROUPE_ASSIGN(
        const auto related,
        pairs_->related(m, *g, said_ == widths_said::by_modules ? pairing_reach::model : pairing_reach::unit));
    if (related.empty()) return {};
    TROUPE_ASSIGN(const auto left, cuts_.cut(m, bits, related, g->where, key));
    const bool by_head = m.part == pruned_part::heads;
    (by_head ? heads_ : widths_)[m.unit].insert(left);
    if (by_head) out_->head_width = m.matrix.columns / m.heads;
    return {};
  }

  /// Records which rows and columns remain of the parameters of the layer that `cut` names, in memory order.
  void take(const cut_module& cut) {
    const layer_info& l = *std::ranges::find(table_.layers, cut.module, &layer_info::name);
    out_->cuts.push_back(cut);
    if (!l.weight) return;  // a norm without weight has no parameters to shrink
    auto& weight = of(*l.weight);
    const bool lies_transposed = l.layout == core::weight_layout::in_out;
    weight.kept_rows = lies_transposed ? cut.inputs : cut.outputs;
    weight.kept_columns = lies_transposed ? cut.outputs : cut.inputs;
    if (l.bias && !cut.outputs.empty()) of(*l.bias).kept_rows = cut.outputs;
  }

  /// Checks that all blocks are alike: config.json has one width and one number of heads for all blocks.
  core::result<void> same_in_all_blocks() {
    const size_t blocks = table_.units.size() - 2;  // all units but the embedding and the head
    const auto same = [&](const std::map<uint32_t, std::set<uint64_t>>& by_unit,
                          const char* what) -> core::result<std::optional<uint64_t>> {
      std::set<uint64_t> all;
      for (const auto& [unit, sizes] : by_unit) all.insert(sizes.begin(), sizes.end());
      if (all.empty()) return std::nullopt;
      if (all.size() == 1 && by_unit.size() == blocks) return *all.begin();
      return core::fail(
          error_kind::bad_input,
          fmt::format("compression_training: wanted the same number of {} in all {} blocks, as config.json has one for "
                      "all, got {}",
                      what, blocks, all.size() > 1 ? "different ones" : fmt::format("some in {}", by_unit.size())));
    };
    TROUPE_ASSIGN(const auto inner, same(widths_, "rows"));
    TROUPE_ASSIGN(const auto heads, same(heads_, "heads"));
    out_->inner = inner;
    out_->heads = out_->kv_heads = heads;
    return {};
  }

  const config::job_config& config_;
  const core::model_table& table_;
  uint64_t updates_;
  const mask_lookup& mask_;
  widths_said said_;
  bool changes_;
  std::shared_ptr<cleaning> out_ = std::make_shared<cleaning>();
  std::map<uint32_t, cleaned_parameter> parameters_;
  module_cuts cuts_{table_};
  std::optional<module_pairs> pairs_;  // finds the related modules of each pruned module
  // [unit]: widths that remain in the unit, and numbers of heads that remain.
  std::map<uint32_t, std::set<uint64_t>> widths_, heads_;
};

}  // namespace

core::result<std::shared_ptr<const cleaning>> plan_cleaning(const config::job_config& config,
                                                            const core::model_table& table, uint64_t updates,
                                                            const mask_lookup& mask, widths_said said) {
  return cleaner(config, table, updates, mask, said).all();
}

core::result<std::shared_ptr<const cleaning>> plan_related(const config::job_config& config,
                                                           const core::model_table& table, widths_said said) {
  const auto& c = config.compression;
  const auto relates = [](const config::pruning_section* s) {
    return s->enabled && std::ranges::any_of(s->groups, [](const auto& g) { return !g.related.empty(); });
  };
  if (std::ranges::none_of(std::array{&c.sparse, &c.rows, &c.heads, &c.channels}, relates))
    return std::make_shared<const cleaning>();
  const mask_lookup first_kept = [](const pruned_module& m) -> std::optional<kernels::mask_bits> {
    std::vector<uint8_t> keep(m.scores());
    std::ranges::fill_n(keep.begin(), static_cast<ptrdiff_t>(m.kept), uint8_t{1});
    return kernels::packed_mask(keep);
  };
  return cleaner(config, table, UINT64_MAX, first_kept, said, false).all();
}

core::result<void> check_related(const config::job_config& config, const core::model_table& table) {
  TROUPE_TRY(plan_related(config, table, widths_said::by_config_json));
  return {};
}

}  // namespace troupe::job
