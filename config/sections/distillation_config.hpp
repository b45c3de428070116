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
  double cross_entropy = 1;  ///< weight of the cross entropy of the data's next tokens; key: terms.cross_entropy
  double logits = 1;         ///< weight of the divergence of the logits; key: terms.logits.weight
  divergence_type divergence = divergence_type::forward_kl;
  /// For jsd: the teacher's share of the mixture of both distributions, with which each of them is compared.
  double beta = 0.5;
  /// Weight of the differences between the hidden states of both models; key: terms.hidden_states.
  double hidden_states = 0;
  double attention = 0;  ///< weight of the differences between the attention maps of both models; key: terms.attention
  /// Key: layer_wise.enabled; true: each block learns the output of the teacher's block; the terms are ignored.
  bool layer_wise = false;
  std::string where;         ///< file and line of `enabled`
};

}  // namespace troupe::config
