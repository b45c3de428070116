// Checks that backward in two parts (input gradients, then weight gradients) has the bits of backward as a whole,
// whatever happens between the parts.
#include <c10/util/Exception.h>

#include <boost/test/unit_test.hpp>
#include <limits>

#include "tests/models/model_fixture.hpp"

namespace troupe::models {

BOOST_AUTO_TEST_SUITE(split)

namespace {

const std::vector<std::string> families = {
    R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 32, "n_head": 4, "n_positions": 16, "vocab_size": 50,
        "resid_pdrop": 0.1, "embd_pdrop": 0.2, "attn_pdrop": 0.3})",
    R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 32, "n_head": 4, "n_positions": 16, "vocab_size": 50,
        "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0, "tie_word_embeddings": false,
        "activation_function": "relu"})",
    R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "vocab_size": 50,
        "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 16, "attention_dropout": 0.2,
        "attention_bias": true, "mlp_bias": true, "tie_word_embeddings": true})",
    R"({"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 4, "vocab_size": 50,
        "num_key_value_heads": 4, "intermediate_size": 48, "max_position_embeddings": 16, "hidden_act": "gelu"})"};
constexpr core::dtype types[] = {core::dtype::f32, core::dtype::bf16, core::dtype::f64};

/// A segment whose forward has run: its unit, its index in the unit, and a copy of its input that the test may
/// overwrite.
struct segment_at {
  uint32_t unit = 0, segment = 0;
  at::Tensor input;
  std::unique_ptr<segment_run> run;
};
using flight = std::vector<segment_at>;

/// A model whose parameters the test can bind and release; if `freezes` is true, some of them are frozen.
struct rig {
  rig(const std::string& json, core::dtype type, bool freezes)
      : model(json, type, 2, 8), table(model.model->table()), binding(frozen(freezes), type) {
    bind();
  }
  void bind() {
    for (uint32_t q = 0; q < model.weights.size(); ++q) binding.bind(q, model.weights[q].mutable_data_ptr());
  }
  void release() {
    for (uint32_t q = 0; q < model.weights.size(); ++q) binding.release(q);
  }

  /// Runs forward with a separate copy of every segment's input, so that the test can overwrite it.
  flight forward(const micro_batch& batch) {
    flight out;
    at::Tensor hidden;
    for (uint32_t u = 0; u < table.units.size(); ++u)
      for (uint32_t s = 0; s < table.units[u].segments.size(); ++s) {
        at::Tensor input = hidden.defined() ? hidden.clone() : hidden;
        auto run = model.model->forward(u, s, batch, input, binding);
        hidden = run->output();
        out.push_back({u, s, std::move(input), std::move(run)});
      }
    return out;
  }
  static at::Tensor loss_gradient(const flight& f) { return at::full({}, 0.5, f.back().run->output().options()); }

  bound_model model;
  core::model_table table;
  parameter_binding binding;

 private:
  // Freezes every third parameter, so that some weights are frozen without their bias, and some biases without their
  // weight.
  const core::model_table& frozen(bool freezes) {
    for (size_t q = 0; freezes && q < table.parameters.size(); q += 3) table.parameters[q].trainable = false;
    return table;
  }
};

void whole(flight& f, gradient_sink& sink, std::vector<at::Tensor>& inputs) {
  at::Tensor g = rig::loss_gradient(f);
  for (auto x = f.rbegin(); x != f.rend(); ++x) inputs.push_back(g = x->run->backward(g, sink));
}

/// Runs the input parts of backward and overwrites each segment's input after them, because the weight part must not
/// read it.
void input_parts(flight& f, std::vector<at::Tensor>& inputs) {
  at::Tensor g = rig::loss_gradient(f);
  for (auto x = f.rbegin(); x != f.rend(); ++x) {
    inputs.push_back(g = x->run->backward_input(g));
    BOOST_TEST(!x->run->output().defined());
    if (x->input.defined()) x->input.fill_(std::numeric_limits<double>::quiet_NaN());
  }
}

void weight_parts(flight& f, gradient_sink& sink) {
  for (auto x = f.rbegin(); x != f.rend(); ++x) {
    x->run->backward_weight(sink);
    x->run.reset();
  }
}

bool same(const at::Tensor& a, const at::Tensor& b) { return a.defined() ? b.defined() && a.equal(b) : !b.defined(); }

void check_same(const rig& r, const tensor_sink& got, const tensor_sink& wanted) {
  for (size_t q = 0; q < wanted.gradients.size(); ++q) {
    BOOST_TEST_INFO_SCOPE("q " << q);
    BOOST_TEST(got.contributions[q] == wanted.contributions[q]);
    if (wanted.contributions[q] > 0)
      BOOST_TEST(same(got.gradients[q], wanted.gradients[q]), r.table.parameters[q].name);
  }
}

}  // namespace

// The gradients of two micro-batches are added; the input parts of both run first, and all parameters are released
// before the weight parts run.
BOOST_AUTO_TEST_CASE(both_parts_give_the_bits_of_backward_at_once) {
  for (const auto& json : families)
    for (const core::dtype type : types)
      for (const bool freezes : {false, true})
        BOOST_TEST_CONTEXT(json << " in " << core::name_of(type) << ", frozen " << freezes) {
          rig r(json, type, freezes);
          const owned_batch first(2, 8, 50, 3), second(2, 8, 50, 4);
          tensor_sink wanted(r.table, type), got(r.table, type);
          std::vector<at::Tensor> wanted_inputs, inputs;
          for (const auto* batch : {&first, &second}) {
            flight f = r.forward(batch->batch);
            whole(f, wanted, wanted_inputs);
          }
          flight a = r.forward(first.batch), b = r.forward(second.batch);
          input_parts(a, inputs);
          input_parts(b, inputs);
          r.release();
          weight_parts(a, got);
          weight_parts(b, got);
          BOOST_TEST_REQUIRE(inputs.size() == wanted_inputs.size());
          for (size_t i = 0; i < inputs.size(); ++i) BOOST_TEST(same(inputs[i], wanted_inputs[i]));
          check_same(r, got, wanted);
        }
}

BOOST_AUTO_TEST_CASE(one_recomputation_serves_both_parts) {
  for (const auto& json : families) BOOST_TEST_CONTEXT(json) {
      rig r(json, core::dtype::bf16, false);
      const owned_batch data(2, 8, 50);
      tensor_sink wanted(r.table, core::dtype::bf16), got(r.table, core::dtype::bf16);
      std::vector<at::Tensor> ignored;
      flight f = r.forward(data.batch);
      whole(f, wanted, ignored);
      f = r.forward(data.batch);
      for (auto& x : f) x.run = r.model.model->forward(x.unit, x.segment, data.batch, x.input, r.binding);
      input_parts(f, ignored);
      weight_parts(f, got);
      check_same(r, got, wanted);
    }
}

// Gradients are summed in fp32 and parameters are bf16, as in jobs that sum micro-batches first.
BOOST_AUTO_TEST_CASE(gradients_of_another_type_are_the_same_too) {
  rig r(families.front(), core::dtype::bf16, false);
  const owned_batch data(2, 8, 50);
  tensor_sink wanted(r.table, core::dtype::f32), got(r.table, core::dtype::f32);
  std::vector<at::Tensor> ignored;
  flight f = r.forward(data.batch);
  whole(f, wanted, ignored);
  f = r.forward(data.batch);
  input_parts(f, ignored);
  weight_parts(f, got);
  check_same(r, got, wanted);
}

BOOST_AUTO_TEST_CASE(a_weight_part_without_its_input_part_is_an_error) {
  rig r(families.front(), core::dtype::f32, false);
  const owned_batch data(2, 8, 50);
  tensor_sink sink(r.table, core::dtype::f32);
  flight f = r.forward(data.batch);
  for (auto& x : f) BOOST_CHECK_THROW(x.run->backward_weight(sink), c10::Error);
  std::vector<at::Tensor> ignored;
  input_parts(f, ignored);
  for (auto x = f.rbegin(); x != f.rend(); ++x) {
    x->run->backward_weight(sink);
    BOOST_CHECK_THROW(x->run->backward_weight(sink), c10::Error);
    if (x->unit > 0) BOOST_CHECK_THROW(x->run->backward(ignored.front(), sink), c10::Error);
  }
}

// Forward computes the first rows, and multiply() the others. The output equals that of a whole forward up to rounding,
// and for a given output gradient backward has the same bits.
BOOST_AUTO_TEST_CASE(an_output_in_pieces_of_rows_is_that_of_all_rows) {
  for (const auto& json : families)
    for (const core::dtype type : types) BOOST_TEST_CONTEXT(json << ", " << core::name_of(type)) {
        bound_model m(json, type, 2, 8);
        const owned_batch data(2, 8, 50);
        const double most = type == core::dtype::bf16 ? 2e-2 : type == core::dtype::f32 ? 1e-6 : 1e-14;
        at::Tensor hidden = m.model->forward(0, 0, data.batch, {}, m.binding)->output().clone();
        for (uint32_t s = 0; s < 2; ++s) {
          BOOST_TEST_INFO_SCOPE("s " << s);
          micro_batch first = data.batch;
          first.first_rows = 5;
          const auto whole = m.model->forward(1, s, data.batch, hidden, m.binding);
          const auto pieces = m.model->forward(1, s, first, hidden, m.binding);
          const at::Tensor g = at::full({}, 0.5, hidden.options()).expand(hidden.sizes()).mul(whole->output());
          pieces->multiply(5, 6);
          pieces->multiply(11, 6);  // only five rows remain, fewer than the requested six
          BOOST_TEST(relative_difference(pieces->output(), whole->output()) <= most);
          const at::Tensor next = whole->output().clone();
          tensor_sink of_whole(m.model->table(), type), of_pieces(m.model->table(), type);
          pieces->release_outputs();
          const at::Tensor dx = whole->backward(g, of_whole), of_rows = pieces->backward(g, of_pieces);
          BOOST_TEST(dx.equal(of_rows));
          for (const uint32_t q : m.model->table().units[1].segments[s].parameters)
            BOOST_TEST(of_whole.gradients[q].equal(of_pieces.gradients[q]), m.model->table().parameters[q].name);
          hidden = next;
        }
      }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::models
