// The `distillation` section: what a model is told by the teacher that `model.teacher` names, beside its data.
#pragma once

#include <cstdint>
#include <string>

namespace troupe::config {

/// Of the teacher's distribution over the next token and the model's own.
enum class divergence_type : uint8_t { forward_kl, reverse_kl, jsd };

struct distillation_section {  ///< `distillation`
  bool enabled = false;
  double temperature = 1;    ///< logits are divided by it before they are compared
  double cross_entropy = 1;  ///< key: terms.cross_entropy, the weight of the data's own loss
  double logits = 1;         ///< key: terms.logits.weight
  divergence_type divergence = divergence_type::forward_kl;
  double beta = 0.5;         ///< of jsd: the teacher's share of the mixture that both are compared with
  double hidden_states = 0;  ///< key: terms.hidden_states
  double attention = 0;      ///< key: terms.attention
  bool layer_wise = false;   ///< key: layer_wise.enabled; each block learns alone, and terms do not count
  std::string where;         ///< file and line of `enabled`
};

}  // namespace troupe::config
