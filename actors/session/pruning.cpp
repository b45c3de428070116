// Makes the masks of a session's pruned weights from the weights that the run starts with, or takes them from the
// checkpoint that it resumes. Owns which of the two; kernels/compress/weight_mask.hpp owns the arithmetic.
#include <fmt/format.h>

#include <algorithm>

#include "actors/memory/pruning_masks.hpp"
#include "actors/session/parts.hpp"
#include "job/compression/snip_rule.hpp"
#include "kernels/compress/pruning.hpp"

namespace troupe::actors {

core::result<std::vector<float>> session::parts::whole_weight(uint32_t parameter) const {
  const uint32_t q = plan.table->original(parameter);
  const auto& p = plan.tensor.whole->parameters[q];
  std::vector<float> out(p.numel());
  const auto part = p.trainable ? plan::state_part::master : plan::state_part::copy;
  if (auto ok = whole().read(q, part, {0, p.numel()}, core::dtype::f32, reinterpret_cast<std::byte*>(out.data())); !ok)
    return core::fail(ok.error().in("masks of '" + p.name + "'"));
  return out;
}

namespace {

bool is_snip(const job::pruned_module& m) { return m.method == config::pruning_method::snip_momentum; }

/// Returns a weight, or its gradient, in the order (out, in).
std::vector<float> in_order(const kernels::masked_matrix& m, std::vector<float> lies) {
  if (!m.transposed) return lies;
  std::vector<float> out(lies.size());
  for (uint64_t r = 0; r < m.rows; ++r)
    for (uint64_t c = 0; c < m.columns; ++c) out[r * m.columns + c] = lies[c * m.rows + r];
  return out;
}

}  // namespace

core::result<void> session::parts::make_masks(const std::vector<checkpoint::mask_record>& saved) {
  if (memory.masks == nullptr) return {};
  auto& masks = *memory.masks;
  snip.sums.assign(masks.modules().size(), {});
  snip.before = snip.sums;
  snip.turned.reset();
  if (!processes.leads()) return {};  // the leading process sends the masks
  for (size_t i = 0; i < masks.modules().size(); ++i) {
    const auto& m = masks.modules()[i];
    if (m.method == config::pruning_method::topk) continue;  // its mask is computed from scores, which are parameters
    if (is_snip(m)) snip.sums[i].assign(m.matrix.elements(), 0);
    const auto is_this = [&](const checkpoint::mask_record& x) {
      return x.module == m.module && x.technique == job::name_of(m.part);
    };
    if (const auto at = std::ranges::find_if(saved, is_this); at != saved.end()) {
      if (at->elements != m.scores())
        return core::fail(core::error_kind::mismatch,
                          fmt::format("{} of '{}': wanted a mask of {}, the checkpoint's is of {}",
                                      job::name_of(m.part), m.module, m.scores(), at->elements));
      masks.set(i, at->bits);
      if (is_snip(m) && !at->scores.empty()) snip.sums[i] = at->scores;
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

void session::parts::tell_masks() const {
  if (!processes.is_on() || !processes.leads()) return;
  masks_call c;
  for (size_t i = 0; i < memory.masks->modules().size(); ++i) c.masks.push_back(memory.masks->of(i));
  processes.link->tell(encode(peer_call(std::move(c))));
}

std::vector<checkpoint::mask_record> session::parts::saved_masks() const {
  std::vector<checkpoint::mask_record> out;
  if (memory.masks == nullptr) return out;
  const auto& masks = *memory.masks;
  for (size_t i = 0; i < masks.modules().size(); ++i) {
    const auto& m = masks.modules()[i];
    if (m.method == config::pruning_method::topk) continue;
    out.push_back({m.module, std::string(job::name_of(m.part)), m.scores(), masks.of(i), snip.sums[i]});
  }
  return out;
}

core::result<void> session::parts::begin_saliency() {
  for (size_t i = 0; i < snip.sums.size(); ++i) {
    if (snip.sums[i].empty()) continue;
    const auto& m = memory.masks->modules()[i];
    TROUPE_ASSIGN(auto weight, whole_weight(m.weight));
    snip.before[i] = in_order(m.matrix, std::move(weight));
  }
  return {};
}

core::result<void> session::parts::end_saliency() {
  for (size_t i = 0; i < snip.sums.size(); ++i) {
    if (snip.sums[i].empty()) continue;
    const auto& m = memory.masks->modules()[i];
    std::vector<double> sums(m.matrix.elements());
    if (auto ok = whole().read(plan.table->original(m.weight), plan::state_part::gradient, {0, sums.size()},
                               core::dtype::f64, reinterpret_cast<std::byte*>(sums.data()));
        !ok)
      return core::fail(ok.error().in("scores of '" + m.module + "'"));
    std::vector<float> mean(sums.size());
    for (size_t e = 0; e < sums.size(); ++e) mean[e] = static_cast<float>(sums[e] * *progress.gradient_factor);
    if (auto ok = kernels::add_saliency(snip.sums[i], snip.before[i], in_order(m.matrix, std::move(mean))); !ok)
      return core::fail(ok.error().in("scores of '" + m.module + "'"));
    snip.before[i] = {};
  }
  return {};
}

void session::parts::turn_masks() {
  if (memory.masks == nullptr) return;
  auto& masks = *memory.masks;
  if (snip.turned != progress.applied) {
    bool turned = false;
    for (size_t i = 0; i < snip.sums.size(); ++i) {
      if (snip.sums[i].empty()) continue;
      const auto& m = masks.modules()[i];
      const auto& section = plan.config->compression.sparse;
      const auto group = std::ranges::find(section.groups, m.group, &config::pruned_group::name);
      const auto rule = *job::snip_rule_of(section, group->dense_ratio, m.matrix);  // proved when the rule was chosen
      if (!rule.schedule.is_turn(progress.applied)) continue;
      std::vector<uint8_t> keep(m.matrix.elements());
      // The rule, the sums and the mask belong to one matrix, so no error is possible.
      (void)kernels::snip_mask(rule.matrix, snip.sums[i], rule.schedule.sparsity_at(progress.applied), keep);
      masks.set(i, kernels::packed_mask(keep));
      turned = true;
    }
    if (turned) tell_masks();
    snip.turned = progress.applied;
  }
  masks.begin(progress.applied);
}

}  // namespace troupe::actors
