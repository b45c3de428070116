// Generates a text for tests of loss spikes: a model learns it within a few steps, except for five samples.
#pragma once

#include <string>

namespace troupe::tests {

/// Number of tokens of a sample of this text.
inline constexpr size_t surprising_sequence = 16;

/// Returns 4,096 letters that repeat in a fixed order, except for five samples of other characters, on which a trained
/// model has a high loss.
inline std::string surprising_text() {
  std::string out;
  for (size_t i = 0; i < 4096; ++i) out += static_cast<char>('A' + i % 8);
  for (const size_t sample : {21U, 77U, 130U, 190U, 233U})
    for (size_t i = 0; i < surprising_sequence; ++i)
      out[sample * surprising_sequence + i] = static_cast<char>('!' + (i * 37 + sample * 11) % 60);
  return out;
}

/// A job without degrees that trains on corpus.txt with the surprising samples; its batch has four samples.
inline const std::string surprising_job =
    "model: {model_type: gpt2, n_layer: 2, n_embd: 32, n_head: 4, n_positions: 24, vocab_size: 96, embd_pdrop: 0, "
    "attn_pdrop: 0, resid_pdrop: 0}\n"
    "data: {text: corpus.txt, sequence_length: 16}\n"
    "seed: 7\n"
    "steps: 40\n"
    "train_batch_size: 4\n"
    "optimizer: {type: AdamW, params: {lr: 1.0e-2}}\n"
    "telemetry: {trace: false, json_lines: true}\n"
    "output: out\n";

}  // namespace troupe::tests
