#include "actors/memory/pruning_masks.hpp"

#include <algorithm>

namespace troupe::actors {

void and_mask(const job::pruned_module& m, const kernels::mask_bits& bits, kernels::mask_bits& into) {
  switch (m.part) {
    case job::pruned_part::elements:
      return kernels::and_elements(m.matrix, bits, into);
    case job::pruned_part::heads:
      return kernels::and_heads(m.matrix, bits, m.heads, into);
    case job::pruned_part::rows:
    case job::pruned_part::channels:
      return kernels::and_rows(m.matrix, bits, into);
  }
}

namespace {

kernels::mask_bits& mask_in(masks_together& all, uint32_t q, uint64_t elements) {
  const auto [at, is_new] = all.try_emplace(q);
  if (is_new) at->second = kernels::whole_mask(elements);
  return at->second;
}

}  // namespace

void and_vector(const job::pruned_module& m, const kernels::mask_bits& bits, uint32_t q, masks_together& into) {
  kernels::and_elements({m.matrix.rows, 1}, bits, mask_in(into, q, m.matrix.rows));
}

void and_mask(const job::pruned_module& m, const kernels::mask_bits& bits, masks_together& into) {
  and_mask(m, bits, mask_in(into, m.weight, m.matrix.elements()));
  if (m.bias) and_vector(m, bits, *m.bias, into);
}

void pruning_masks::set(size_t i, kernels::mask_bits bits) {
  masks_[i] = std::move(bits);
  is_current_ = false;
}

void pruning_masks::begin(uint64_t updates) {
  const auto begins = [&](const job::pruned_module& m) {
    return (m.from_update <= updates) != (m.from_update <= begun_after_);
  };
  if (is_current_ && std::ranges::none_of(modules(), begins)) return;
  std::map<uint32_t, masks_together> whole;  // combined masks of whole parameters, by unit
  const auto acts = [&](const job::pruned_module& m) {
    return m.from_update <= updates && m.method != config::pruning_method::topk;
  };
  for (size_t i = 0; i < masks_.size(); ++i)
    if (const auto& m = modules()[i]; acts(m)) {
      and_mask(m, masks_[i], whole[m.unit]);
      for (const auto& v : m.along) and_vector(m, masks_[i], v.parameter, whole[v.unit]);
    }
  together_.clear();
  for (const auto& m : modules()) {
    if (!acts(m)) continue;
    const auto take = [&](uint32_t unit, uint32_t q) {
      auto& of_unit = whole[unit];
      const auto at = of_unit.find(q);
      if (at == of_unit.end()) return;  // a module with the same weight came earlier and has stored this mask
      auto& shares = together_[{unit, q}];
      for (uint32_t t = 0; t < m.shares.size(); ++t)
        shares.push_back(kernels::share_of_mask(at->second, m.runs_of(q, t)));
      if (shares.empty()) shares.push_back(std::move(at->second));
      of_unit.erase(at);
    };
    take(m.unit, m.weight);
    if (m.bias) take(m.unit, *m.bias);
    for (const auto& v : m.along) take(v.unit, v.parameter);
  }
  begun_after_ = updates;
  is_current_ = true;
}

const kernels::mask_bits* pruning_masks::kept(uint32_t unit, uint32_t parameter, uint32_t coordinate) const {
  const auto at = together_.find({unit, parameter});
  if (at == together_.end()) return nullptr;
  return &at->second[at->second.size() > 1 ? coordinate : 0];
}

uint64_t pruning_masks::bytes() const {
  uint64_t out = 0;
  for (const auto& x : masks_) out += x.size();
  for (const auto& [at, shares] : together_)
    for (const auto& x : shares) out += x.size();
  return out;
}

}  // namespace troupe::actors
