// BERT: attention to all tokens of a text, layer norms of the residual path, learned positions and types of tokens, a
// head that transforms the hidden state before it is multiplied with the embedding.
#include "families/all_families.hpp"
#include "families/bert_layers.hpp"

namespace troupe::families {
namespace {

constexpr layer_names bert_names() {
  layer_names out = bert_layer_names;
  out.prefix = "bert.";
  out.head = "cls.predictions.decoder";
  out.head_bias = "cls.predictions.bias";
  out.head_transform = "cls.predictions.transform.dense";
  out.head_norm = "cls.predictions.transform.LayerNorm";
  return out;
}

constexpr unread_key bert_unread_keys[] = {
    {"directionality"},
    {"pooler_fc_size", key_type::whole_number, "the pooler is left out"},
    {"pooler_num_attention_heads", key_type::whole_number, "the pooler is left out"},
    {"pooler_num_fc_layers", key_type::whole_number, "the pooler is left out"},
    {"pooler_size_per_head", key_type::whole_number, "the pooler is left out"},
    {"pooler_type", key_type::any, "the pooler is left out"},
};

constexpr std::string_view bert_unread[] = {"pooler.", "cls.seq_relationship.", "embeddings.position_ids"};

}  // namespace

constexpr family bert{
    .model_type = "bert",
    .architecture = "BertForMaskedLM",
    .keys = bert_keys(30522, 0, bert_unread_keys),
    .names = bert_names(),
    .norm = norm_kind::layer,
    .layout = core::weight_layout::out_in,
    .order_of_norms = norm_order::last,
    .is_encoder = true,
    .unread_tensors = bert_unread,
};
static_assert(is_computed(bert));

}  // namespace troupe::families
