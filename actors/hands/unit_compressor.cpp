#include "actors/hands/unit_compressor.hpp"

#include <cstring>
#include <utility>

#include "core/tied_copies.hpp"
#include "kernels/compress/compressed_share.hpp"
#include "kernels/compress/compressed_weight.hpp"

namespace troupe::actors {

unit_compressor::unit_compressor(std::shared_ptr<const job::chosen_compression> chosen,
                                 std::shared_ptr<const pruning_masks> masks,
                                 std::shared_ptr<bound_parameters> parameters, uint64_t seed)
    : chosen_(std::move(chosen)),
      masks_(std::move(masks)),
      parameters_(std::move(parameters)),
      learned_(chosen_, masks_, parameters_),
      seed_(seed) {}

void unit_compressor::begin(std::shared_ptr<step_context> context) {
  context_ = std::move(context);
  learned_.begin(context_->order.applied);
  if (std::exchange(program_, context_->program) != context_->program) look_up_inputs();
  take_ranges();
}

void unit_compressor::look_up_inputs() {
  const auto& inputs = p().options().compressed.inputs;
  input_grids_.assign(inputs.empty() ? 0 : p().table().layers.size(), std::nullopt);
  for (const auto& x : inputs) {
    const auto& layer = chosen_->layer_of(x.layer);
    input_grids_[x.layer] = models::input_rounding{.grid = layer.grid, .is_static = layer.is_static};
  }
}

// Static ranges are those that the updates so far have left, for all uses of a step; what it sees goes into the vote.
void unit_compressor::take_ranges() {
  const auto& l = *p().layout;
  const auto& calibrated = p().options().compressed.calibrated;
  for (uint64_t k = 0; k < calibrated.size(); ++k) {
    if (input_grids_.empty() || !input_grids_[calibrated[k]]) continue;  // it has not begun
    auto& input = *input_grids_[calibrated[k]];
    input.range.reset();
    const size_t at = static_cast<size_t>(&chosen_->layer_of(calibrated[k]) - chosen_->layers.data());
    if (const auto& known = context_->order.input_ranges; known != nullptr && (*known)[at].is_known())
      input.range = {(*known)[at].least, (*known)[at].largest};
    if (p().options().mode == plan::mode::train)
      input.seen = reinterpret_cast<range*>(&context_->votes[l.range_offset(p().rank, k)]);
  }
}

void unit_compressor::compress(const plan::instruction& x, std::span<std::byte> out,
                               std::span<const std::byte> agreed) {
  const auto type = p().options().types.parameter;
  if (learned_.learns(x.subject)) learned_.make(x.subject, type);
  const auto room = out.subspan(p().layout->compressed[x.subject].elements * core::size_of(type));
  uint64_t seen = 0;
  for (const auto& place : p().layout->compressed[x.subject].parameters) {
    const uint32_t q = place.parameter;
    const auto* const module = chosen_->module_of(x.subject, q);
    const auto* const from = parameters_->bytes(q);
    auto* const to = &out[place.offset * core::size_of(type)];
    const uint64_t elements = p().table().parameters[q].numel();
    if (module == nullptr || module->from_update > context_->order.applied) {  // pruned alone
      std::memcpy(to, from, elements * core::size_of(type));
    } else {
      const auto now = module->after(context_->order.applied, seed_, p().table().original(q));
      if (module->shares.empty()) {
        kernels::compress_weight(module->recipe, type, from, to, room, now);
      } else {
        take_agreed(x.subject, agreed, std::exchange(seen, seen + module->use.ranges), module->use.ranges);
        kernels::compress_share(module->shares[p().layout->tensor_at(p().rank)], type, from, ranges_, to, room, now);
      }
    }
    if (const auto* mask = mask_of(x.subject, q)) kernels::apply_mask(to, type, elements, *mask);
  }
}

const kernels::mask_bits* unit_compressor::mask_of(uint32_t unit, uint32_t parameter) const {
  if (learned_.learns(unit))
    if (const auto* mask = learned_.kept(unit, parameter)) return mask;  // else of a norm behind another unit
  return masks_ == nullptr ? nullptr : masks_->kept(unit, parameter);
}

// Of `count` groups of a parameter, from range number `first` of the unit on: those of every rank.
void unit_compressor::take_agreed(uint32_t unit, std::span<const std::byte> agreed, uint64_t first, uint64_t count) {
  const uint64_t bytes = p().layout->range_bytes(unit);
  ranges_.clear();
  for (uint32_t t = 0; count > 0 && t < p().layout->tensor_ranks(); ++t) {
    const auto* from = reinterpret_cast<const range*>(&agreed[t * bytes]) + first;
    ranges_.insert(ranges_.end(), from, from + count);
  }
}

void unit_compressor::survey(const plan::instruction& x, std::span<std::byte> out) {
  const auto type = p().options().types.parameter;
  const uint64_t bytes = p().layout->range_bytes(x.subject);
  auto* to = reinterpret_cast<range*>(out.subspan(p().layout->tensor_at(p().rank) * bytes, bytes).data());
  for (const auto& place : p().layout->compressed[x.subject].parameters) {
    const auto* const module = chosen_->module_of(x.subject, place.parameter);
    if (module == nullptr || module->use.ranges == 0) continue;
    const auto& share = module->shares[p().layout->tensor_at(p().rank)];
    kernels::share_ranges(share, type, parameters_->bytes(place.parameter), {to, module->use.ranges});
    to += module->use.ranges;
  }
}

}  // namespace troupe::actors
