#include "actors/hands/weights/unit_compressor.hpp"

#include <algorithm>
#include <utility>

#include "plan/vote_layout.hpp"

namespace troupe::actors {

unit_compressor::unit_compressor(std::shared_ptr<const job::chosen_compression> chosen,
                                 std::shared_ptr<const pruning_masks> masks,
                                 std::shared_ptr<bound_parameters> parameters, uint64_t seed)
    : chosen_(std::move(chosen)),
      masks_(std::move(masks)),
      parameters_(std::move(parameters)),
      grids_(std::make_shared<weight_grids>(chosen_, seed)),
      learned_(chosen_, masks_, parameters_, grids_) {}

void unit_compressor::begin(std::shared_ptr<step_context> context) {
  context_ = std::move(context);
  grids_->begin(context_);
  learned_.begin(context_->order.applied, p().options().mesh.tensor_at(p().rank));
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

// Sets the value ranges by which the inputs of layers are quantised. A static range covers the inputs seen before this
// step and applies to the whole step; the ranges seen in this step are written to the memory of the vote, which joins
// those of all ranks.
void unit_compressor::take_ranges() {
  const auto& l = *p().layout;
  const auto& calibrated = p().options().compressed.calibrated;
  for (uint64_t k = 0; k < calibrated.size(); ++k) {
    // the rounding of this layer's input begins in a later step
    if (input_grids_.empty() || !input_grids_[calibrated[k]]) continue;
    auto& input = *input_grids_[calibrated[k]];
    input.range.reset();
    const size_t at = static_cast<size_t>(&chosen_->layer_of(calibrated[k]) - chosen_->layers.data());
    if (const auto& known = context_->order.input_ranges; known != nullptr && (*known)[at].is_known())
      input.range = {(*known)[at].least, (*known)[at].largest};
    if (p().options().mode == plan::mode::train)
      input.seen = reinterpret_cast<range*>(&context_->votes[plan::range_offset(l, p().rank, k)]);
  }
}

void unit_compressor::compress(const plan::instruction& x, std::span<std::byte> out,
                               std::span<const std::byte> agreed) {
  const auto type = p().options().types.parameter;
  if (learned_.learns(x.subject)) learned_.make(x.subject, type, agreed);
  const auto& places = p().layout->compressed[x.subject];
  for (const auto& place : places.parameters) {
    auto* const to = &out[place.offset * core::size_of(type)];
    grids_->put(x.subject, place.parameter, agreed, parameters_->bytes(place.parameter), to,
                out.subspan(places.elements * core::size_of(type)));
    if (const auto* mask = mask_of(x.subject, place.parameter))
      kernels::apply_mask(to, type, p().table().parameters[place.parameter].numel(), *mask);
  }
}

const kernels::mask_bits* unit_compressor::mask_of(uint32_t unit, uint32_t parameter) const {
  if (learned_.learns(unit))
    // A parameter without a learned mask may still be pruned by a mask in `masks_`: a norm layer, for example, loses
    // the elements of outputs that are pruned in another unit.
    if (const auto* mask = learned_.kept(unit, parameter)) return mask;
  return masks_ == nullptr ? nullptr : masks_->kept(unit, parameter, p().options().mesh.tensor_at(p().rank));
}

void unit_compressor::survey(const plan::instruction& x, std::span<std::byte> out, std::span<const std::byte> agreed) {
  const uint64_t bytes = p().options().compressed.range_bytes(x.subject),
                 at = p().options().mesh.tensor_at(p().rank) * bytes;
  const auto own = out.subspan(at, bytes);
  if (!agreed.empty()) std::ranges::copy(agreed.subspan(at, bytes), own.begin());
  auto* to = reinterpret_cast<range*>(own.data());
  for (const auto& place : p().layout->compressed[x.subject].parameters)
    to += grids_->tell(x.subject, place.parameter, agreed, parameters_->bytes(place.parameter), to);
}

}  // namespace troupe::actors
