// The keys of Hugging Face's config.json for the families that Troupe builds. This file checks their types and stores
// them as given; models/ interprets them.
#include "config/keys/key_rows.hpp"

namespace troupe::config {
namespace {

using enum value_type;
constexpr double most_size = 1 << 24;

class model_rows {
 public:
  model_rows(key_rows& t, std::string_view family) : t_(t), family_(family) {}
  key_info& row(const char* name, value_type type, const char* by_default) {
    return t_.row(std::string("model.") + name, type).by_default(by_default).of_family(family_).in_model();
  }
  key_info& size(const char* name, const char* by_default) {
    return row(name, integer, by_default).at_least(1).at_most(most_size);
  }
  key_info& probability(const char* name, const char* by_default) {
    return row(name, number, by_default).at_least(0).below(1);
  }
  key_info& unread(const char* name, value_type type = any) {
    return row(name, type, "none").ignored("describes the model to other programs").means("Kept for other programs.");
  }

 private:
  key_rows& t_;
  std::string_view family_;
};

void add_shared(key_rows& t) {
  model_rows m(t, "");
  m.row("model_type", text, "none").one_of({"gpt2", "llama"}).means("The family of the model.");
  m.size("vocab_size", "50257 (gpt2), 32000 (llama)").means("Tokens there are.");
  m.row("initializer_range", number, "0.02").at_least(0).below(1000).means("Standard deviation of the first weights.");
  m.row("tie_word_embeddings", boolean, "true (gpt2), false (llama)").means("One matrix for embedding and head.");
  for (const char* name : {"bos_token_id", "eos_token_id", "pad_token_id"}) m.unread(name);
  m.unread("architectures");
  m.unread("torch_dtype").ignored("the run's own precision keys decide");
  m.unread("dtype").ignored("the run's own precision keys decide");
  m.unread("transformers_version");
  m.unread("_name_or_path");
  m.unread("use_cache");
}

void add_gpt2(key_rows& t) {
  model_rows m(t, "gpt2");
  m.size("n_layer", "12").at_most(4096).means("Blocks.");
  m.size("n_embd", "768").means("Width of the residual stream.");
  m.size("n_head", "12").means("Attention heads; a divisor of n_embd.");
  m.size("n_positions", "1024").means("The longest sequence.");
  m.unread("n_ctx", integer).ignored("an old name that n_positions replaced");
  m.size("n_inner", "none").means("Width inside the MLP; none: 4 x n_embd.");
  m.row("activation_function", text, "gelu_new").means("The MLP's non-linearity.");
  m.probability("resid_pdrop", "0.1").means("Dropout on what attention and MLP add.");
  m.probability("embd_pdrop", "0.1").means("Dropout on the embeddings.");
  m.probability("attn_pdrop", "0.1").means("Dropout on the attention weights.");
  m.row("layer_norm_epsilon", number, "1e-5").at_least(0).below(1).means("Added to the variance in a norm.");
  m.row("scale_attn_weights", boolean, "true").just("true").means("Divide scores by the root of the head's width.");
  m.row("scale_attn_by_inverse_layer_idx", boolean, "false")
      .just("false")
      .means("Divide scores by the layer's number too.");
  m.row("add_cross_attention", boolean, "false").just("false").means("Attend to a second sequence.");
  m.unread("reorder_and_upcast_attn", boolean).ignored("attention has one order here");
  for (const char* name : {"summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels",
                           "summary_first_dropout", "task_specific_params"})
    m.unread(name);
}

void add_llama(key_rows& t) {
  model_rows m(t, "llama");
  m.size("hidden_size", "4096").means("Width of the residual stream.");
  m.size("intermediate_size", "11008").means("Width inside the MLP.");
  m.size("num_hidden_layers", "32").at_most(4096).means("Blocks.");
  m.size("num_attention_heads", "32").means("Query heads.");
  m.size("num_key_value_heads", "none").means("Key and value heads; a divisor of num_attention_heads; none: as many.");
  m.size("head_dim", "none").means("Width of a head; none: hidden_size / num_attention_heads.");
  m.size("max_position_embeddings", "2048").means("The longest sequence.");
  m.row("hidden_act", text, "silu").means("The MLP's non-linearity.");
  m.row("rms_norm_eps", number, "1e-6").at_least(0).below(1).means("Added to the mean square in a norm.");
  m.row("rope_theta", number, "10000").at_least(1).below(1e12).means("Base of the rotary positions.");
  m.row("rope_scaling", object, "none").means("Scaling of the rotary positions; only rope_type default.");
  m.row("rope_parameters", object, "none").means("The newer form of rope_theta and rope_scaling.");
  m.row("attention_bias", boolean, "false").means("Biases in the attention's matrices.");
  m.row("mlp_bias", boolean, "false").means("Biases in the MLP's matrices.");
  m.probability("attention_dropout", "0").means("Dropout on the attention weights.");
  m.unread("pretraining_tp");
}

}  // namespace

void add_model_keys(key_rows& t) {
  t.row("model", section).means("The model: Hugging Face's config.json keys, or the folder that holds them.");
  t.row("model.path", path)
      .into<&job_config::model, &model_section::path>()
      .means(
          "A Hugging Face folder: config.json and, where there are any, weights; or one of its indices or files of "
          "weights, by name. Excludes all other model keys.");
  t.row("model.teacher", path)
      .into<&job_config::model, &model_section::teacher>()
      .means(
          "A trained model: layer_reduction begins with its layers (any checkpoint), and distillation, which wants a "
          "Hugging Face folder, learns from it.");
  t.row("model.dequantise", boolean)
      .into<&job_config::model, &model_section::dequantise>()
      .by_default("false")
      .means(
          "Begin with compressed weights (compressed-tensors, a GGUF file's blocks) as the values that their codes "
          "mean: "
          "of path, of teacher, and of checkpoint.load. Without it such weights are refused.");
  t.row("model.ignore_keys", texts)
      .into<&job_config::model, &model_section::ignore_keys>()
      .by_default("[]")
      .means(
          "Keys of a config.json, of path, of teacher or of a checkpoint, that are read as if they were not there; "
          "rope_scaling.NAME is a key within one. A key that Troupe does not know is refused without, and a checkpoint "
          "whose key differs from this model's. A name that Troupe does not know and none of them has is refused.");
  add_shared(t);
  add_gpt2(t);
  add_llama(t);
}

}  // namespace troupe::config
