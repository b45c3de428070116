// Tests parameters whose memory is bound and released, and gradients that are written to the sink's memory.
#include <c10/util/Exception.h>

#include <boost/test/unit_test.hpp>

#include "core/tied_copies.hpp"
#include "tests/models/model_fixture.hpp"

namespace troupe::models {

BOOST_AUTO_TEST_SUITE(binding)

namespace {

const std::string gpt2_json =
    R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 32, "n_head": 4, "n_positions": 16, "vocab_size": 50})";
const std::string llama_json =
    R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "vocab_size": 50,
        "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 16, "attention_dropout": 0.2})";

bool same_bits(const at::Tensor& a, const at::Tensor& b) { return a.equal(b); }

using segment_runs = std::vector<std::unique_ptr<segment_run>>;

segment_runs run_forward(bound_model& m, const micro_batch& batch, at::Tensor& hidden) {
  segment_runs runs;
  const auto& units = m.model->table().units;
  for (uint32_t u = 0; u < units.size(); ++u)
    for (uint32_t s = 0; s < units[u].segments.size(); ++s) {
      runs.push_back(m.model->forward(u, s, batch, hidden, m.binding));
      hidden = runs.back()->output();
    }
  return runs;
}

void run_backward(segment_runs& runs, at::Tensor gradient, gradient_sink& sink) {
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) gradient = (*run)->backward(gradient, sink);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_parameter_is_bound_while_it_has_bytes) {
  bound_model m(gpt2_json, core::dtype::f32, 1, 4);
  parameter_binding binding(m.model->table(), core::dtype::f32);
  BOOST_TEST(!binding.bound(0));
  binding.bind(0, m.weights[0].mutable_data_ptr());
  BOOST_TEST(binding.bound(0));
  BOOST_TEST(binding.tensor(0).const_data_ptr() == m.weights[0].const_data_ptr());
  BOOST_TEST(same_bits(binding.tensor(0), m.weights[0]));
  binding.release(0);
  BOOST_TEST(!binding.bound(0));
}

BOOST_AUTO_TEST_CASE(later_uses_of_a_tied_weight_read_and_write_their_copies) {
  bound_model tied(gpt2_json, core::dtype::f32, 2, 8), by_use(gpt2_json, core::dtype::f32, 2, 8);
  by_use.model->read_copies();
  const auto& table = by_use.model->table();
  const auto copy = static_cast<uint32_t>(table.parameters.size() - 1);
  BOOST_TEST_REQUIRE(table.original(copy) == 0U);
  parameter_binding binding(table, core::dtype::f32);
  at::Tensor own = by_use.weights[0].clone();
  for (uint32_t q = 0; q < copy; ++q) binding.bind(q, by_use.weights[q].mutable_data_ptr());
  binding.bind(copy, own.mutable_data_ptr());
  owned_batch data(2, 8, 50);
  tensor_sink wanted(tied.model->table(), core::dtype::f32), got(table, core::dtype::f32);
  const double loss = tied.step(data.batch, wanted);
  auto batch = data.batch;
  const auto by_token = core::order_of_inputs(batch.tokens, batch.columns);
  const auto by_column = core::order_of_columns(batch.document_start, batch.columns);
  batch.by_token = &by_token;
  batch.by_column = &by_column;
  segment_runs runs;
  at::Tensor hidden;
  for (uint32_t u = 0; u < table.units.size(); ++u)
    for (uint32_t s = 0; s < table.units[u].segments.size(); ++s) {
      BOOST_TEST_INFO_SCOPE("u " << u);
      runs.push_back(by_use.model->forward(u, s, batch, hidden, binding));
      hidden = runs.back()->output();
    }
  BOOST_TEST(hidden.item<double>() == loss);
  run_backward(runs, at::full({}, 1.0, hidden.options()), got);
  BOOST_TEST(wanted.contributions[0] == 2);
  BOOST_TEST(got.contributions[0] == 1);
  BOOST_TEST(got.contributions[copy] == 1);
  BOOST_TEST(got.gradients[0].add(got.gradients[copy]).allclose(wanted.gradients[0], 1e-5, 1e-7));
  for (uint32_t q = 1; q < copy; ++q) BOOST_TEST(same_bits(got.gradients[q], wanted.gradients[q]));
}

BOOST_AUTO_TEST_CASE(a_copy_of_a_hosts_tensor_is_that_tensor_bound_to_one_place_at_a_time) {
  core::model_table shared;
  core::parameter_info info;
  info.name = "shared";
  info.shape = {16};
  shared.parameters = {info};
  shared.units = {{"first", {0}, {{"forward", {0}}}}, {"second", {0}, {{"forward", {0}}}}};
  const auto table = core::with_copies(shared);
  const auto filled = [](double value) { return at::full({16}, value, at::TensorOptions().dtype(at::kFloat)); };
  const at::Tensor module = filled(0);
  parameter_binding binding(table, core::dtype::f32, {module});
  BOOST_TEST(binding.tensor(1).is_same(module));
  at::Tensor first = filled(1), second = filled(2);
  binding.bind(0, first.mutable_data_ptr());
  BOOST_TEST(same_bits(module, first));
  binding.bind(1, second.mutable_data_ptr());
  BOOST_TEST(same_bits(module, second));
  BOOST_TEST(!binding.bound(0));
  BOOST_TEST((binding.sharing(0) == std::vector<uint32_t>{1}));
  binding.bind(0, first.mutable_data_ptr());
  BOOST_TEST(same_bits(module, first));
  BOOST_TEST(!binding.bound(1));
}

BOOST_AUTO_TEST_CASE(touching_a_released_parameter_throws) {
  for (const std::string& json : {gpt2_json, llama_json}) {
    BOOST_TEST_INFO_SCOPE(json);
    bound_model m(json, core::dtype::f32, 2, 8);
    owned_batch data(2, 8, 50);
    at::Tensor hidden;
    segment_runs runs = run_forward(m, data.batch, hidden);
    tensor_sink sink(m.model->table(), core::dtype::f32);
    for (uint32_t p = 0; p < m.weights.size(); ++p) m.binding.release(p);
    for (uint32_t p = 0; p < m.weights.size(); ++p) {
      BOOST_TEST_INFO_SCOPE("p " << p);
      BOOST_CHECK_THROW(m.binding.tensor(p).clone(), c10::Error);
      BOOST_CHECK_THROW(m.binding.tensor(p).const_data_ptr(), c10::Error);
    }
    BOOST_CHECK_THROW(runs.back()->backward(at::full({}, 1.0), sink), c10::Error);
    const auto& units = m.model->table().units;
    at::Tensor input = runs.front()->output();
    for (uint32_t u = 0; u < units.size(); ++u)
      for (uint32_t s = 0; s < units[u].segments.size(); ++s)
        BOOST_CHECK_THROW(m.model->forward(u, s, data.batch, input, m.binding), c10::Error);
  }
}

BOOST_AUTO_TEST_CASE(releasing_between_forward_and_backward_changes_no_bit) {
  for (const std::string& json : {gpt2_json, llama_json})
    for (const core::dtype type : {core::dtype::f32, core::dtype::bf16}) {
      BOOST_TEST_INFO_SCOPE(core::name_of(type));
      BOOST_TEST_INFO_SCOPE(json);
      bound_model m(json, type, 2, 8);
      owned_batch data(2, 8, 50);
      tensor_sink resident(m.model->table(), type), moved(m.model->table(), type);
      const double loss = m.step(data.batch, resident, 4.0);

      at::Tensor hidden;
      segment_runs runs = run_forward(m, data.batch, hidden);
      std::vector<at::Tensor> elsewhere;
      for (uint32_t p = 0; p < m.weights.size(); ++p) {
        m.binding.release(p);
        elsewhere.push_back(m.weights[p].clone());
        m.weights[p].fill_(std::nan(""));  // makes any access to the old memory visible
        m.binding.bind(p, elsewhere.back().mutable_data_ptr());
      }
      run_backward(runs, at::full({}, 4.0, hidden.options()), moved);
      BOOST_TEST(hidden.item<double>() == loss);
      for (uint32_t p = 0; p < m.weights.size(); ++p)
        BOOST_TEST(same_bits(resident.gradients[p], moved.gradients[p]), m.model->table().parameters[p].name);
    }
}

BOOST_AUTO_TEST_CASE(recomputing_a_segment_from_its_input_changes_no_bit) {
  for (const std::string& json : {gpt2_json, llama_json}) {
    BOOST_TEST_INFO_SCOPE(json);
    bound_model m(json, core::dtype::bf16, 2, 8);
    owned_batch data(2, 8, 50);
    tensor_sink kept(m.model->table(), core::dtype::bf16), recomputed(m.model->table(), core::dtype::bf16);
    m.step(data.batch, kept);

    std::vector<at::Tensor> inputs{at::Tensor()};
    const auto& units = m.model->table().units;
    for (uint32_t u = 0; u < units.size(); ++u)
      for (uint32_t s = 0; s < units[u].segments.size(); ++s)
        inputs.push_back(m.model->forward(u, s, data.batch, inputs.back(), m.binding)->output());
    at::Tensor gradient = at::full({}, 1.0, inputs.back().options());
    inputs.pop_back();
    for (uint32_t u = static_cast<uint32_t>(units.size()); u-- > 0;)
      for (uint32_t s = static_cast<uint32_t>(units[u].segments.size()); s-- > 0; inputs.pop_back())
        gradient = m.model->forward(u, s, data.batch, inputs.back(), m.binding)->backward(gradient, recomputed);
    for (uint32_t p = 0; p < m.weights.size(); ++p)
      BOOST_TEST(same_bits(kept.gradients[p], recomputed.gradients[p]), m.model->table().parameters[p].name);
  }
}

BOOST_AUTO_TEST_CASE(a_segment_goes_backward_once_and_only_when_training) {
  bound_model m(gpt2_json, core::dtype::f32, 1, 4);
  owned_batch data(1, 4, 50);
  tensor_sink sink(m.model->table(), core::dtype::f32);
  const at::Tensor one = at::full({}, 1.0);
  at::Tensor hidden;
  segment_runs runs = run_forward(m, data.batch, hidden);
  runs.back()->backward(one, sink);
  BOOST_CHECK_THROW(runs.back()->backward(one, sink), c10::Error);
  data.batch.training = false;
  hidden = at::Tensor();
  runs = run_forward(m, data.batch, hidden);
  BOOST_CHECK_THROW(runs.back()->backward(one, sink), c10::Error);
}

BOOST_AUTO_TEST_CASE(a_batch_that_does_not_fit_is_refused) {
  bound_model m(llama_json, core::dtype::f32, 1, 4);
  owned_batch longer(1, 5, 50), foreign(1, 4, 50), torn(1, 4, 50);
  BOOST_CHECK_THROW(m.model->forward(0, 0, longer.batch, {}, m.binding), c10::Error);
  foreign.tokens[4] = 50;
  BOOST_CHECK_THROW(m.model->forward(0, 0, foreign.batch, {}, m.binding), c10::Error);
  torn.batch.tokens = torn.batch.tokens.first(4);
  BOOST_CHECK_THROW(m.model->forward(0, 0, torn.batch, {}, m.binding), c10::Error);
  BOOST_TEST(!make_language_model(m.spec, core::dtype::f32, 1, 17).has_value());
  BOOST_TEST(!make_language_model(m.spec, core::dtype::f32, 0, 4).has_value());
  BOOST_TEST(!make_language_model(m.spec, core::dtype::i32, 1, 4).has_value());
}

BOOST_AUTO_TEST_CASE(every_unit_asks_its_sink_once_for_each_parameter_of_its_segments) {
  for (const std::string& json : {gpt2_json, llama_json}) {
    BOOST_TEST_INFO_SCOPE(json);
    bound_model m(json, core::dtype::f32, 1, 4);
    owned_batch data(1, 4, 50);
    at::Tensor hidden;
    segment_runs runs = run_forward(m, data.batch, hidden);
    at::Tensor gradient = at::full({}, 1.0);
    size_t r = runs.size();
    const auto& units = m.model->table().units;
    for (size_t u = units.size(); u-- > 0;)
      for (size_t s = units[u].segments.size(); s-- > 0;) {
        tensor_sink sink(m.model->table(), core::dtype::f32);
        gradient = runs[--r]->backward(gradient, sink);
        std::vector<int> wanted(m.weights.size(), 0);
        for (const uint32_t p : units[u].segments[s].parameters) wanted[p] = 1;
        BOOST_TEST(sink.contributions == wanted, boost::test_tools::per_element());
      }
  }
}

BOOST_AUTO_TEST_CASE(a_wider_target_holds_the_narrow_contribution) {
  bound_model m(gpt2_json, core::dtype::bf16, 2, 8);
  owned_batch data(2, 8, 50);
  tensor_sink narrow(m.model->table(), core::dtype::bf16), wide(m.model->table(), core::dtype::f32);
  m.step(data.batch, narrow);
  m.step(data.batch, wide);
  // Parameter 0 is excluded, because it is tied and adds two contributions in the target's type.
  for (uint32_t p = 1; p < m.weights.size(); ++p)
    BOOST_TEST(same_bits(narrow.gradients[p].to(at::kFloat), wide.gradients[p]), m.model->table().parameters[p].name);
}

BOOST_AUTO_TEST_CASE(accumulating_adds_exactly_the_contributions) {
  for (const core::dtype type : {core::dtype::f32, core::dtype::bf16}) {
    BOOST_TEST_INFO_SCOPE(core::name_of(type));
    bound_model m(gpt2_json, type, 2, 8);
    owned_batch first(2, 8, 50, 3), second(2, 8, 50, 4);
    tensor_sink a(m.model->table(), core::dtype::f32), b(m.model->table(), core::dtype::f32),
        both(m.model->table(), core::dtype::f32);
    m.step(first.batch, a);
    m.step(second.batch, b);
    m.step(first.batch, both);
    m.step(second.batch, both);
    // The tied parameter 0 adds its four contributions in another order.
    for (uint32_t p = 1; p < m.weights.size(); ++p)
      BOOST_TEST(same_bits(a.gradients[p].add(b.gradients[p]), both.gradients[p]), m.model->table().parameters[p].name);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::models
