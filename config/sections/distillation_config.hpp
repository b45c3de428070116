// The `distillation` section: the loss terms with which a model learns from the teacher in `model.teacher`, in addition
// to its data.
#pragma once

#include <cstdint>
#include <string>

namespace troupe::config {

/// Divergence between the teacher's distribution over the next token and the model's own.
enum class divergence_type : uint8_t { forward_kl, reverse_kl, jsd };

struct distillation_section {  ///< configuration section `distillation`
  bool enabled = false;
  double temperature = 1;    ///< divisor of the logits of both models before they are compared
  double cross_entropy = 1;  ///< weight of the data's own loss; key: terms.cross_entropy
  double logits = 1;         ///< weight of the divergence of the logits; key: terms.logits.weight
  divergence_type divergence = divergence_type::forward_kl;
  double beta = 0.5;         ///< for jsd: the teacher's share of the mixture with which both are compared
  double hidden_states = 0;  ///< weight of the differences of hidden states; key: terms.hidden_states
  double attention = 0;      ///< weight of the differences of attention; key: terms.attention
  bool layer_wise = false;   ///< key: layer_wise.enabled; true: each block learns alone, and terms are ignored
  std::string where;         ///< file and line of `enabled`
};

}  // namespace troupe::config
