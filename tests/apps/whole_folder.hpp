// Creates Hugging Face folders with a complete small model, as config.json describes it, for tests that change one part
// of it.
#pragma once

#include <functional>
#include <map>

#include "formats/safetensors/weights_folder.hpp"
#include "models/table/model_spec.hpp"
#include "tests/apps/topology.hpp"
#include "tests/formats/tensors.hpp"

namespace troupe::tests {

inline const std::string whole_gpt2 =
    R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 32, "n_head": 2, "n_positions": 16, "vocab_size": 256,
        "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0})";
inline const std::string whole_llama =
    R"({"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 64, "max_position_embeddings": 32, "vocab_size": 256,
        "tie_word_embeddings": true})";

/// Job file of one step that starts from the folder `hf`.
inline const std::string job_of_hf =
    "model: {path: hf}\ndata: {text: corpus.txt, sequence_length: 16}\nsteps: 1\nseed: 1\ntrain_batch_size: 2\n"
    "optimizer: {type: AdamW, params: {lr: 0.0}}\noutput: out\n";

class whole_folder : public command_folder {
 public:
  explicit whole_folder(const std::string& config = whole_gpt2, const std::string& job = job_of_hf)
      : command_folder(job) {
    const auto spec = check_ok(models::parse_model_spec(config));
    for (const auto& p : models::make_model_table(*spec, 1, 1, sizeof(float)).parameters) {
      owned_tensor t(p.name, core::dtype::f32, p.shape);
      for (size_t i = 0; i < t.data.size() / sizeof(float); ++i)
        set(t, i, static_cast<float>((i * 37 + p.name.size() * 11) % 199) / 1000 - 0.1F);
      tensors.push_back(std::move(t));
    }
    folder.write("hf/config.json", config);
    write();
  }

  static void set(owned_tensor& t, size_t i, float x) { std::memcpy(&t.data[i * sizeof x], &x, sizeof x); }
  [[nodiscard]] owned_tensor& named(const std::string& name) {
    for (auto& t : tensors)
      if (t.name == name) return t;
    throw std::runtime_error("no tensor " + name);
  }
  /// Writes the current tensors as the weights of the folder `to`.
  void write(const std::string& to = "hf") const {
    check_ok(formats::write_weights_folder(folder / to, all_to_write(tensors), uint64_t{1} << 30U));
  }

  [[nodiscard]] finished checkpoint(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "checkpoint");
    return troupe(arguments);
  }
  void check_well(const finished& r, const std::string& words = {}) const {
    BOOST_TEST(r.code == 0, r.err);
    BOOST_TEST(has(r.err + r.out, words), "no '" << words << "' in: " << r.err << r.out);
  }
  void check_refused(const finished& r, const std::string& words, int code = 2) const {
    BOOST_TEST(r.code == code, r.code << ": " << r.err);
    BOOST_TEST(has(r.err, words), "no '" << words << "' in: " << r.err);
  }

  using commands = std::map<std::string, std::vector<std::string>>;

  /// Returns the arguments of all commands that write only weights from the folder `from`, by the name of their output.
  static commands exports(const std::string& from, bool is_llama) {
    commands out{{"out_hf", {"checkpoint", "to-hf", from, "out_hf"}},
                 {"out.gguf", {"checkpoint", "to-gguf", from, "out.gguf", "--type", "f32", "--tokenizer", "bytes"}},
                 {"out_dcp", {"checkpoint", "to-dcp", from, "out_dcp"}},
                 {"out_c.gguf", {"compress", from, "out_c.gguf", "--to", "gguf:q8_0", "--tokenizer", "bytes"}}};
    if (is_llama) out["out_ct"] = {"compress", from, "out_ct", "--to", "compressed-tensors:int8"};
    return out;
  }
  /// Returns the commands of exports() and those that also require optimizer states. A folder of weights has none,
  /// which these commands report after all other checks.
  static commands all_exports(const std::string& from, bool is_llama) {
    auto out = exports(from, is_llama);
    out["out_ds"] = {"checkpoint", "to-deepspeed", from, "out_ds", "--job", "job.yaml"};
    out["out_universal"] = {"checkpoint", "to-universal", from, "out_universal", "--job", "job.yaml"};
    out["out_reshaped"] = {"checkpoint", "reshape", from, "out_reshaped"};
    return out;
  }

  std::vector<owned_tensor> tensors;
};

}  // namespace troupe::tests
