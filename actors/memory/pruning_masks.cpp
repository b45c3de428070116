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

void pruning_masks::set(size_t i, kernels::mask_bits bits) {
  masks_[i] = std::move(bits);
  is_current_ = false;
}

void pruning_masks::begin(uint64_t updates) {
  const auto begins = [&](const job::pruned_module& m) {
    return (m.from_update <= updates) != (m.from_update <= begun_after_);
  };
  if (is_current_ && std::ranges::none_of(modules(), begins)) return;
  together_.clear();
  for (size_t i = 0; i < masks_.size(); ++i) {
    const auto& m = modules()[i];
    if (m.from_update > updates || m.method == config::pruning_method::topk) continue;
    and_mask(m, masks_[i], together({m.unit, m.weight}, m.matrix.elements()));
    const auto and_vector = [&](use at) {
      kernels::and_elements({m.matrix.rows, 1}, masks_[i], together(at, m.matrix.rows));
    };
    if (m.bias) and_vector({m.unit, *m.bias});
    for (const auto& v : m.along) and_vector({v.unit, v.parameter});
  }
  begun_after_ = updates;
  is_current_ = true;
}

const kernels::mask_bits* pruning_masks::kept(uint32_t unit, uint32_t parameter) const {
  const auto at = together_.find({unit, parameter});
  return at == together_.end() ? nullptr : &at->second;
}

uint64_t pruning_masks::bytes() const {
  uint64_t out = 0;
  for (const auto& x : masks_) out += x.size();
  for (const auto& [at, x] : together_) out += x.size();
  return out;
}

kernels::mask_bits& pruning_masks::together(use at, uint64_t elements) {
  const auto [place, is_new] = together_.try_emplace(at);
  if (is_new) place->second = kernels::whole_mask(elements);
  return place->second;
}

}  // namespace troupe::actors
