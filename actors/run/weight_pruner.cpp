#include "actors/run/weight_pruner.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "actors/run/training_run.hpp"
#include "job/compression/snip_rule.hpp"
#include "kernels/compress/pruning.hpp"

namespace troupe::actors {

namespace {

bool is_snip(const job::pruned_module& m) { return m.method == config::pruning_method::snip_momentum; }

/// Returns `lies`, the elements of a weight or of its gradient in memory order, in the order (output row, input
/// column).
std::vector<float> in_order(const kernels::masked_matrix& m, std::vector<float> lies) {
  if (!m.transposed) return lies;
  std::vector<float> out(lies.size());
  for (uint64_t r = 0; r < m.rows; ++r)
    for (uint64_t c = 0; c < m.columns; ++c) out[r * m.columns + c] = lies[c * m.rows + r];
  return out;
}

}  // namespace

weight_pruner::weight_pruner(training_run& run, const std::shared_ptr<const job::chosen_compression>& compression)
    : run_(run), masks_(compression->pruned.empty() ? nullptr : std::make_shared<pruning_masks>(compression)) {}

core::result<std::vector<float>> weight_pruner::whole_weight(uint32_t parameter) const {
  const uint32_t q = run_.term->plan.table->original(parameter);
  const auto& p = run_.term->plan.tensor.whole->parameters[q];
  std::vector<float> out(p.numel());
  const auto part = p.trainable ? plan::state_part::master : plan::state_part::copy;
  if (auto ok =
          run_.term->whole().read(q, part, {0, p.numel()}, core::dtype::f32, reinterpret_cast<std::byte*>(out.data()));
      !ok)
    return core::fail(ok.error().in("masks of '" + p.name + "'"));
  return out;
}

core::result<void> weight_pruner::make_masks(const std::vector<formats::mask_record>& saved) {
  if (masks_ == nullptr) return {};
  auto& masks = *masks_;
  sums_.assign(masks.modules().size(), {});
  before_ = sums_;
  turned_.reset();
  if (!run_.others->leads()) return {};  // only the leading process computes masks; the others receive them
  for (size_t i = 0; i < masks.modules().size(); ++i) {
    const auto& m = masks.modules()[i];
    if (m.method == config::pruning_method::topk) continue;  // learned masks follow from scores, which are parameters
    if (is_snip(m)) sums_[i].assign(m.matrix.elements(), 0);
    const auto is_this = [&](const formats::mask_record& x) {
      return x.module == m.module && x.technique == job::name_of(m.part);
    };
    if (const auto at = std::ranges::find_if(saved, is_this); at != saved.end()) {
      if (at->elements != m.scores())
        return core::fail(core::error_kind::mismatch,
                          fmt::format("{} of '{}': wanted a mask of {}, the checkpoint's is of {}",
                                      job::name_of(m.part), m.module, m.scores(), at->elements));
      masks.set(i, at->bits);
      if (is_snip(m) && !at->scores.empty()) sums_[i] = at->scores;
      continue;
    }
    if (is_snip(m)) {
      masks.set(i, kernels::whole_mask(m.matrix.elements()));
      continue;
    }
    TROUPE_ASSIGN(const auto weight, whole_weight(m.weight));
    masks.set(i, m.part == job::pruned_part::elements ? kernels::largest_elements(m.matrix, weight, m.kept)
                                                      : kernels::largest_rows(m.matrix, weight, m.kept));
  }
  tell_masks();
  return {};
}

void weight_pruner::tell_masks() const {
  std::vector<std::vector<uint8_t>> all;
  for (size_t i = 0; i < masks_->modules().size(); ++i) all.push_back(masks_->of(i));
  run_.others->tell_masks(std::move(all));
}

std::vector<formats::mask_record> weight_pruner::saved_masks() const {
  std::vector<formats::mask_record> out;
  if (masks_ == nullptr) return out;
  const auto& masks = *masks_;
  for (size_t i = 0; i < masks.modules().size(); ++i) {
    const auto& m = masks.modules()[i];
    if (m.method == config::pruning_method::topk) continue;
    out.push_back({m.module, std::string(job::name_of(m.part)), m.scores(), masks.of(i), sums_[i]});
  }
  return out;
}

core::result<void> weight_pruner::begin_saliency() {
  for (size_t i = 0; i < sums_.size(); ++i) {
    if (sums_[i].empty()) continue;
    const auto& m = masks_->modules()[i];
    TROUPE_ASSIGN(auto weight, whole_weight(m.weight));
    before_[i] = in_order(m.matrix, std::move(weight));
  }
  return {};
}

core::result<void> weight_pruner::end_saliency() {
  for (size_t i = 0; i < sums_.size(); ++i) {
    if (sums_[i].empty()) continue;
    const auto& m = masks_->modules()[i];
    std::vector<double> sums(m.matrix.elements());
    if (auto ok =
            run_.term->whole().read(run_.term->plan.table->original(m.weight), plan::state_part::gradient,
                                    {0, sums.size()}, core::dtype::f64, reinterpret_cast<std::byte*>(sums.data()));
        !ok)
      return core::fail(ok.error().in("scores of '" + m.module + "'"));
    std::vector<float> mean(sums.size());
    for (size_t e = 0; e < sums.size(); ++e) mean[e] = static_cast<float>(sums[e] * *run_.progress.gradient_factor);
    if (auto ok = kernels::add_saliency(sums_[i], before_[i], in_order(m.matrix, std::move(mean))); !ok)
      return core::fail(ok.error().in("scores of '" + m.module + "'"));
    before_[i] = {};
  }
  return {};
}

void weight_pruner::turn_masks() {
  if (masks_ == nullptr) return;
  auto& masks = *masks_;
  if (turned_ != run_.progress.applied) {
    bool turned = false;
    for (size_t i = 0; i < sums_.size(); ++i) {
      if (sums_[i].empty()) continue;
      const auto& m = masks.modules()[i];
      const auto& section = run_.term->plan.config->compression.sparse;
      const auto group = std::ranges::find(section.groups, m.group, &config::pruned_group::name);
      // always has a value, because planning the run refuses a group without a rule
      const auto rule = *job::snip_rule_of(section, group->dense_ratio, m.matrix);
      if (!rule.schedule.is_turn(run_.progress.applied)) continue;
      std::vector<uint8_t> keep(m.matrix.elements());
      // snip_mask() cannot fail: the rule, the sums and the mask have the size of one matrix
      (void)kernels::snip_mask(rule.matrix, sums_[i], rule.schedule.sparsity_at(run_.progress.applied), keep);
      masks.set(i, kernels::packed_mask(keep));
      turned = true;
    }
    if (turned) tell_masks();
    turned_ = run_.progress.applied;
  }
  masks.begin(run_.progress.applied);
}

}  // namespace troupe::actors
