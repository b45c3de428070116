// Compares logits, loss and gradients of tiny models with LoRA adapters with those of peft
// (tests/peer/make_lora_fixtures.py), and checks that gradients of adapters have the same bits in row tiles and in a
// split backward, and are the derivatives of the loss with dropout.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/convert/open_source.hpp"
#include "formats/names/name_map.hpp"
#include "formats/peft/merged_adapter.hpp"
#include "formats/source/source_reader.hpp"
#include "models/families/hugging_face.hpp"
#include "models/table/row_tiles.hpp"
#include "tests/models/model_fixture.hpp"
#include "tests/places.hpp"

namespace troupe::models {

BOOST_AUTO_TEST_SUITE(adapters)

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

/// Returns the base's spec with adapters for the layers of the folder.
model_spec spec_of(const std::string& base, const formats::peft_adapter& adapter) {
  model_spec out = take(read_spec(fixtures / base));
  adapter_spec& to = out.adapters.emplace();
  to.rank = static_cast<uint32_t>(adapter.options().rank);
  to.alpha = adapter.options().alpha;
  to.by_root = adapter.options().by_root;
  for (const auto& layer : adapter.layers()) to.layers.push_back(layer.name);
  for (const auto& p : adapter.parameters()) to.trained.push_back(p.name.substr(0, p.name.rfind('.')));
  return out;
}

/// A base of the fixtures with its adapter, and the results that peft computed with them.
struct adapted_model {
  explicit adapted_model(const std::string& base)
      : adapter(take(formats::peft_adapter::open(fixtures / ("lora_" + base)))),
        expected(take(formats::safetensors_file::open(adapter->folder() / "expected.safetensors"))),
        tokens(load(expected, "tokens")),
        rows(static_cast<uint64_t>(tokens.size(0))),
        columns(static_cast<uint64_t>(tokens.size(1)) - 1),
        ours(spec_of(base, *adapter), core::dtype::f32, rows, columns),
        data(rows, columns, ours.spec.vocabulary) {
    const auto& table = ours.model->table();
    const auto source = take(weights_source::open(fixtures / base, ours.spec, without_adapters(table)));
    for (uint32_t q = 0; q < table.parameters.size(); ++q) {
      const auto& info = table.parameters[q];
      std::vector<float> values(info.numel());
      const auto* const entry = adapter->find(info.name);
      const auto read = entry != nullptr ? adapter->read(*entry, 0, values) : source->read(q, 0, values);
      BOOST_REQUIRE_MESSAGE(read.has_value(), (read ? std::string() : read.error().text));
      ours.weights[q].copy_(at::from_blob(values.data(), info.shape));
    }
    std::copy_n(tokens.const_data_ptr<int64_t>(), data.tokens.size(), data.tokens.begin());
  }

  std::unique_ptr<formats::peft_adapter> adapter;
  formats::safetensors_file expected;
  at::Tensor tokens;
  uint64_t rows, columns;
  bound_model ours;
  owned_batch data;
};

/// Returns the relative difference between the logits of `m` for the tokens of `data` and those in `expected`.
double difference_of_logits(bound_model& m, const owned_batch& data, const formats::safetensors_file& expected) {
  micro_batch batch = data.batch;
  batch.training = false;
  at::Tensor logits, hidden;
  batch.logits = &logits;
  const auto& units = m.model->table().units;
  for (uint32_t u = 0; u < units.size(); ++u)
    for (uint32_t s = 0; s < units[u].segments.size(); ++s)
      hidden = m.model->forward(u, s, batch, hidden, m.binding)->output();
  return relative_difference(logits, load(expected, "logits"));
}

constexpr const char* bases[] = {"llama", "gpt2", "phi3"};

/// Returns a spec of one block whose linear layers all have adapters.
model_spec small_spec(float dropout) {
  model_spec out = take(parse_model_spec(
      R"({"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 2,
          "num_key_value_heads": 1, "intermediate_size": 12, "max_position_embeddings": 64, "vocab_size": 16})"));
  adapter_spec to;
  to.rank = 2;
  to.alpha = 3;
  to.dropout = dropout;
  for (const auto& l : make_model_table(out, 1, 1, 4).layers)
    if (l.kind == core::layer_kind::linear && l.name != "lm_head") to.layers.push_back(l.name);
  out.adapters = to;
  return out;
}

bool are_equal(const at::Tensor& a, const at::Tensor& b) {
  return std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

/// Runs forward, and backward in two parts: for each segment the input part, and then the weight part.
void step_in_parts(bound_model& m, const micro_batch& batch, gradient_sink& sink) {
  std::vector<std::unique_ptr<segment_run>> runs;
  values hidden;
  const auto& units = m.model->table().units;
  for (uint32_t u = 0; u < units.size(); ++u)
    for (uint32_t s = 0; s < units[u].segments.size(); ++s) {
      runs.push_back(m.model->forward(u, s, batch, hidden, m.binding));
      hidden = runs.back()->outputs();
    }
  values gradient = at::full({}, 1.0, hidden.first().options());
  std::vector<values> kept;  // gradients of outputs, which weight parts may read
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    kept.push_back(gradient);
    gradient = (*run)->backward_input(gradient);
  }
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) (*run)->backward_weight(sink);
}

}  // namespace

BOOST_AUTO_TEST_CASE(loss_and_gradients_of_adapters_are_those_of_peft) {
  for (const std::string base : bases) BOOST_TEST_CONTEXT(base) {
      adapted_model m(base);
      const auto& table = m.ours.model->table();
      tensor_sink sink(table, core::dtype::f32);
      const double loss = m.ours.step(m.data.batch, sink), wanted = load(m.expected, "loss").item<double>();
      BOOST_TEST(std::abs(loss - wanted) <= tolerance * wanted, loss << " against " << wanted);
      size_t compared = 0, gradients = 0;
      for (uint32_t q = 0; q < table.parameters.size(); ++q) {
        const auto& info = table.parameters[q];
        BOOST_TEST((sink.contributions[q] > 0) == info.trainable, info.name);
        if (!info.trainable) continue;
        ++compared;
        const double difference = relative_difference(sink.gradients[q], load(m.expected, "grad." + info.name));
        BOOST_TEST(difference <= tolerance, info.name << " differs by " << difference);
      }
      for (const auto& entry : m.expected.entries()) gradients += entry.name.starts_with("grad.") ? 1 : 0;
      BOOST_TEST(compared == gradients);
    }
}

BOOST_AUTO_TEST_CASE(logits_of_a_model_with_adapters_are_those_of_peft) {
  for (const std::string base : bases) BOOST_TEST_CONTEXT(base) {
      adapted_model m(base);
      const double difference = difference_of_logits(m.ours, m.data, m.expected);
      BOOST_TEST(difference <= tolerance, "the logits differ by " << difference);
    }
}

BOOST_AUTO_TEST_CASE(logits_of_a_base_with_the_adapter_in_its_weights_are_those_of_peft) {
  for (const std::string base : bases) BOOST_TEST_CONTEXT(base) {
      adapted_model with(base);
      bound_model m(take(read_spec(fixtures / base)), core::dtype::f32, with.rows, with.columns);
      std::shared_ptr<const formats::peft_adapter> adapter = take(formats::peft_adapter::open(with.adapter->folder()));
      const auto merged = take(formats::merged_with(take(checkpoint::open_source(fixtures / base)), adapter,
                                                    m.spec.family->layout == core::weight_layout::in_out));
      const formats::name_map names(merged);
      formats::source_reader reader(merged);
      for (uint32_t q = 0; q < m.weights.size(); ++q) {
        const auto& info = m.model->table().parameters[q];
        const auto* const entry =
            formats::find_tensor(merged, names.find(info.name).value_or(""), formats::tensor_kind::weight);
        BOOST_REQUIRE_MESSAGE(entry != nullptr, info.name);
        const auto read = reader.read_as(core::dtype::f32, *entry, 0, info.numel(),
                                         {static_cast<std::byte*>(m.weights[q].mutable_data_ptr()),
                                          info.numel() * sizeof(float)});
        BOOST_REQUIRE_MESSAGE(read.has_value(), (read ? std::string() : read.error().text));
      }
      const double difference = difference_of_logits(m, with.data, with.expected);
      BOOST_TEST(difference <= tolerance, "the logits differ by " << difference);
    }
}

BOOST_AUTO_TEST_CASE(gradients_of_adapters_are_the_derivatives_of_the_loss_with_dropout) {
  constexpr uint64_t rows = 2, columns = 6;
  for (const float dropout : {0.0F, 0.4F}) BOOST_TEST_CONTEXT("dropout " << dropout) {
      bound_model m(small_spec(dropout), core::dtype::f64, rows, columns);
      const owned_batch data(rows, columns, m.spec.vocabulary);
      const auto& table = m.model->table();
      tensor_sink sink(table, core::dtype::f64), unused(table, core::dtype::f64);
      m.step(data.batch, sink);
      constexpr double nudge = 1e-4;
      for (uint32_t q = 0; q < table.parameters.size(); ++q) {
        if (!table.parameters[q].trainable) continue;
        // The direction is the gradient itself, so that the derivative is the square of its norm.
        const double norm = sink.gradients[q].norm().item<double>();
        const at::Tensor before = m.weights[q].clone(), along = sink.gradients[q].div(norm);
        const auto loss_at = [&](double x) {
          m.weights[q].copy_(before.add(along.mul(x)));
          return m.step(data.batch, unused);
        };
        const double slope = (loss_at(nudge) - loss_at(-nudge)) / (2 * nudge);
        m.weights[q].copy_(before);
        BOOST_TEST(std::abs(slope / norm - 1) <= 1e-5, table.parameters[q].name << ": " << slope << " for " << norm);
      }
    }
}

BOOST_AUTO_TEST_CASE(a_split_backward_gives_adapters_the_bits_of_a_whole_one) {
  constexpr uint64_t rows = 2, columns = 6;
  for (const core::dtype type : {core::dtype::f32, core::dtype::bf16}) {
    bound_model m(small_spec(0.3F), type, rows, columns);
    const owned_batch data(rows, columns, m.spec.vocabulary);
    const auto& table = m.model->table();
    tensor_sink whole(table, type), parts(table, type);
    m.step(data.batch, whole);
    step_in_parts(m, data.batch, parts);
    for (uint32_t q = 0; q < table.parameters.size(); ++q)
      if (table.parameters[q].trainable)
        BOOST_TEST(are_equal(parts.gradients[q], whole.gradients[q]), table.parameters[q].name);
  }
}

BOOST_AUTO_TEST_CASE(an_mlp_in_row_tiles_gives_adapters_the_bits_of_one_without) {
  constexpr uint64_t rows = 41, columns = 64;  // more than one panel of rows
  static_assert(rows * columns > panel_rows);
  model_spec tiled = small_spec(0.3F);
  tiled.mlp_tile_rows = panel_rows;
  bound_model a(small_spec(0.3F), core::dtype::f32, rows, columns), b(tiled, core::dtype::f32, rows, columns);
  const owned_batch data(rows, columns, a.spec.vocabulary);
  const auto& table = a.model->table();
  tensor_sink whole(table, core::dtype::f32), in_tiles(table, core::dtype::f32);
  BOOST_TEST(a.step(data.batch, whole) == b.step(data.batch, in_tiles));
  for (uint32_t q = 0; q < table.parameters.size(); ++q)
    if (table.parameters[q].trainable)
      BOOST_TEST(are_equal(in_tiles.gradients[q], whole.gradients[q]), table.parameters[q].name);
}

BOOST_AUTO_TEST_CASE(rows_of_adapters_follow_the_others_and_belong_to_their_layers) {
  const model_spec spec = small_spec(0);
  model_spec base = spec;
  base.adapters.reset();
  const auto table = make_model_table(spec, 2, 8, 4), plain = make_model_table(base, 2, 8, 4);
  const size_t first = plain.parameters.size();
  BOOST_TEST_REQUIRE(table.parameters.size() == first + 2 * spec.adapters->layers.size());
  for (size_t q = 0; q < table.parameters.size(); ++q) {
    BOOST_TEST(table.parameters[q].of_adapter == (q >= first));
    BOOST_TEST(table.parameters[q].trainable == (q >= first));
  }
  for (const auto& l : table.layers) {
    if (!l.adapter) continue;
    BOOST_TEST(table.parameters[l.adapter->a].name == l.name + ".lora_A.weight");
    const auto &unit = table.units[l.unit].parameters, &segment = table.units[l.unit].segments[l.segment].parameters;
    for (const auto* all : {&l.parameters, &unit, &segment})
      for (const uint32_t q : {l.adapter->a, l.adapter->b})
        BOOST_TEST(std::ranges::count(*all, q) == 1, l.name);
  }
  const auto stripped = without_adapters(table);
  BOOST_TEST_REQUIRE(stripped.parameters.size() == first);
  for (size_t u = 0; u < plain.units.size(); ++u)
    BOOST_TEST(stripped.units[u].parameters == plain.units[u].parameters, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::models
