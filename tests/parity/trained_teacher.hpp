// Provides models that learn from a teacher, and teachers that were trained for three steps.
#pragma once

#include <filesystem>
#include <string>

#include "actors/session/session.hpp"
#include "tests/parity/places.hpp"

namespace troupe::tests {

inline const std::string two_layers =
    "model: {model_type: gpt2, n_layer: 2, n_embd: 32, n_head: 4, n_positions: 24, vocab_size: 96, embd_pdrop: 0, "
    "attn_pdrop: 0, resid_pdrop: 0}\n";
inline const std::string wider_teacher =
    "model: {model_type: gpt2, n_layer: 3, n_embd: 48, n_head: 4, n_positions: 24, vocab_size: 96, embd_pdrop: 0, "
    "attn_pdrop: 0, resid_pdrop: 0}\n";
inline const std::string three_layers =
    "model: {model_type: gpt2, n_layer: 3, n_embd: 32, n_head: 4, n_positions: 24, vocab_size: 96, embd_pdrop: 0, "
    "attn_pdrop: 0, resid_pdrop: 0}\n";
inline const std::string llama_teacher =
    "model: {model_type: llama, num_hidden_layers: 3, hidden_size: 48, num_attention_heads: 4, num_key_value_heads: 4, "
    "intermediate_size: 80, max_position_embeddings: 24, vocab_size: 96}\n";
inline const std::string llama_teacher_as_wide =
    "model: {model_type: llama, num_hidden_layers: 6, hidden_size: 32, num_attention_heads: 4, num_key_value_heads: 2, "
    "intermediate_size: 48, max_position_embeddings: 24, vocab_size: 96}\n";

inline const settings data_2 = {"parallel.data=2", "gradient_accumulation_steps=3", "gradient_order=per_step"};

/// Trains a model for three steps and owns the folder into which it is exported.
class trained_teacher {
 public:
  explicit trained_teacher(const std::string& model) : job_(model) {
    const auto s = job_.open({"seed=3"});
    for (uint64_t i = 0; i < 3; ++i) step_of(*s);
    BOOST_TEST_REQUIRE(s->export_hugging_face(folder().string()).has_value());
  }
  [[nodiscard]] std::filesystem::path folder() const { return job_.folder().path() / "teacher"; }
  [[nodiscard]] settings taught(const std::string& divergence = "forward_kl",
                                const std::string& temperature = "2") const {
    return {"model.teacher=" + folder().string(),      "distillation.enabled=true",
            "distillation.temperature=" + temperature, "distillation.terms.cross_entropy=0.5",
            "distillation.terms.logits.weight=0.75",   "distillation.terms.logits.divergence=" + divergence,
            "distillation.terms.logits.beta=0.3"};
  }

 private:
  small_job job_;
};

/// Returns settings that reduce the model to two layers, which are initialised with the teacher's layers `layers`.
inline settings reduced(const std::string& layers) {
  const std::string key = "compression_training.layer_reduction.";
  return {key + "enabled=true", key + "keep_number_layer=2", key + "module_name_prefix=transformer.h",
          key + "teacher_layer=" + layers, key + "other_module_name=[transformer.wte, transformer.ln_f]"};
}

}  // namespace troupe::tests
