#include "kernels/optimizer/host_rule.hpp"

#include <algorithm>
#include <array>
#include <type_traits>

#include "kernels/optimizer/element_pass.hpp"

namespace troupe::kernels {

static_assert(core::shard_states_max == max_moments);

void host_rule(const host_rule_options& options, const optimizer_step& step, const optimizer_piece<float>& piece) {
  const size_t states = options.rule->state_names().size();
  const core::shard_step numbers{step.step, step.lr, options.weight_decay};
  const auto scale = static_cast<float>(step.gradient_scale);
  std::array<float, core::shard_span_max> gradient;
  with_fp32_dtype(piece.gradient_dtype, [&]<class Gradient>(std::type_identity<Gradient>) {
    const auto* from = reinterpret_cast<const Gradient*>(piece.gradient);
    for (uint64_t first = 0; first < piece.count; first += gradient.size()) {
      const uint64_t count = std::min<uint64_t>(gradient.size(), piece.count - first);
      for (uint64_t i = 0; i < count; ++i) gradient[i] = widen(from[first + i]) * scale;
      core::shard_span elements{.parameter = piece.parameter,
                                .first = piece.first + first,
                                .weights = {piece.master + first, count},
                                .gradient = {gradient.data(), count}};
      for (size_t k = 0; k < states; ++k) elements.states[k] = {piece.moments[k] + first, count};
      options.rule->update(numbers, elements);
    }
  });
  store_copy(piece);
}

}  // namespace troupe::kernels
