// Compares logits, loss and every gradient of tiny random models with those of Hugging Face's transformers
// (tests/peer/make_model_fixtures.py).
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "core/token_order.hpp"
#include "formats/safetensors/safetensors.hpp"
#include "models/families/hugging_face.hpp"
#include "tests/models/model_fixture.hpp"
#include "tests/places.hpp"

namespace troupe::models {

BOOST_AUTO_TEST_SUITE(peer)

namespace {

const std::filesystem::path fixtures =
    std::filesystem::path(troupe::places::source_dir) / "tests" / "models" / "fixtures";

constexpr double tolerance = 1e-5;  // the largest allowed ||difference|| / ||reference|| of a tensor in fp32

at::Tensor load(const formats::safetensors_file& file, const std::string& name) {
  const auto* entry = file.find(name);
  BOOST_REQUIRE_MESSAGE(entry != nullptr, name << " is missing from the fixture");
  at::Tensor t = at::full(entry->shape, 0, at::TensorOptions().dtype(torch_of(entry->type)));
  const auto bytes = take(file.bytes(*entry));
  std::memcpy(t.mutable_data_ptr(), bytes.data(), bytes.size());
  return t;
}

std::string gradient_name(const std::string& parameter) { return std::string("grad.").append(parameter); }

/// A model with the weights of the fixture, and the results that transformers computed with them.
struct peer_model {
  peer_model(const std::string& name, core::dtype type, const std::string& file = "expected.safetensors")
      : expected(take(formats::safetensors_file::open(fixtures / name / file))),
        tokens(load(expected, "tokens")),
        rows(static_cast<uint64_t>(tokens.size(0))),
        columns(static_cast<uint64_t>(tokens.size(1)) - 1),
        ours(take(read_spec(fixtures / name)).hugging_face_json, type, rows, columns),
        data(rows, columns, ours.spec.vocabulary) {
    const auto& table = ours.model->table();
    const auto source = take(weights_source::open(fixtures / name, ours.spec, table));
    for (uint32_t p = 0; p < table.parameters.size(); ++p) {
      std::vector<float> values(table.parameters[p].numel());
      take_ok(source->read(p, 0, values));
      ours.weights[p].copy_(at::from_blob(values.data(), table.parameters[p].shape));
    }
    std::copy_n(tokens.const_data_ptr<int64_t>(), data.tokens.size(), data.tokens.begin());
    if (expected.find("targets") != nullptr) {  // an encoder, whose loss is the mean over the inputs with a target
      const at::Tensor labels = load(expected, "targets");
      targets.assign(labels.const_data_ptr<int64_t>(), labels.const_data_ptr<int64_t>() + labels.numel());
      for (int64_t& t : targets) t = t < 0 ? core::no_target : t;
      data.batch.targets = targets;
      data.batch.loss_factor =
          static_cast<double>(targets.size()) / static_cast<double>(std::ranges::count_if(targets, core::is_target));
    }
    if (expected.find("starts") == nullptr) return;
    const at::Tensor packed = load(expected, "starts").to(at::kInt);
    starts.assign(packed.const_data_ptr<int32_t>(), packed.const_data_ptr<int32_t>() + packed.numel());
    data.batch.document_start = starts;
  }
  static void take_ok(const core::result<void>& r) { BOOST_REQUIRE_MESSAGE(r.has_value(), r.error().text); }

  formats::safetensors_file expected;
  at::Tensor tokens;
  uint64_t rows, columns;
  bound_model ours;
  owned_batch data;
  std::vector<int64_t> targets;  // tokens that an encoder has to find
  std::vector<uint32_t> starts;  // first columns of the documents, if the fixture has packed rows
};

constexpr const char* names[] = {"gpt2",
                                 "gpt2_untied",
                                 "gpt2_scaled",
                                 "gpt2_by_layer",
                                 "llama",
                                 "llama_tied_bias",
                                 "llama_mish",
                                 "llama_padding",
                                 "llama_rope_llama3",
                                 "llama_rope_linear",
                                 "llama_rope_dynamic",
                                 "llama_rope_yarn",
                                 "llama_rope_longrope",
                                 "mistral",
                                 "mistral_window",
                                 "qwen2",
                                 "qwen2_window",
                                 "qwen2_padding",
                                 "qwen2_heads",
                                 "qwen3",
                                 "qwen3_bias",
                                 "olmo2",
                                 "olmo2_bias",
                                 "granite",
                                 "granite_bias",
                                 "gemma2",
                                 "gemma3",
                                 "gemma3_bias",
                                 "phi3",
                                 "phi3_longrope",
                                 "gpt_neox",
                                 "gpt_neox_sequential",
                                 "smollm3",
                                 "smollm3_untied",
                                 "bert",
                                 "bert_gelu_new",
                                 "roberta"};

/// The gradients that transformers computed in fp32, and the largest of their norms.
struct peer_gradients {
  explicit peer_gradients(const peer_model& m) {
    for (const auto& info : m.ours.model->table().parameters) {
      all.push_back(load(m.expected, gradient_name(info.name)).to(at::kDouble));
      largest = std::max(largest, all.back().norm().item<double>());
    }
  }
  /// True if the gradient of parameter `p` is 0 but for rounding, so that no relative difference has a meaning: the
  /// bias of keys without rotary positions adds one number to all scores of a query, which softmax does not see.
  [[nodiscard]] bool is_noise(uint32_t p) const { return all[p].norm().item<double>() <= 1e-6 * largest; }

  std::vector<at::Tensor> all;  // [parameter], in fp64
  double largest = 0;
};

void check_gradients(const std::string& name, const std::string& file = "expected.safetensors") {
  peer_model m(name, core::dtype::f32, file);
  tensor_sink sink(m.ours.model->table(), core::dtype::f32);
  const double loss = m.ours.step(m.data.batch, sink);
  const double wanted = load(m.expected, "loss").item<double>();
  BOOST_TEST(std::abs(loss - wanted) <= tolerance * wanted, loss << " against " << wanted);
  const peer_gradients peers(m);
  size_t compared = 0;
  for (uint32_t p = 0; p < sink.gradients.size(); ++p, ++compared) {
    const auto& info = m.ours.model->table().parameters[p];
    if (peers.is_noise(p)) {
      const double share = sink.gradients[p].to(at::kDouble).norm().item<double>() / peers.largest;
      BOOST_TEST(share <= 1e-6, info.name << " is " << share << " of the largest gradient, and 0 in exact numbers");
      continue;
    }
    const double difference = relative_difference(sink.gradients[p], peers.all[p]);
    BOOST_TEST(difference <= tolerance, info.name << " differs by " << difference);
  }
  size_t gradients = 0;
  for (const auto& entry : m.expected.entries()) gradients += entry.name.starts_with("grad.") ? 1 : 0;
  BOOST_TEST(compared == gradients);
}

/// Compares the logits of all tokens, which depend on the tokens behind them as well.
void check_logits_of_encoder(peer_model& m, const at::Tensor& wanted) {
  micro_batch batch = m.data.batch;
  batch.training = false;
  at::Tensor logits, hidden;
  batch.logits = &logits;
  const auto& units = m.ours.model->table().units;
  for (uint32_t u = 0; u < units.size(); ++u)
    for (uint32_t s = 0; s < units[u].segments.size(); ++s)
      hidden = m.ours.model->forward(u, s, batch, hidden, m.ours.binding)->output();
  const double difference = relative_difference(logits, wanted);
  BOOST_TEST(difference <= tolerance, "the logits differ by " << difference);
}

void check_logits(const std::string& name) {
  peer_model m(name, core::dtype::f32);
  const at::Tensor wanted = load(m.expected, "logits");
  if (m.ours.spec.family->is_encoder) return check_logits_of_encoder(m, wanted);
  const auto& units = m.ours.model->table().units;
  for (uint64_t row = 0; row < m.rows; ++row)
    for (uint64_t length = 1; length <= m.columns; ++length) {
      micro_batch batch = m.data.batch;
      const std::vector<int64_t> tokens(m.data.tokens.begin() + static_cast<long>(row * (m.columns + 1)),
                                        m.data.tokens.begin() + static_cast<long>(row * (m.columns + 1) + length + 1));
      batch.tokens = tokens;
      batch.rows = 1;
      batch.columns = length;
      batch.training = false;
      at::Tensor hidden;
      for (uint32_t u = 0; u + 1 < units.size(); ++u)
        for (uint32_t s = 0; s < units[u].segments.size(); ++s)
          hidden = m.ours.model->forward(u, s, batch, hidden, m.ours.binding)->output();
      std::vector<float> logits = m.ours.model->next_token_logits(batch, hidden, m.ours.binding);
      const double difference =
          relative_difference(at::from_blob(logits.data(), {static_cast<int64_t>(logits.size())}),
                              wanted[static_cast<int64_t>(row)][static_cast<int64_t>(length) - 1]);
      BOOST_TEST(difference <= tolerance, "row " << row << ", " << length << " tokens: " << difference);
    }
}

/// Rounding errors of a model's gradients in a 16-bit type: relative differences from transformers' gradients in fp32.
struct gradient_errors {
  double largest = 0, root_mean_square = 0;
};

/// Returns the errors of transformers' own gradients in `type`, if the fixture has them; else 0.
gradient_errors errors_of_peer(const peer_model& m, core::dtype type) {
  if (m.expected.find("spread") == nullptr) return {};
  const at::Tensor of_type = load(m.expected, "spread")[type == core::dtype::bf16 ? 0 : 1];
  return {of_type[0].item<double>(), of_type[1].item<double>()};
}

// Both models' errors are measured against the same gradients in fp32. They depend on the draw of weights and tokens:
// over 32 draws of gemma2 in bf16 the root mean square of all errors was 2.44e-2 (transformers 2.67e-2), but that of a
// single draw up to 1.51 times transformers' (0.97 times in the median), and its largest error up to 1.86 times.
void check_narrow_types(const std::string& name) {
  for (const core::dtype type : {core::dtype::bf16, core::dtype::f16}) {
    peer_model m(name, type);
    tensor_sink sink(m.ours.model->table(), type);
    const double loss = m.ours.step(m.data.batch, sink);
    const gradient_errors of_peer = errors_of_peer(m, type);
    // Several times the rounding errors 2^-9 of bf16 and 2^-12 of fp16.
    const double usual = type == core::dtype::bf16 ? 3e-2 : 4e-3, close = std::max(2 * of_peer.largest, usual);
    // Gradients of the norms of heads are small sums of large terms: transformers' own in bf16 and fp16 differ from its
    // fp32 by up to 3.03e-2 and 4.31e-3 for these models.
    const double close_in_heads = std::max(close, type == core::dtype::bf16 ? 4.5e-2 : 6.5e-3);
    const peer_gradients peers(m);
    double squares = 0, compared = 0;
    BOOST_TEST(std::abs(loss / load(m.expected, "loss").item<double>() - 1) <= usual);
    for (uint32_t p = 0; p < sink.gradients.size(); ++p) {
      const auto& info = m.ours.model->table().parameters[p];
      if (peers.is_noise(p)) {
        // transformers' own gradients that are 0 in exact numbers reach 1.5e-5 of the largest one.
        const double share = sink.gradients[p].to(at::kDouble).norm().item<double>() / peers.largest;
        BOOST_TEST(share <= 3e-5, core::name_of(type) << " " << info.name << " is " << share << " of the largest");
        continue;
      }
      const double difference = relative_difference(sink.gradients[p], peers.all[p]);
      const bool is_of_heads = info.name.ends_with(".q_norm.weight") || info.name.ends_with(".k_norm.weight");
      BOOST_TEST(difference <= (is_of_heads ? close_in_heads : close),
                 core::name_of(type) << " " << info.name << " differs by " << difference);
      squares += difference * difference;
      ++compared;
    }
    if (of_peer.root_mean_square == 0) continue;
    const double all = std::sqrt(squares / compared);
    BOOST_TEST(all <= std::max(1.5 * of_peer.root_mean_square, usual / 2),
               core::name_of(type) << " gradients differ by " << all << ", transformers' by "
                                   << of_peer.root_mean_square << " (root mean squares)");
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_loss_and_all_gradients_are_the_peers) {
  for (const char* name : names) {
    BOOST_TEST_CONTEXT(name) { check_gradients(name); }
  }
}

BOOST_AUTO_TEST_CASE(packed_documents_have_the_loss_and_gradients_of_the_peers_block_diagonal_mask) {
  for (const char* name : names) {
    BOOST_TEST_CONTEXT(name) { check_gradients(name, "packed.safetensors"); }
  }
}

BOOST_AUTO_TEST_CASE(the_logits_are_the_peers) {
  for (const std::string_view name : names) {
    // The fixture has the logits of whole sequences, and LongRoPE's frequencies depend on a sequence's length.
    if (name.ends_with("_longrope")) continue;
    BOOST_TEST_CONTEXT(name) { check_logits(std::string(name)); }
  }
}

BOOST_AUTO_TEST_CASE(narrow_types_stay_close_to_the_peer) {
  for (const char* name : names) {
    BOOST_TEST_CONTEXT(name) { check_narrow_types(name); }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::models
