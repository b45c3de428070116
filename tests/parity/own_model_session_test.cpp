// Tests a session with a host program's own model apart from training: evaluation, random batches, frozen parameters,
// refusals and errors during a run.
#include <fmt/format.h>

#include "models/host/module_table.hpp"
#include "tests/parity/own_model.hpp"
#include "tests/parity/run_result.hpp"

BOOST_AUTO_TEST_SUITE(own_model_session)

using namespace troupe;
using namespace troupe::tests;

namespace {

const settings two_ranks = {"parallel.data=2"};
const settings sharded =
    two_ranks + settings{"zero_optimization.stage=3", "zero_optimization.stage3_param_persistence_threshold=0",
                         "zero_optimization.stage3_max_reuse_distance=0"};

models::module_model plain() { return make_own_model(0.3); }
actors::host_model own() { return {&plain, &own_batch, &own_batch}; }

uint32_t parameter(const actors::session& s, const std::string& name) {
  const auto& all = s.table().parameters;
  for (uint32_t q = 0; q < all.size(); ++q)
    if (all[q].name == name) return q;
  throw std::runtime_error("no parameter " + name);
}

std::string refusal(const settings& set, actors::host_model model) {
  const auto s = try_open_own(set, std::move(model));
  return s ? "accepted" : s.error().text;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_CASE(evaluation_is_the_mean_loss_without_dropout) {
  auto s = open_own(sharded, own());
  step_of(*s);
  const auto got = s->evaluate(3);
  BOOST_TEST_REQUIRE(got.has_value());
  std::vector<at::Tensor> outputs;
  const auto keep = [&](const actors::evaluated_output& x) {
    const at::IntArrayRef shape(x.shape.data(), x.shape.size());
    outputs.push_back(at::tensor(at::ArrayRef<float>(x.values.data(), x.values.size())).reshape(shape));
  };
  const auto again = s->evaluate({.batches = 3, .on_output = keep});
  BOOST_TEST_REQUIRE(again.has_value());
  BOOST_TEST(again->loss == *got);
  BOOST_TEST_REQUIRE(outputs.size() == 6U);
  const auto copy = plain();
  BOOST_REQUIRE(actors::copy_weights(*s, copy));
  for (const auto& u : copy.units)
    if (u.module != nullptr) u.module->eval();
  const at::NoGradGuard no_grad;
  double sum = 0;
  for (uint64_t i = 0; i < 3; ++i)
    for (uint32_t rank = 0; rank < 2; ++rank) {
      BOOST_TEST_INFO_SCOPE("i " << i);
      BOOST_TEST_INFO_SCOPE("rank " << rank);
      const auto b = own_batch(i, 0, rank);
      at::Tensor x = b.input;
      for (const auto& u : copy.units) x = u.forward(x);
      BOOST_TEST(at::allclose(outputs[2 * i + rank], x, 1e-5, 1e-6));
      sum += copy.loss(x, b.target).item<double>();
    }
  BOOST_TEST(*got == sum / 6, boost::test_tools::tolerance(1e-6));
  BOOST_TEST(step_of(*s).loss > 0);  // training continues after the evaluation
}

BOOST_AUTO_TEST_CASE(a_loss_reads_weights_of_tokens_from_the_batch) {
  const auto weighted = [] {
    models::module_model m = make_own_model(0);
    auto& words = m.units.front();
    words.forward = [embed = words.forward](const models::named_values& x) { return embed(x["input"]); };
    words.calls_own = false;
    m.loss = [](const at::Tensor& y, const models::host_batch& batch) {
      const at::Tensor each = at::log_softmax(y, -1).gather(-1, batch.target.unsqueeze(-1)).squeeze(-1);
      return -(each * batch.others["weight"]).sum();
    };
    return m;
  };
  const auto batches_of = [](double weight) {
    return [weight](uint64_t step, uint32_t micro, uint32_t rank) {
      models::host_batch b = own_batch(step, micro, rank);
      b.others = models::named_values().with("weight", at::full({own_rows, own_columns}, weight));
      return b;
    };
  };
  constexpr double mean = 1.0 / (own_rows * own_columns);
  const auto wanted = open_own(sharded, {[] { return make_own_model(0); }, &own_batch});
  const auto got = open_own(sharded, {weighted, batches_of(mean)});
  const auto twice = open_own(sharded, {weighted, batches_of(2 * mean)});
  const auto first = step_of(*wanted), same = step_of(*got), doubled = step_of(*twice);
  constexpr double close = 1e-5;
  BOOST_TEST(same.loss == first.loss, boost::test_tools::tolerance(close));
  BOOST_TEST(same.grad_norm == first.grad_norm, boost::test_tools::tolerance(close));
  BOOST_TEST(doubled.loss == 2 * first.loss, boost::test_tools::tolerance(close));
  BOOST_TEST(doubled.grad_norm == 2 * first.grad_norm, boost::test_tools::tolerance(close));
  BOOST_TEST(step_of(*got).loss == step_of(*wanted).loss, boost::test_tools::tolerance(close));
}

BOOST_AUTO_TEST_CASE(outputs_alone_want_no_target_and_several_values_a_name) {
  const auto two_values = [] {
    auto model = plain();
    model.units.push_back(models::unit("both", [](const models::named_values& x) {
      return models::named_values{{"first", x.only()}, {"doubled", 2 * x.only()}};
    }));
    auto inner = std::move(model.loss);
    model.loss = [inner](const models::named_values& y, const models::host_batch& b) {
      return inner(models::named_values(y["first"]), b);
    };
    return model;
  };
  const auto without_target = [](uint64_t step, uint32_t micro, uint32_t rank) {
    auto out = own_batch(step, micro, rank);
    out.target = at::Tensor();
    return out;
  };
  for (const auto& set : {two_ranks, settings{"parallel.pipeline=2"}}) {
    const auto s = open_own(set, {two_values, &own_batch, without_target});
    std::vector<std::vector<float>> outputs;
    const auto asked = [&](const std::string& name) {
      const auto did =
          s->evaluate({.batches = 1,
                       .on_output = [&](const auto& x) { outputs.emplace_back(x.values.begin(), x.values.end()); },
                       .output = name,
                       .compute_loss = false});
      return did ? std::string() : did.error().text;
    };
    const std::string wanted =
        "evaluation: wanted in evaluation_request::output one of the values of the last unit, 'first', 'doubled', got ";
    BOOST_TEST(asked("") == wanted + "no name");
    BOOST_TEST(asked("third") == wanted + "'third'");
    BOOST_TEST(asked("first") == "");
    const auto first = std::exchange(outputs, {});
    BOOST_TEST(asked("doubled") == "");
    BOOST_TEST_REQUIRE(first.size() == outputs.size());
    for (size_t r = 0; r < first.size(); ++r)
      for (size_t i = 0; i < first[r].size(); ++i) BOOST_TEST(outputs[r][i] == 2 * first[r][i]);
    step_of(*s);
  }
}

BOOST_AUTO_TEST_CASE(a_checkpoint_of_one_cut_loads_in_any_other) {
  const auto stage = [](int n) { return settings{fmt::format("zero_optimization.stage={}", n)}; };
  const settings copies = {"tied_gradients=per_use"};
  const std::vector<settings> cuts = {two_ranks + stage(2), two_ranks + stage(1) + copies, sharded + copies,
                                      stage(3) + settings{"parallel.data=4", "parallel.shard=2"} + copies,
                                      stage(0) + settings{"parallel.data=1"} + copies};
  const scratch_folder folder;
  for (size_t from = 0; from < cuts.size(); ++from) {
    const auto saves = open_own(cuts[from], own());
    step_of(*saves);
    const auto saved = saves->save({.root = folder / fmt::to_string(from)});
    BOOST_TEST_REQUIRE(saved.has_value(), (saved ? "" : saved.error().text));
    const auto wanted = plain();
    BOOST_REQUIRE(actors::copy_weights(*saves, wanted));
    const auto weights = models::parameters_of(wanted, saves->table());
    for (const auto& cut : cuts) BOOST_TEST_CONTEXT(text_of(cuts[from]) << ", then " << text_of(cut)) {
        const auto loads = open_own(cut + settings{"train_micro_batch_size_per_gpu=3"}, own());
        const auto did = loads->load(*saved, {.changed_batch = true});
        BOOST_TEST_REQUIRE(did.has_value(), (did ? "" : did.error().text));
        const auto got = plain();
        BOOST_REQUIRE(actors::copy_weights(*loads, got));
        // Copies of tied parameters, if any, are at the end.
        const auto loaded = models::parameters_of(got, loads->table());
        for (size_t q = 0; q < std::min(loaded.size(), weights.size()); ++q)
          BOOST_TEST(at::equal(loaded[q], weights[q]));
        for (uint32_t q = 0; q < loads->table().parameters.size(); ++q)
          BOOST_TEST(same_bits({moment_of(*loads, q, 0)}, {moment_of(*saves, loads->table().original(q), 0)}));
        step_of(*loads);
      }
  }
}

BOOST_AUTO_TEST_CASE(batches_drawn_at_random_are_the_same_in_every_run) {
  const auto drawn = [](uint64_t, uint32_t, uint32_t) {
    const at::Tensor all = at::randint(own_vocabulary, {own_rows, own_columns + 1}, at::kLong);
    return models::host_batch{all.narrow(1, 0, own_columns), all.narrow(1, 1, own_columns)};
  };
  const auto train = [&](const settings& set) {
    auto s = open_own(set, {&plain, drawn, {}});
    return result_of(*s, 4);
  };
  const auto reference = train(two_ranks);
  at::randn({17});  // the host's own random numbers must have no effect
  check_same(train(sharded), reference);
  const settings checkpointing = {"activation_checkpointing.enabled=true"};
  check_same(train(sharded + checkpointing), reference);
  check_same(train(sharded + checkpointing + settings{"cluster.offload_activations=cpu"}), reference);
  BOOST_TEST(train(two_ranks + settings{"seed=8"}).losses[0] != reference.losses[0]);
}

BOOST_AUTO_TEST_CASE(parameters_frozen_by_the_module_or_by_a_group_keep_their_values) {
  const settings group = {"parameter_groups=[{match: '^memory', trainable: false}]"};
  const auto train = [&](const settings& set) {
    auto s = open_own(set + group, own());
    const uint32_t factor = parameter(*s, "scale.factor"), memory = parameter(*s, "memory.weight_hh_l0");
    const auto before = parameter_of(*s, memory), other = parameter_of(*s, parameter(*s, "shared.weight"));
    auto result = result_of(*s, 3);
    BOOST_TEST(parameter_of(*s, memory) == before, boost::test_tools::per_element());
    BOOST_TEST(parameter_of(*s, factor) == std::vector<float>(own_width, 1.5F), boost::test_tools::per_element());
    BOOST_TEST((parameter_of(*s, parameter(*s, "shared.weight")) != other));
    return result;
  };
  check_same(train(sharded), train(two_ranks));
}

BOOST_AUTO_TEST_CASE(a_batch_that_fails_or_does_not_fit_ends_the_run_with_its_place) {
  auto throwing = own();
  throwing.training = [](uint64_t step, uint32_t micro, uint32_t rank) {
    if (step == 2 && rank == 1) throw std::runtime_error("the disk is gone");
    return own_batch(step, micro, rank);
  };
  auto s = open_own(sharded, throwing);
  step_of(*s);
  step_of(*s);
  const auto failed = s->step();
  BOOST_TEST_REQUIRE(!failed.has_value());
  BOOST_TEST(has(failed.error().text, "training batch of step 2, micro-batch 0, rank 1: the disk is gone"),
             failed.error().text);

  auto wide = own();
  wide.training = [](uint64_t step, uint32_t micro, uint32_t rank) {
    auto b = own_batch(step, micro, rank);
    if (step == 1) b.input = b.input.to(at::kFloat);
    return b;
  };
  auto t = open_own(sharded, wide);
  step_of(*t);
  const auto refused = t->step();
  BOOST_TEST_REQUIRE(!refused.has_value());
  BOOST_TEST(has(refused.error().text, "unit 'words', given Float [3, 7]"), refused.error().text);
}

BOOST_AUTO_TEST_CASE(impossible_models_and_settings_are_refused_before_anything_runs) {
  auto model = own();
  model.make = [calls = std::make_shared<int>(0)] {
    auto m = plain();
    if (++*calls == 2) m.units.pop_back();
    return m;
  };
  BOOST_TEST(has(refusal(sharded, model), "rank 1: wanted 8 units as in the first call of the factory, got 7"));
  model = own();
  model.make = nullptr;
  BOOST_TEST(has(refusal({}, model), "it has no factory"));
  model = own();
  model.training = nullptr;
  BOOST_TEST(has(refusal({}, model), "it has no training batches"));
  model.training = [](uint64_t, uint32_t, uint32_t) { return models::host_batch{}; };
  BOOST_TEST(has(refusal({}, model), "wanted an input and a target on the CPU, got nothing and nothing"));
  model = own();
  model.make = [] {
    auto m = plain();
    std::swap(m.units[1], m.units[0]);
    return m;
  };
  BOOST_TEST(has(refusal({}, model), "unit 'mix' failed for the batch's input, Long [3, 7]"));
  for (const char* key : {"model.model_type=gpt2", "data.text=corpus.txt"}) BOOST_TEST_CONTEXT(key)
  BOOST_CHECK_EXCEPTION(own_config({key}), std::runtime_error,
                        [](const auto& e) { return has(e.what(), "the host program provides the model"); });

  auto s = open_own({}, {&plain, &own_batch, {}});
  BOOST_TEST(has(s->evaluate(1).error().text, "no evaluation batches"));
  BOOST_TEST(has(open_own({}, own())->evaluate().error().text, "wanted a number of batches"));
  BOOST_TEST(has(s->generate({1}, 1, 0).error().text, "generates no text"));
  BOOST_TEST(has(s->export_hugging_face("nowhere").error().text, "cannot be written in Hugging Face's format"));
  BOOST_TEST(s->validation_tokens() == 0U);
  BOOST_TEST(step_of(*s).tokens == 3U);  // for a host's model, `tokens` counts samples
  BOOST_TEST(has(actors::copy_weights(*s, {{models::unit("a", torch::nn::Linear(2, 2))}, {}}).error().text,
                 "copying weights"));
}

BOOST_AUTO_TEST_SUITE_END()
