// Checks that the bytes which a segment keeps for its backward equal those in the model's table.
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <fmt/format.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <unordered_map>
#include <utility>

#include "models/segment/products.hpp"
#include "models/table/row_tiles.hpp"
#include "tests/models/model_fixture.hpp"

namespace troupe::models {

BOOST_AUTO_TEST_SUITE(memory)

namespace {

/// Counts the live bytes of all LibTorch tensors, from its first use to the end of the program. Only for one thread.
class counting_allocator final : public c10::Allocator {
 public:
  static counting_allocator& installed() {
    static auto* the = [] {
      auto* made = new counting_allocator;  // is never destroyed, because tensors may outlive the test
      c10::SetCPUAllocator(made, /*priority=*/1);
      return made;
    }();
    return *the;
  }
  c10::DataPtr allocate(size_t bytes) override {
    void* data = c10::GetDefaultCPUAllocator()->raw_allocate(bytes);
    sizes_[data] = bytes;
    live_ += static_cast<int64_t>(bytes);
    most_ = std::max(most_, live_);
    return {data, data, &free_counted, c10::Device(c10::kCPU)};
  }
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return &free_counted; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
  [[nodiscard]] int64_t live() const { return live_; }
  /// Returns the peak of live bytes since the last call of this function.
  int64_t most() { return std::exchange(most_, live_); }

 private:
  static void free_counted(void* data) {
    auto& the = installed();
    if (const auto known = the.sizes_.find(data); known != the.sizes_.end()) {
      the.live_ -= static_cast<int64_t>(known->second);
      the.sizes_.erase(known);
    }
    c10::GetDefaultCPUAllocator()->raw_deallocate(data);
  }
  std::unordered_map<void*, size_t> sizes_;
  int64_t live_ = 0, most_ = 0;
};

void check_saved_bytes(const std::string& json, core::dtype type, uint64_t rows = 2, uint64_t head_tile_rows = 0,
                       uint64_t mlp_tile_rows = 0) {
  const uint64_t columns = 128;
  bound_model m(json, type, rows, columns, head_tile_rows, mlp_tile_rows);
  owned_batch data(rows, columns, m.spec.vocabulary);
  at::Tensor hidden = m.model->forward(0, 0, data.batch, {}, m.binding)->output();
  const double hidden_bytes = static_cast<double>(hidden.nbytes());
  const auto& units = m.model->table().units;
  for (uint32_t u = 1; u < units.size(); ++u)
    for (uint32_t s = 0; s < units[u].segments.size(); ++s) {
      const int64_t before = counting_allocator::installed().live();
      const auto run = m.model->forward(u, s, data.batch, hidden, m.binding);
      const double kept = static_cast<double>(counting_allocator::installed().live() - before);
      const bool head = u + 1 == units.size();
      // The table includes the input, which was allocated before the measurement, but not the output, which is the next
      // segment's input; in size, the two cancel. The head's output is a scalar.
      const double wanted = static_cast<double>(units[u].segments[s].saved_bytes) - (head ? hidden_bytes : 0);
      BOOST_TEST(std::abs(kept / wanted - 1) < 0.02,
                 units[u].segments[s].name << " keeps " << kept << " bytes, the table says " << wanted);
    }
}

/// Checks the bytes that the segments of a block keep on one of two tensor ranks. Each reads what the one before has
/// returned: a summand has the size of the sum.
void check_cut_bytes(const std::string& json, core::dtype type) {
  bound_model m(json, type, 2, 128, 0, 0, {.split = {.degree = 2}});
  owned_batch data(2, 128, m.spec.vocabulary);
  values hidden = m.model->forward(0, 0, data.batch, {}, m.binding)->outputs();
  const auto& segments = m.model->table().units[1].segments;
  BOOST_TEST_REQUIRE(segments.size() == 4U);
  for (uint32_t s = 0; s < segments.size(); ++s) {
    const int64_t before = counting_allocator::installed().live();
    const auto run = m.model->forward(1, s, data.batch, hidden, m.binding);
    const auto kept = static_cast<double>(counting_allocator::installed().live() - before);
    const auto wanted = static_cast<double>(segments[s].saved_bytes);  // the output's bytes are those of the input
    BOOST_TEST(std::abs(kept / wanted - 1) < 0.02,
               segments[s].name << " keeps " << kept << " bytes, the table says " << wanted);
    hidden = run->outputs();
  }
}

/// Checks the bytes that segments keep with `keeps_light`, and that their backward then needs at most the additional
/// bytes that the table predicts, apart from gradients.
void check_light_bytes(const std::string& json, core::dtype type) {
  auto& counted = counting_allocator::installed();
  bound_model m(json, type, 2, 128);
  owned_batch data(2, 128, m.spec.vocabulary);
  const at::Tensor hidden = m.model->forward(0, 0, data.batch, {}, m.binding)->output();
  for (uint32_t s = 0; s < 2; ++s) {
    const core::segment_info& segment = m.model->table().units[1].segments[s];
    if (segment.light.flops == 0) continue;  // there is no smaller set, and plans never ask for one
    int64_t peaks[2];
    for (const bool light : {false, true}) {
      data.batch.keeps_light = light;
      tensor_sink sink(m.model->table(), type);
      const int64_t before = counted.live();
      const auto run = m.model->forward(1, s, data.batch, hidden, m.binding);
      const auto kept = static_cast<double>(counted.live() - before);
      const auto wanted = static_cast<double>(light ? segment.light.bytes : segment.saved_bytes);
      BOOST_TEST(std::abs(kept / wanted - 1) < 0.02,
                 segment.name << " keeps " << kept << ", the table says " << wanted);
      const at::Tensor gradient = at::full(hidden.sizes(), 0.01, hidden.options());
      (void)counted.most();
      (void)run->backward(gradient, sink);
      peaks[light] = counted.most() - before;
    }
    // A segment that keeps all activations recomputes the norm's output too, but later, when the measured tensors are
    // freed.
    const auto more = static_cast<double>(peaks[1] - peaks[0]);
    const double beside =
        static_cast<double>(segment.light.bytes + segment.light.beside) - static_cast<double>(segment.saved_bytes);
    BOOST_TEST(more <= beside + 0.02 * static_cast<double>(segment.saved_bytes),
               segment.name << " takes " << more << " bytes more, the table says " << beside);
  }
}

/// Checks the peak bytes of a head in row tiles during backward, not counting the norm's rows and their gradient, which
/// every head needs.
void check_tile_bytes(const std::string& json, core::dtype type, uint64_t head_tile_rows) {
  auto& counted = counting_allocator::installed();
  bound_model m(json, type, 40, 128, head_tile_rows);
  owned_batch data(40, 128, m.spec.vocabulary);
  tensor_sink sink(m.model->table(), type);
  const auto& units = m.model->table().units;
  const auto head = static_cast<uint32_t>(units.size() - 1);
  const at::Tensor hidden = m.model->forward(0, 0, data.batch, {}, m.binding)->output();
  const auto run = m.model->forward(head, 0, data.batch, hidden, m.binding);
  const int64_t before = counted.live();
  (void)counted.most();
  (void)run->backward(at::full({}, 1.0, run->output().options()), sink);
  // The tolerance covers the factors of the gradient, which are converted to fp32 tile by tile (widened_products.hpp).
  double scratch = type == core::dtype::bf16 ? 4.0 * 1024 * (m.spec.vocabulary + m.spec.width) : 0;
  // If oneDNN computes fp32 products, it copies a panel of the logits' gradient, because it reads it transposed.
  const auto vocabulary = static_cast<int64_t>(m.spec.vocabulary), width = static_cast<int64_t>(m.spec.width);
  if (products_by(at::kFloat, vocabulary, panel_rows, width) == product_library::onednn)
    scratch += 4.0 * panel_rows * static_cast<double>(m.spec.vocabulary);
  const auto taken = static_cast<double>(counted.most() - before), rows = 2.0 * static_cast<double>(hidden.nbytes());
  const auto wanted = static_cast<double>(units[head].segments[0].tile_bytes);
  BOOST_TEST(taken <= 1.02 * (wanted + rows) + scratch, "takes " << taken << " bytes, the table says " << wanted);
  BOOST_TEST(taken >= wanted, "takes " << taken << " bytes, the table says " << wanted);
}

/// Checks the peak bytes of an MLP in row tiles, in forward and in backward, not counting the gradient of its input.
void check_mlp_tile_bytes(const std::string& json, core::dtype type, uint64_t mlp_tile_rows) {
  auto& counted = counting_allocator::installed();
  bound_model m(json, type, 40, 128, 0, mlp_tile_rows);
  owned_batch data(40, 128, m.spec.vocabulary);
  tensor_sink sink(m.model->table(), type);
  const auto& segments = m.model->table().units[1].segments;
  const auto last = static_cast<uint32_t>(segments.size() - 1);
  const core::segment_info& mlp = segments[last];
  const at::Tensor hidden = m.model->forward(0, 0, data.batch, {}, m.binding)->output();
  const auto rows = static_cast<double>(hidden.nbytes()), wanted = static_cast<double>(mlp.tile_bytes);
  int64_t before = counted.live();
  (void)counted.most();
  const auto run = m.model->forward(1, last, data.batch, hidden, m.binding);
  // A segment that computes attention as well has that one's tensors in its forward.
  if (last == 1) BOOST_TEST(static_cast<double>(counted.most() - before) <= 1.02 * (wanted + rows));
  const at::Tensor gradient = at::full(hidden.sizes(), 0.01, hidden.options());
  before = counted.live();
  (void)counted.most();
  (void)run->backward(gradient, sink);
  // The tolerance covers oneDNN's copy of a panel that it reads transposed, or tiles of factors converted to fp32.
  const double scratch = 4.0 * panel_rows * m.spec.inner;
  const auto taken = static_cast<double>(counted.most() - before);
  BOOST_TEST(taken <= 1.02 * (wanted + rows) + scratch, "takes " << taken << ", the table says " << wanted);
  BOOST_TEST(taken >= wanted, "takes " << taken << " bytes, the table says " << wanted);
}

/// Checks the bytes that every segment keeps between the two parts of its backward, and that it keeps none after the
/// second.
void check_weight_bytes(const std::string& json, core::dtype type, uint64_t rows = 2, uint64_t head_tile_rows = 0,
                        uint64_t mlp_tile_rows = 0) {
  const auto live = [] { return counting_allocator::installed().live(); };
  bound_model m(json, type, rows, 128, head_tile_rows, mlp_tile_rows);
  owned_batch data(rows, 128, m.spec.vocabulary);
  tensor_sink sink(m.model->table(), type);
  at::Tensor hidden;
  const auto& units = m.model->table().units;
  for (uint32_t u = 0; u < units.size(); ++u)
    for (uint32_t s = 0; s < units[u].segments.size(); ++s) {
      const int64_t before = live();
      const auto run = m.model->forward(u, s, data.batch, hidden, m.binding);
      const at::Tensor output = run->output();
      (void)run->backward_input(at::full(output.sizes(), 0.01, output.options()));
      const auto kept = static_cast<double>(live() - before) - static_cast<double>(output.nbytes());
      const auto wanted = static_cast<double>(units[u].segments[s].weight_bytes);
      BOOST_TEST(std::abs(kept / wanted - 1) < 0.02,
                 units[u].segments[s].name << " keeps " << kept << " bytes, the table says " << wanted);
      run->backward_weight(sink);
      BOOST_TEST(static_cast<double>(live() - before) < static_cast<double>(output.nbytes()) + 0.01 * wanted);
      hidden = output;
    }
}

}  // namespace

const std::string gpt2_json = R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 128, "n_head": 4, "n_positions": 128,
                                  "vocab_size": 400})";
const std::string llama_json =
    R"({"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 128, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 200, "max_position_embeddings": 128, "vocab_size": 400})";

const std::string qwen3_json =
    R"({"model_type": "qwen3", "num_hidden_layers": 1, "hidden_size": 128, "num_attention_heads": 4, "head_dim": 48,
        "num_key_value_heads": 2, "intermediate_size": 200, "max_position_embeddings": 128, "vocab_size": 400})";

const std::string olmo2_json =
    R"({"model_type": "olmo2", "num_hidden_layers": 1, "hidden_size": 128, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 200, "max_position_embeddings": 128, "vocab_size": 400})";
const std::string granite_json =
    R"({"model_type": "granite", "num_hidden_layers": 1, "hidden_size": 128, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 200, "max_position_embeddings": 128, "vocab_size": 400,
        "embedding_multiplier": 3, "residual_multiplier": 0.5, "logits_scaling": 2, "attention_multiplier": 0.2})";

const std::string gemma2_json =
    R"({"model_type": "gemma2", "num_hidden_layers": 1, "hidden_size": 128, "num_attention_heads": 4, "head_dim": 48,
        "num_key_value_heads": 2, "intermediate_size": 200, "max_position_embeddings": 128, "vocab_size": 400,
        "sliding_window": 40})";

const std::string phi3_json =
    R"({"model_type": "phi3", "num_hidden_layers": 1, "hidden_size": 128, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 200, "max_position_embeddings": 128, "vocab_size": 400,
        "partial_rotary_factor": 0.5})";

const std::string gemma3_json =
    R"({"model_type": "gemma3_text", "num_hidden_layers": 1, "hidden_size": 128, "num_attention_heads": 4,
        "head_dim": 48, "num_key_value_heads": 2, "intermediate_size": 200, "max_position_embeddings": 128,
        "vocab_size": 400, "sliding_window": 40, "final_logit_softcapping": 20})";

const std::string gpt_neox_json =
    R"({"model_type": "gpt_neox", "num_hidden_layers": 1, "hidden_size": 128, "num_attention_heads": 4,
        "intermediate_size": 200, "max_position_embeddings": 128, "vocab_size": 400})";
const std::string gpt_neox_dropout_json =
    R"({"model_type": "gpt_neox", "num_hidden_layers": 1, "hidden_size": 128, "num_attention_heads": 4,
        "intermediate_size": 200, "max_position_embeddings": 128, "vocab_size": 400, "hidden_dropout": 0.1})";
const std::string gpt_neox_sequential_json =
    R"({"model_type": "gpt_neox", "num_hidden_layers": 1, "hidden_size": 128, "num_attention_heads": 4,
        "intermediate_size": 200, "max_position_embeddings": 128, "vocab_size": 400, "use_parallel_residual": false})";

const std::string smollm3_json =
    R"({"model_type": "smollm3", "num_hidden_layers": 2, "hidden_size": 128, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 200, "max_position_embeddings": 128, "vocab_size": 400,
        "no_rope_layers": [0, 1], "pad_token_id": null})";

const std::string bert_json =
    R"({"model_type": "bert", "num_hidden_layers": 1, "hidden_size": 128, "num_attention_heads": 4,
        "intermediate_size": 200, "max_position_embeddings": 128, "vocab_size": 400, "hidden_dropout_prob": 0,
        "attention_probs_dropout_prob": 0})";
const std::string bert_by_kernel_json =
    R"({"model_type": "bert", "num_hidden_layers": 1, "hidden_size": 128, "num_attention_heads": 4,
        "intermediate_size": 200, "max_position_embeddings": 128, "vocab_size": 400, "hidden_act": "gelu_new"})";

const std::string gpt2_by_aten_json = R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 128, "n_head": 4,
                                          "n_positions": 128, "vocab_size": 400, "activation_function": "relu"})";
const std::string llama_by_aten_json =
    R"({"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 128, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 200, "max_position_embeddings": 128, "vocab_size": 400,
        "hidden_act": "gelu", "mlp_bias": true})";

BOOST_AUTO_TEST_CASE(gpt2_keeps_the_bytes_of_its_table) {
  for (const core::dtype type : {core::dtype::f32, core::dtype::bf16}) check_saved_bytes(gpt2_json, type);
}

BOOST_AUTO_TEST_CASE(llama_keeps_the_bytes_of_its_table) {
  for (const core::dtype type : {core::dtype::f32, core::dtype::bf16}) check_saved_bytes(llama_json, type);
}

BOOST_AUTO_TEST_CASE(models_with_further_norms_and_factors_keep_the_bytes_of_their_tables) {
  for (const auto& json :
       {qwen3_json, olmo2_json, granite_json, gemma2_json, gemma3_json, phi3_json, gpt_neox_json, gpt_neox_dropout_json,
        gpt_neox_sequential_json, smollm3_json, bert_json, bert_by_kernel_json})
    for (const core::dtype type : {core::dtype::f32, core::dtype::bf16}) BOOST_TEST_CONTEXT(json) {
        check_saved_bytes(json, type);
        check_weight_bytes(json, type);
      }
}

// An activation whose backward reads its output keeps one tensor less, and "linear" has no output of its own.
BOOST_AUTO_TEST_CASE(activations_that_aten_computes_keep_the_bytes_of_their_table) {
  const auto with = [](std::string json, const std::string& key, std::string_view act) {
    json.back() = ',';
    return fmt::format("{}\"{}\": \"{}\"}}", json, key, act);
  };
  for (const activation act : all_activations)
    for (const core::dtype type : {core::dtype::f32, core::dtype::bf16}) BOOST_TEST_CONTEXT(name_of(act)) {
        for (const auto& json :
             {with(gpt2_json, "activation_function", name_of(act)), with(llama_json, "hidden_act", name_of(act)),
              with(phi3_json, "hidden_act", name_of(act)), with(bert_json, "hidden_act", name_of(act))}) {
          check_saved_bytes(json, type);
          check_weight_bytes(json, type);
        }
      }
}

BOOST_AUTO_TEST_CASE(segments_of_norms_behind_sums_of_tensor_ranks_keep_the_bytes_of_their_table) {
  for (const auto& json : {gemma2_json, gemma3_json})
    for (const core::dtype type : {core::dtype::f32, core::dtype::bf16}) BOOST_TEST_CONTEXT(json) {
        check_cut_bytes(json, type);
      }
}

BOOST_AUTO_TEST_CASE(segments_that_keep_less_keep_and_take_the_bytes_of_their_table) {
  for (const auto& json : {gpt2_json, llama_json, qwen3_json, granite_json, smollm3_json})
    for (const core::dtype type : {core::dtype::f32, core::dtype::bf16}) BOOST_TEST_CONTEXT(json) {
        check_light_bytes(json, type);
      }
}

BOOST_AUTO_TEST_CASE(between_the_parts_of_a_backward_the_bytes_of_the_table_stay_and_behind_them_none) {
  for (const auto& json : {gpt2_json, llama_json})
    for (const core::dtype type : {core::dtype::f32, core::dtype::bf16}) check_weight_bytes(json, type);
}

BOOST_AUTO_TEST_CASE(a_head_in_row_tiles_keeps_and_takes_the_bytes_of_its_table) {
  for (const auto& json : {gpt2_json, llama_json})
    for (const core::dtype type : {core::dtype::f32, core::dtype::bf16}) {
      check_saved_bytes(json, type, 40, panel_rows);
      check_weight_bytes(json, type, 40, panel_rows);
      for (const uint64_t panels : {1, 2}) check_tile_bytes(json, type, panels * panel_rows);
    }
}

BOOST_AUTO_TEST_CASE(an_encoder_in_row_tiles_keeps_the_bytes_of_its_table) {
  for (const core::dtype type : {core::dtype::f32, core::dtype::bf16}) {
    check_saved_bytes(bert_json, type, 40, panel_rows, panel_rows);
    check_weight_bytes(bert_json, type, 40, panel_rows, panel_rows);
  }
}

BOOST_AUTO_TEST_CASE(a_head_with_a_divisor_or_a_soft_cap_keeps_and_takes_the_bytes_of_its_table) {
  for (const auto& json : {granite_json, gemma3_json})
    for (const core::dtype type : {core::dtype::f32, core::dtype::bf16}) BOOST_TEST_CONTEXT(json) {
        check_saved_bytes(json, type, 40, panel_rows);
        check_weight_bytes(json, type, 40, panel_rows);
        check_tile_bytes(json, type, panel_rows);
      }
}

BOOST_AUTO_TEST_CASE(an_mlp_in_row_tiles_keeps_and_takes_the_bytes_of_its_table) {
  for (const auto& json : {gpt2_json, llama_json, gpt2_by_aten_json, llama_by_aten_json})
    for (const core::dtype type : {core::dtype::f32, core::dtype::bf16}) BOOST_TEST_CONTEXT(json) {
        check_saved_bytes(json, type, 40, 0, panel_rows);
        check_weight_bytes(json, type, 40, 0, panel_rows);
        for (const uint64_t panels : {1, 2}) check_mlp_tile_bytes(json, type, panels * panel_rows);
      }
}

BOOST_AUTO_TEST_CASE(mlps_with_further_norms_and_packed_ones_in_row_tiles_have_the_bytes_of_their_tables) {
  for (const auto& json : {olmo2_json, gemma2_json, phi3_json, gpt_neox_json})
    for (const core::dtype type : {core::dtype::f32, core::dtype::bf16}) BOOST_TEST_CONTEXT(json) {
        check_saved_bytes(json, type, 40, 0, panel_rows);
        check_weight_bytes(json, type, 40, 0, panel_rows);
        check_mlp_tile_bytes(json, type, panel_rows);
      }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::models
