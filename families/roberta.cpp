// RoBERTa: BERT's layers, with positions that are numbered from the padding token's number plus 1, and a head with
// other names.
#include "families/all_families.hpp"
#include "families/bert_layers.hpp"

namespace troupe::families {
namespace {

constexpr layer_names roberta_names() {
  layer_names out = bert_layer_names;
  out.prefix = "roberta.";
  out.head = "lm_head.decoder";
  out.head_bias = "lm_head.bias";
  out.head_transform = "lm_head.dense";
  out.head_norm = "lm_head.layer_norm";
  return out;
}

constexpr std::string_view roberta_unread[] = {"pooler.", "embeddings.position_ids"};

}  // namespace

constexpr family roberta{
    .model_type = "roberta",
    .architecture = "RobertaForMaskedLM",
    .tokenizer_class = "RobertaTokenizer",
    .keys = bert_keys(50265, 1),
    .names = roberta_names(),
    .norm = norm_kind::layer,
    .layout = core::weight_layout::out_in,
    .order_of_norms = norm_order::last,
    .is_encoder = true,
    .positions_follow_padding = true,
    .positions_are_last = true,
    .head_activation = "gelu",
    .unread_tensors = roberta_unread,
};
static_assert(is_computed(roberta));

}  // namespace troupe::families
