// Tests refitting of weights, which compensates the quantisation errors of earlier layers: on one matrix, and over
// whole small models.
#include "models/compress/refit.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/norm.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "checkpoint/convert/open_source.hpp"
#include "core/math.hpp"
#include "kernels/base/random.hpp"
#include "models/compress/unit_methods.hpp"
#include "models/families/hugging_face.hpp"
#include "tests/models/model_fixture.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(refit)

using namespace troupe;
using namespace troupe::models;

namespace {

at::Tensor numbers(int64_t rows, int64_t columns, uint64_t seed) {
  const at::Tensor out = at::empty({rows, columns}, at::kFloat);
  kernels::fill_normal({out.mutable_data_ptr<float>(), static_cast<size_t>(out.numel())}, seed, 0, 0, 0.0F, 1.0F);
  return out;
}
double length(const at::Tensor& t) { return t.norm().item<double>(); }

/// Owns a folder with a model of random weights; biases and norms are near their usual initial values.
struct random_model {
  tests::scratch_folder folder;
  model_spec spec;
  core::model_table table;
  token_windows windows;

  explicit random_model(const std::string& json)
      : spec(take(parse_model_spec(json))), table(make_model_table(spec, 1, 32, sizeof(float))) {
    const auto values = [&](uint32_t q, uint64_t first, std::span<float> out) -> core::result<void> {
      const auto& p = table.parameters[q];
      kernels::fill_normal(out, 5, q, first, p.init == core::initial_value::ones ? 1.0F : 0.0F,
                           p.shape.size() == 2 ? 0.15F : 0.05F);
      return {};
    };
    BOOST_TEST_REQUIRE(write_folder(folder / "model", spec, table, core::dtype::f32, values).has_value());
    windows.columns = 32;
    for (uint64_t i = 0; i < 48 * 33; ++i)
      windows.tokens.push_back(static_cast<int64_t>(core::mix64(i / 2) % (1 + core::mix64(i) % spec.vocabulary)));
  }

  [[nodiscard]] std::shared_ptr<const checkpoint::stored_form> form(const std::string& name) const {
    for (const auto& p : table.parameters)
      if (p.name == name && p.shape.size() == 2 && name.find("wpe") == std::string::npos) {
        const bool turned = spec.family == &families::gpt2 && name.find("wte") == std::string::npos;
        const auto rows = static_cast<uint64_t>(p.shape[turned ? 1 : 0]);
        return checkpoint::form_of(formats::gguf_type::q4_0, rows, p.numel() / rows);
      }
    return nullptr;
  }

  /// Returns |current - original| / |original| for the inputs of the head, after all weights were quantised.
  double drift(const unit_walk& walk) const {
    double lost = 0, all = 0;
    BOOST_TEST(walk.each([&](window_range w) -> core::result<void> {
                     const auto was = walk.input_of(walk.steps(), w, walk_stream::original);
                     const auto now = walk.input_of(walk.steps(), w, walk_stream::current);
                     if (!was || !now) return core::fail((was ? now : was).error());
                     lost += std::pow(length(now->sub(*was)), 2);
                     all += std::pow(length(*was), 2);
                     return {};
                   })
                   .has_value());
    return std::sqrt(lost / all);
  }

  /// Returns drift() after every weight is rounded to the nearest value of its format.
  double rounded() const {
    const auto source = take(checkpoint::open_source(folder / "model"));
    std::filesystem::create_directory(folder / "rounded");
    const auto walk = take(unit_walk::open(spec, source, windows, folder / "rounded", {}));
    for (uint64_t step = 0; step < walk->steps(); ++step) {
      BOOST_TEST_INFO_SCOPE("step " << step);
      const auto [unit, segment] = walk->place(step);
      if (segment == 0) BOOST_TEST_REQUIRE(walk->weights().load(unit).has_value());
      BOOST_TEST_REQUIRE(walk->run(step, walk_stream::original, nullptr, true).has_value());
      for (const auto& l : walk->table().layers_of(unit, segment)) {
        if (!l.weight) continue;
        const auto stored = form(walk->weights().name_in_source(*l.weight));
        if (stored == nullptr) continue;
        const at::Tensor memory = walk->weights().tensor(*l.weight);
        const bool turned = l.layout && *l.layout == core::weight_layout::in_out;
        const at::Tensor w = (turned ? memory.t() : memory).clone(at::MemoryFormat::Contiguous);
        const std::span values(w.mutable_data_ptr<float>(), static_cast<size_t>(w.numel()));
        BOOST_TEST_REQUIRE(stored->round(values, {}).has_value());
        memory.copy_(turned ? w.t() : w);
      }
      BOOST_TEST_REQUIRE(walk->run(step, walk_stream::current, nullptr, true).has_value());
    }
    return drift(*walk);
  }

  /// Returns drift() after GPTQ has chosen the weights; sets `weights` to the number of stored weights.
  double solved(size_t& weights) const {
    const auto source = take(checkpoint::open_source(folder / "model"));
    auto store = take(checkpoint::weight_store::open(folder / "work", "a test"));
    const auto walk = take(unit_walk::open(spec, source, windows, folder / "work", {}));
    const auto ok = choose_weights(spec, *walk, store, {.form_of = [&](const std::string& n) { return form(n); }});
    BOOST_TEST_REQUIRE(ok.has_value(), (ok ? std::string() : ok.error().text));
    const auto made = take(store.prepared());
    weights = made.weights.size();
    BOOST_TEST(made.importance.size() == 1U);  // that of the embedding, which the export reads when it searches scales
    return drift(*walk);
  }
};

/// Counts the rows that layers multiplied, and those whose elements are not on a grid of 8 bits of their own.
class grid_check final : public input_watch {
 public:
  void takes(uint32_t /*weight*/, const at::Tensor& rows) override {
    for (int64_t i = 0; i < rows.size(0); ++i) {
      const double largest = rows[i].abs().max().item<double>();
      const auto off = [&](double codes) {
        const at::Tensor q = rows[i].mul(codes / largest);
        return q.sub(q.round()).abs().max().item<double>();
      };
      ++rows_;
      if (std::min(off(127), off(128)) > 1e-3) ++off_grid_;  // the largest code is 127, the least -128
    }
  }
  [[nodiscard]] uint64_t rows() const { return rows_; }
  [[nodiscard]] uint64_t off_grid() const { return off_grid_; }

 private:
  uint64_t rows_ = 0, off_grid_ = 0;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_walk_that_rounds_inputs_multiplies_rows_of_8_bits_and_has_a_loss_near_by) {
  for (const std::string json :
       {R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 2, "n_positions": 32, "vocab_size": 96})",
        R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 96, "vocab_size": 96,
            "num_attention_heads": 2, "max_position_embeddings": 32})"}) {
    const random_model m(json);
    const auto source = take(checkpoint::open_source(m.folder / "model"));
    std::filesystem::create_directory(m.folder / "loss");
    const auto loss = [&](bool rounds) {
      const auto walk = take(unit_walk::open(m.spec, source, m.windows, m.folder / "loss", {}));
      if (rounds) walk->round_inputs();
      grid_check seen;
      BOOST_TEST_REQUIRE(walk->weights().load(walk->place(0).first).has_value());
      BOOST_TEST_REQUIRE(walk->run(0, walk_stream::current, nullptr, true).has_value());
      BOOST_TEST_REQUIRE(walk->weights().load(walk->place(1).first).has_value());
      BOOST_TEST_REQUIRE(walk->forward(1, {0, 4}, walk_stream::current, &seen).has_value());
      BOOST_TEST(seen.rows() > 0U);
      BOOST_TEST((seen.off_grid() == 0) == rounds);
      return take(walk->loss());
    };
    const double plain = loss(false), rounded = loss(true);
    BOOST_TEST(plain != rounded);
    BOOST_TEST(std::abs(rounded / plain - 1) < 0.02);
  }
}

BOOST_AUTO_TEST_CASE(documents_of_one_window_have_the_loss_of_windows_of_their_own) {
  for (const std::string json :
       {R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 2, "n_positions": 32, "vocab_size": 96})",
        R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 96, "vocab_size": 96,
            "num_attention_heads": 2, "max_position_embeddings": 32})"}) {
    const random_model m(json);
    const auto source = take(checkpoint::open_source(m.folder / "model"));
    std::filesystem::create_directory(m.folder / "loss");
    const auto loss = [&](const token_windows& windows) {
      return take(take(unit_walk::open(m.spec, source, windows, m.folder / "loss", {}))->loss());
    };
    token_windows masked = m.windows, apart{.tokens = {}, .columns = 16};
    for (uint64_t w = 0; w < masked.count(); ++w)
      for (const uint32_t start : {0U, 16U}) {
        masked.document_starts.insert(masked.document_starts.end(), 16, start);
        const auto first = masked.tokens.begin() + static_cast<std::ptrdiff_t>(w * 33 + start);
        apart.tokens.insert(apart.tokens.end(), first, first + 17);
      }
    const double wanted = loss(apart);
    BOOST_TEST(std::abs(loss(masked) / wanted - 1) < 1e-5);
    BOOST_TEST(std::abs(loss(m.windows) / wanted - 1) > 1e-3);
  }
}

BOOST_AUTO_TEST_CASE(a_refitted_weight_gives_the_outputs_that_it_gave_before_its_inputs_changed) {
  const auto w = numbers(24, 32, 1), before = numbers(500, 32, 2);
  // In the first case the change of the inputs is a linear function of the inputs, in the second case it is not.
  const at::Tensor told = at::mm(before, numbers(32, 32, 3)).mul(0.05);
  for (const bool foretold : {true, false}) {
    BOOST_TEST_INFO_SCOPE("foretold " << foretold);
    const at::Tensor x = before.add(foretold ? told : numbers(500, 32, 4).mul(0.3));
    const auto missing = at::mm(w, at::mm(before.sub(x).t(), x));
    const auto now = take(refitted(w, missing, at::mm(x.t(), x), 1e-6));
    const at::Tensor wanted = at::mm(before, w.t());
    const double plain = length(at::mm(x, w.t()).sub(wanted)), left = length(at::mm(x, now.t()).sub(wanted));
    BOOST_TEST(left / plain < (foretold ? 1e-3 : 1.0));
    BOOST_TEST((foretold || left / plain > 0.8));
  }
}

BOOST_AUTO_TEST_CASE(damping_leaves_weights_where_they_are_and_no_loss_none_at_all) {
  const auto w = numbers(8, 16, 1), x = numbers(200, 16, 2), products = at::mm(x.t(), x);
  const auto missing = numbers(8, 16, 3).mul(20);
  double moved = 1e9;
  for (const double damping : {0.01, 1.0, 100.0}) {
    BOOST_TEST_INFO_SCOPE("damping " << damping);
    const double by = length(take(refitted(w, missing, products, damping)).sub(w));
    BOOST_TEST((by > 0 && by < 0.8 * moved));
    moved = by;
  }
  BOOST_TEST(at::equal(take(refitted(w, missing.mul(0), products)), w));
  BOOST_TEST(!refitted(w, missing, products.mul(std::nan(""))).has_value());
}

BOOST_AUTO_TEST_CASE(hidden_states_of_a_whole_model_end_nearer_to_the_original_s_than_by_rounding_to_nearest) {
  const std::map<std::string, size_t> weights_of{
      {R"({"model_type": "gpt2", "n_layer": 3, "n_embd": 64, "n_head": 2, "n_positions": 32, "vocab_size": 96})", 12},
      {R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 96, "vocab_size": 96,
           "num_attention_heads": 2, "max_position_embeddings": 32})",
       15}};  // 15 weights, because the head is not tied
  for (const auto& [json, weights] : weights_of) {
    const random_model m(json);
    size_t solved = 0;
    const double nearest = m.rounded(), ours = m.solved(solved);
    BOOST_TEST_MESSAGE("drift by rounding " << nearest << ", by gptq " << ours);
    BOOST_TEST(solved == weights);
    BOOST_TEST(ours < 0.6 * nearest);
  }
}

BOOST_AUTO_TEST_SUITE_END()
