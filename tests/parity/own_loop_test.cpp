// Trains in a host program's own loop (session::forward, backward, step): with the run's own samples and weights of 1 /
// N it has the bits of ordinary steps under every stage, tier and cut; weights of tokens, several losses and numbers of
// micro-batches have the gradients that they should have, and steps on two losses are those of a loop in PyTorch
// (tests/peer/make_loop_fixtures.py).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "actors/session/state_access.hpp"
#include "checkpoint/convert/open_source.hpp"
#include "data/batch.hpp"
#include "data/corpus.hpp"
#include "models/compress/unit_walk.hpp"
#include "models/table/model_spec.hpp"
#include "tests/parity/peer_tensors.hpp"
#include "tests/parity/run_result.hpp"

BOOST_AUTO_TEST_SUITE(own_loop)

using namespace troupe;
using namespace troupe::tests;

namespace {

constexpr uint64_t steps = 3, sequence = 16;
const settings common = {"parallel.data=2", "gradient_accumulation_steps=2", "tied_gradients=per_use",
                         "zero_optimization.stage3_param_persistence_threshold=0"};
const settings free_counts = {"managed_gradient_accumulation=false"};

settings stage(int n) { return {fmt::format("zero_optimization.stage={}", n)}; }

template <class T>
T must(core::result<T> x) {
  if (!x) throw std::runtime_error(x.error().text);
  if constexpr (!std::is_void_v<T>) return *std::move(x);
}

/// The samples of the job in the order of the run.
struct samples {
  data::corpus corpus;
  explicit samples(const small_job& job) : corpus(make(job)) {}
  static data::corpus make(const small_job& job) {
    data::source_options source;
    source.path = job.folder() / "corpus.txt";
    return must(data::corpus::make({{must(data::open_tokens(source))}}, {.sequence = sequence, .seed = 7}));
  }
  [[nodiscard]] actors::token_batch rows(uint64_t first, uint64_t count) const {
    return {.rows = count, .tokens = data::make_rows(corpus, first, count).tokens, .counted = {}};
  }
};

/// Returns the result of steps on the run's own samples in a host's loop, each of one forward pass of `rows` samples.
run_result looped(const small_job& job, const settings& set, uint64_t rows) {
  const auto s = job.open(set);
  const samples all(job);
  run_result out;
  for (uint64_t i = 0; i < steps; ++i) {
    const auto pass = must(s->forward(all.rows(i * rows, rows)));
    must(s->backward(pass.number));
    const auto did = step_of(*s);
    BOOST_TEST(did.tokens == rows * sequence);
    out.losses.push_back(std::bit_cast<uint64_t>(did.loss));
    out.norms.push_back(std::bit_cast<uint64_t>(did.grad_norm));
  }
  const auto rest = result_of(*s, 0);
  out.weights = rest.weights;
  out.first = rest.first;
  out.second = rest.second;
  return out;
}

void check_refused(const auto& result, const std::string& what) {
  BOOST_TEST_REQUIRE(!result.has_value(), "wanted: " << what);
  BOOST_TEST(result.error().text.find(what) != std::string::npos, result.error().text);
}

/// Returns all gradients of one step for which `ask(session, pass)` calls backward on one pass of `batch`.
template <class Ask>
std::vector<std::vector<double>> gradients_of(const small_job& job, const settings& set,
                                              const actors::token_batch& batch, Ask ask) {
  const auto s = job.open(set);
  ask(*s, must(s->forward(batch)));
  step_of(*s);
  std::vector<std::vector<double>> out;
  for (uint32_t q = 0; q < s->table().parameters.size(); ++q) out.push_back(gradient_of(*s, q));
  return out;
}

/// Weights of four rows of tokens: all different, of both signs, and some 0.
std::vector<float> uneven() {
  std::vector<float> out(4 * sequence);
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = i % 7 == 0 ? 0 : (i % 2 == 0 ? 1.0F : -0.5F) * static_cast<float>(i + 1) / 1024;
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(weights_of_one_divided_by_all_tokens_have_the_bits_of_ordinary_steps) {
  const small_job job;
  const settings in_files = {"zero_optimization.offload_optimizer.device=nvme",
                             "zero_optimization.offload_optimizer.nvme_path=" + (job.folder() / "swap").string()};
  for (const auto& more : {stage(0), stage(1), stage(2), stage(3), stage(1) + settings{"parallel.pipeline=2"},
                           stage(3) + settings{"parallel.tensor=2"}, stage(3) + in_files,
                           stage(2) + settings{"cluster.row_tile_bytes=4096"},
                           stage(3) + settings{"bf16.enabled=true", "activation_checkpointing.enabled=true"}})
    BOOST_TEST_CONTEXT(text_of(more)) check_same(looped(job, common + more, 8), train(job, common + more, steps));
}

BOOST_AUTO_TEST_CASE(a_mean_loss_has_the_dropout_of_ordinary_steps) {
  const small_job job(tiny_gpt2_with_dropout);
  check_same(looped(job, common, 8), train(job, common, steps));
}

BOOST_AUTO_TEST_CASE(the_runs_data_go_on_behind_the_samples_of_a_host) {
  const small_job job;
  const samples all(job);
  const auto wanted = train(job, common, steps);
  const auto s = job.open(common);
  must(s->backward(must(s->forward(all.rows(0, 8))).number));
  BOOST_TEST(std::bit_cast<uint64_t>(step_of(*s).loss) == wanted.losses[0]);
  const auto folder = must(s->save({.root = job.folder() / "saved"}));
  auto resumed = must(actors::session::open({.config = job.config(common), .resume = folder}));
  for (auto* const x : {s.get(), resumed.get()})
    for (uint64_t i = 1; i < steps; ++i) BOOST_TEST(std::bit_cast<uint64_t>(step_of(*x).loss) == wanted.losses[i]);
}

BOOST_AUTO_TEST_CASE(a_gradient_is_the_sum_of_weighted_gradients_of_tokens) {
  const small_job job(tiny_llama);
  const settings exact = {"data_types.param_dtype=fp64"};
  const auto batch = samples(job).rows(0, 4);
  const auto of_half = [&](bool second) {
    auto half = batch;
    half.counted.assign(4 * sequence, 0);
    std::fill_n(half.counted.begin() + (second ? 2 * sequence : 0), 2 * sequence, uint8_t{1});
    return gradients_of(job, exact + settings{"parallel.data=2"}, half,
                        [](auto& s, const auto& pass) { must(s.backward(pass.number)); });
  };
  const auto first = of_half(false), second = of_half(true);
  std::vector<float> weights(4 * sequence);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = (i < weights.size() / 2 ? -2.0F : 0.5F) / (2 * sequence);
  const auto both = gradients_of(job, exact + settings{"parallel.data=2"}, batch,
                                 [&](auto& s, const auto& pass) { must(s.backward(pass.number, weights)); });
  for (size_t q = 0; q < both.size(); ++q) {
    std::vector<double> wanted(both[q].size());
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = 2 * first[q][i] - 0.5 * second[q][i];
    if (!are_noise(both[q], wanted)) BOOST_TEST(relative_difference(both[q], wanted) < 1e-12, "parameter " << q);
  }
}

BOOST_AUTO_TEST_CASE(every_cut_has_the_gradient_and_the_probabilities_of_the_uncut_model) {
  const small_job job(tiny_llama);
  const settings exact = {"data_types.param_dtype=fp64"};
  const auto batch = samples(job).rows(0, 4);
  std::vector<float> uncut;
  const auto ask = [&](auto& s, const actors::forward_pass& pass) {
    if (uncut.empty()) uncut = pass.log_probabilities;
    BOOST_TEST_REQUIRE(pass.log_probabilities.size() == uncut.size());
    for (size_t i = 0; i < uncut.size(); ++i) BOOST_TEST(std::abs(pass.log_probabilities[i] - uncut[i]) < 1e-6);
    must(s.backward(pass.number, uneven()));
  };
  const auto wanted = gradients_of(job, exact + settings{"train_micro_batch_size_per_gpu=4"}, batch, ask);
  for (const auto& cut : {settings{"parallel.data=2"},
                          {"parallel.data=2", "parallel.tensor=2"},
                          {"parallel.data=2", "parallel.sequence=2"},
                          {"parallel.data=2", "parallel.context=2"},
                          {"parallel.data=2", "parallel.pipeline=2"},
                          {"gradient_accumulation_steps=2"},
                          {"parallel.data=2", "cluster.row_tile_bytes=8192"}})
    BOOST_TEST_CONTEXT(text_of(cut)) {
      const auto got = gradients_of(job, exact + cut, batch, ask);
      for (size_t q = 0; q < wanted.size(); ++q)
        if (!are_noise(got[q], wanted[q]))
          BOOST_TEST(relative_difference(got[q], wanted[q]) < 1e-12, "parameter " << q);
    }
}

BOOST_AUTO_TEST_CASE(a_policy_gradient_is_that_of_finite_differences) {
  const small_job job;
  const settings set = {"train_micro_batch_size_per_gpu=4"};
  const auto batch = samples(job).rows(0, 4);
  const auto weights = uneven();
  const auto gradient =
      gradients_of(job, set, batch, [&](auto& s, const auto& pass) { must(s.backward(pass.number, weights)); });
  double square = 0;
  for (const auto& each : gradient)
    for (const double x : each) square += x * x;
  const auto s = job.open(set);
  const double along = 1e-2 / std::sqrt(square);
  double difference = 0;
  std::vector<std::vector<float>> begin;
  for (uint32_t q = 0; q < gradient.size(); ++q) begin.push_back(parameter_of(*s, q));
  double seen = 0;  // square of the gradient of the parameters that move: a tied copy moves with its original
  for (const double sign : {1.0, -1.0}) {
    seen = 0;
    for (uint32_t q = 0; q < gradient.size(); ++q) {
      if (s->table().parameters[q].is_copy()) continue;
      auto moved = begin[q];
      for (size_t i = 0; i < moved.size(); ++i) {
        moved[i] = static_cast<float>(static_cast<double>(moved[i]) + sign * along * gradient[q][i]);
        seen += gradient[q][i] * gradient[q][i];
      }
      must(s->states().set_full_fp32_param(s->table().parameters[q].name, moved));
    }
    const auto pass = must(s->forward(batch));
    for (size_t i = 0; i < weights.size(); ++i)
      difference += sign * static_cast<double>(weights[i]) * static_cast<double>(pass.log_probabilities[i]);
    s->forget();
  }
  BOOST_TEST(std::abs(difference / (2 * along * seen) - 1) < 0.02, difference << " of " << 2 * along * seen);
}

BOOST_AUTO_TEST_CASE(steps_on_a_policy_gradient_and_a_second_loss_are_those_of_pytorch) {
  const auto peer = parity_fixture("own_loop.json");
  const small_job job(model_of_loops(), std::string(1024, '!'));
  const auto batch = [&](const char* name) {
    return actors::token_batch{
        .rows = peer["rows"].get<uint64_t>(), .tokens = peer[name].get<std::vector<int64_t>>(), .counted = {}};
  };
  const auto gradients = peer["gradients"].get<std::vector<float>>();
  for (const auto& cut : {stage(2) + settings{"parallel.data=2", "train_micro_batch_size_per_gpu=2"},
                          stage(0) + settings{"parallel.pipeline=2", "train_micro_batch_size_per_gpu=4"}})
    BOOST_TEST_CONTEXT(text_of(cut)) {
      const auto s = job.open(
          cut + settings{"gradient_accumulation_steps=2", "gradient_clipping=0", "data_types.param_dtype=fp64",
                         "data.sequence_length=" + peer["columns"].dump(), "optimizer.params=" + peer["adamw"].dump()});
      const auto& parameters = s->table().parameters;
      for (size_t step = 0; step < peer["losses"].size(); ++step) {
        const auto policy = must(s->forward(batch("first"))), language = must(s->forward(batch("second")));
        const auto loss = peer["losses"][step].get<double>(), sum = peer["sums"][step].get<double>();
        BOOST_TEST(std::abs(language.loss / loss - 1) <= 1e-6, fmt::format("{} for {}", language.loss, loss));
        must(s->backward(policy.number, gradients));
        must(s->backward(language.number, peer["factor"].get<double>()));
        const auto did = step_of(*s);
        BOOST_TEST(std::abs(did.loss - sum) <= 1e-6, fmt::format("{} for {}", did.loss, sum));
        if (step > 0) continue;
        const auto wanted = peer["log_probabilities"].get<std::vector<double>>();
        BOOST_TEST_REQUIRE(policy.log_probabilities.size() == wanted.size());
        for (size_t i = 0; i < wanted.size(); ++i)
          BOOST_TEST(std::abs(static_cast<double>(policy.log_probabilities[i]) - wanted[i]) <= 1e-6);
        for (uint32_t q = 0; q < parameters.size(); ++q)
          if (!parameters[q].is_copy())
            check_described(gradient_of(*s, q), peer["gradient"].at(parameters[q].name), parameters[q].name, 1e-6);
      }
      for (uint32_t q = 0; q < parameters.size(); ++q)
        if (!parameters[q].is_copy())
          check_described(parameter_of(*s, q), peer["ends"].at(parameters[q].name), parameters[q].name, 1e-6);
    }
}

BOOST_AUTO_TEST_CASE(backwards_of_several_passes_add_up_in_steps_of_any_number_of_micro_batches) {
  const small_job job;
  const samples all(job);
  settings most = common + free_counts;
  most[1] = "gradient_accumulation_steps=4";
  for (const int n : {0, 1, 2, 3}) BOOST_TEST_CONTEXT("stage " << n) {
      const auto s = job.open(most + stage(n));
      for (const uint64_t count : {2, 1, 4, 3}) {
        settings fixed = common + stage(n);
        fixed[1] = fmt::format("gradient_accumulation_steps={}", count);
        if (s->steps_done() == 0) {  // a first step on the same samples in an ordinary job of that many micro-batches
          const auto wanted = train(job, fixed, 1);
          for (uint64_t i = 0; i < count; ++i)
            must(s->backward(must(s->forward(all.rows(4 * i, 4))).number, 1.0 / static_cast<double>(count)));
          const auto did = step_of(*s);
          BOOST_TEST(std::bit_cast<uint64_t>(did.loss) == wanted.losses[0]);
          BOOST_TEST(std::bit_cast<uint64_t>(did.grad_norm) == wanted.norms[0]);
          continue;
        }
        double sum = 0;
        for (uint64_t i = 0; i < count; ++i) {
          const auto pass = must(s->forward(all.rows(100 + 4 * i, 4)));
          must(s->backward(pass.number, 0.5));
          must(s->backward(pass.number, 0.25));
          sum += 0.75 * pass.loss;
        }
        const auto did = step_of(*s);
        BOOST_TEST(std::abs(did.loss / sum - 1) < 1e-5);
        BOOST_TEST(s->training_plan(0).options().accumulation == count);
      }
      BOOST_TEST(step_of(*s).tokens == 16 * sequence);
    }
}

BOOST_AUTO_TEST_CASE(rows_that_fill_up_a_micro_batch_count_nothing) {
  const small_job job;
  const samples all(job);
  const auto three = all.rows(0, 3);
  auto four = all.rows(0, 4);
  four.counted.assign(4 * sequence, 1);
  std::fill_n(four.counted.begin() + 3 * sequence, sequence, uint8_t{0});
  const settings set = {"parallel.data=2"};
  const auto ask = [](auto& s, const auto& pass) { must(s.backward(pass.number)); };
  BOOST_TEST((gradients_of(job, set, three, ask) == gradients_of(job, set, four, ask)));
}

BOOST_AUTO_TEST_CASE(probabilities_are_those_of_evaluations_and_of_a_walk_through_the_exported_model) {
  const small_job job;
  const settings set = {"parallel.data=2", "data.validation_fraction=0.2"};
  const auto s = job.open(set);
  data::source_options source;
  source.path = job.folder() / "corpus.txt";
  const auto corpus = must(data::corpus::make({{must(data::open_tokens(source))}},
                                              {.validation_fraction = 0.2, .sequence = sequence, .seed = 7}));
  const auto held_out = data::make_validation_batch(corpus, 4, 0);
  const auto pass = must(s->forward({.rows = 4, .tokens = held_out.tokens, .counted = {}}));
  BOOST_TEST(std::abs(pass.loss / must(s->evaluate(1)) - 1) < 1e-5);

  const auto folder = job.folder() / "exported", hidden = job.folder() / "hidden";
  must(s->export_hugging_face(folder.string(), uint64_t{1} << 30));
  std::filesystem::create_directories(hidden);
  const auto spec = must(models::read_spec(folder));
  const auto from = must(checkpoint::open_source(folder, {}));
  const models::token_windows windows{.tokens = held_out.tokens, .columns = sequence};
  const auto walk = must(models::unit_walk::open(spec, from, windows, hidden, {}));
  const auto each = must(walk->log_probabilities());
  BOOST_TEST_REQUIRE(each.size() == pass.log_probabilities.size());
  for (size_t i = 0; i < each.size(); ++i) BOOST_TEST(std::abs(each[i] - pass.log_probabilities[i]) < 1e-5);
}

BOOST_AUTO_TEST_CASE(wrong_calls_are_refused_and_change_nothing) {
  const small_job job;
  const samples all(job);
  const auto wanted = train(job, common, 1);
  const auto s = job.open(common);
  check_refused(s->backward(1), "backward: wanted the number of a forward pass of the open step, got 1: there is none");
  check_refused(s->forward({.rows = 0, .tokens = {}, .counted = {}}), "forward: wanted a batch of 1 to ");
  check_refused(s->forward({.rows = 2, .tokens = std::vector<int64_t>(32), .counted = {}}),
                "forward: wanted 2 rows x 17 tokens, which are the sequence and one more, 34 in all, got 32");
  check_refused(s->forward({.rows = 1, .tokens = std::vector<int64_t>(17), .counted = {1}}),
                "1 rows x 16 inputs, 16 in all, got 1");
  check_refused(s->forward({.rows = 1, .tokens = std::vector<int64_t>(17), .counted = std::vector<uint8_t>(16)}),
                "wanted a token that counts, got none");
  std::vector<int64_t> strange(34);
  strange[20] = 96;
  check_refused(s->forward({.rows = 2, .tokens = strange, .counted = {}}),
                "token 96 at row 1, position 3 is not in the vocabulary of 96");
  const auto pass = must(s->forward(all.rows(0, 4)));
  check_refused(s->backward(pass.number + 1), ": which are 1 to 1");
  check_refused(s->backward(pass.number, std::numeric_limits<double>::infinity()), "wanted a finite factor");
  check_refused(s->backward(pass.number, std::vector<float>(3)), "wanted 4 rows x 16 gradients, 64 in all");
  std::vector<float> broken(64);
  broken[18] = std::numeric_limits<float>::quiet_NaN();
  check_refused(s->backward(pass.number, broken), "wanted finite gradients, got nan at row 1, position 2");
  must(s->backward(pass.number));
  check_refused(s->step(),
                "step: wanted 2 micro-batches, as gradient_accumulation_steps says, got backwards of 1 (of 4 "
                "samples each); set managed_gradient_accumulation: false");
  s->forget();
  BOOST_TEST(std::bit_cast<uint64_t>(step_of(*s).loss) == wanted.losses[0]);

  const auto unbound = job.open(common + free_counts);
  must(unbound->backward(must(unbound->forward(all.rows(0, 9))).number));
  check_refused(unbound->step(),
                "step: wanted at most 2 micro-batches, as gradient_accumulation_steps says, got backwards "
                "of 3");
}

BOOST_AUTO_TEST_CASE(settings_that_cannot_be_combined_with_a_loop_are_refused_by_name) {
  const small_job plain, dropping(tiny_gpt2_with_dropout);
  const auto batch = samples(plain).rows(0, 8);
  const std::vector<float> gradients(8 * sequence);
  const auto dropped = dropping.open(common), smooth = plain.open(common + settings{"loss.label_smoothing=0.1"});
  check_refused(dropped->backward(must(dropped->forward(batch)).number, gradients), "cannot be combined with dropout");
  check_refused(smooth->backward(must(smooth->forward(batch)).number, gradients), "loss.label_smoothing");
  for (const auto& [setting, name] :
       {std::pair("on_spike.action=stop", "on_spike.action"), {"data.skip=[{steps: 2}]", "data.skip"}})
    BOOST_TEST_CONTEXT(setting) check_refused(plain.open(common + settings{setting})->forward(batch), name);
}

BOOST_AUTO_TEST_SUITE_END()
