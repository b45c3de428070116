// Trains small jobs in tests of whole runs: provides the text, the configuration, and the values of a run that tests
// compare bit by bit.
#pragma once

#include <boost/test/unit_test.hpp>

#include <bit>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "actors/session/session.hpp"
#include "config/load.hpp"
#include "tests/made_up_text.hpp"
#include "tests/scratch_folder.hpp"

namespace troupe::tests {

using settings = std::vector<std::string>;  // key=value; later entries override earlier ones

inline settings operator+(settings a, const settings& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// A model of six blocks, so that ZeRO stage 3 gathers only a small part of it at a time. Every matrix spans several
/// blocks of 1,024 elements.
inline const std::string tiny_gpt2 =
    "model: {model_type: gpt2, n_layer: 6, n_embd: 32, n_head: 4, n_positions: 24, vocab_size: 96, embd_pdrop: 0, "
    "attn_pdrop: 0, resid_pdrop: 0}\n";
inline const std::string tiny_gpt2_with_dropout =
    "model: {model_type: gpt2, n_layer: 6, n_embd: 32, n_head: 4, n_positions: 24, vocab_size: 96, embd_pdrop: 0.1, "
    "attn_pdrop: 0.1, resid_pdrop: 0.1}\n";
inline const std::string tiny_llama =
    "model: {model_type: llama, num_hidden_layers: 5, hidden_size: 32, num_attention_heads: 4, num_key_value_heads: 2, "
    "intermediate_size: 64, max_position_embeddings: 24, vocab_size: 96}\n";
inline const std::string training_keys =
    "data: {text: corpus.txt, sequence_length: 16}\n"
    "seed: 7\n"
    "steps: 10\n"
    "train_micro_batch_size_per_gpu: 2\n"
    "optimizer: {type: AdamW, params: {lr: 1.0e-2, weight_decay: 0.1}}\n"
    "telemetry: {trace: false}\n";

/// Owns a folder with corpus.txt, and builds configurations of jobs that train on it.
class small_job {
 public:
  explicit small_job(std::string model = tiny_gpt2, std::string text = made_up_text(4096)) : model_(std::move(model)) {
    folder_.write("corpus.txt", text);
  }

  [[nodiscard]] const scratch_folder& folder() const { return folder_; }

  [[nodiscard]] std::shared_ptr<const config::job_config> config(const settings& set) const {
    config::load_options options;
    options.overrides = set;
    auto loaded = config::load_text(model_ + training_keys, "job.yaml", folder_.path(), options);
    if (!loaded) throw std::runtime_error(config::render(loaded.error()));
    return std::make_shared<const config::job_config>(loaded->config);
  }

  [[nodiscard]] core::result<std::unique_ptr<actors::session>> try_open(const settings& set) const {
    return actors::session::open(config(set));
  }

  /// Opens a session. Throws if the configuration is refused.
  [[nodiscard]] std::unique_ptr<actors::session> open(const settings& set) const {
    auto s = try_open(set);
    if (!s) throw std::runtime_error(s.error().text);
    return std::move(*s);
  }

 private:
  scratch_folder folder_;
  std::string model_;
};

inline actors::step_report step_of(actors::session& s) {
  auto r = s.step();
  if (!r) throw std::runtime_error(r.error().text);
  return *r;
}

inline std::vector<float> parameter_of(const actors::session& s, uint32_t q) {
  std::vector<float> out(s.table().parameters[q].numel());
  if (auto ok = s.read_parameter(q, 0, out); !ok) throw std::runtime_error(ok.error().text);
  return out;
}

inline std::vector<float> moment_of(const actors::session& s, uint32_t q, int which) {
  std::vector<float> out(s.table().parameters[q].numel());
  if (auto ok = s.read_moment(q, which, out); !ok) throw std::runtime_error(ok.error().text);
  return out;
}

inline std::vector<double> gradient_of(const actors::session& s, uint32_t q) {
  std::vector<double> out(s.table().parameters[q].numel());
  if (auto ok = s.read_gradient(q, out); !ok) throw std::runtime_error(ok.error().text);
  return out;
}

inline double relative_difference(std::span<const double> a, std::span<const double> reference) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - reference[i]) * (a[i] - reference[i]);
    norm += reference[i] * reference[i];
  }
  return norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
}

}  // namespace troupe::tests
