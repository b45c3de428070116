// Tests learning rates and weight decays that a host program sets between steps, or that a schedule of its own chooses:
// later steps have the bits of a run whose configuration has these values.
#include <fmt/format.h>

#include <limits>
#include <stdexcept>

#include "actors/session/state_access.hpp"
#include "tests/check_ok.hpp"
#include "tests/small_job.hpp"

BOOST_AUTO_TEST_SUITE(session_rates)

using namespace troupe;
using namespace troupe::tests;
using core::error_kind;

namespace {

const settings norms_apart{"parameter_groups=[{match: 'ln_', lr: 0.02, weight_decay: 0.0}]"};
const settings two_ranks{"parallel.data=2", "zero_optimization.stage=2"};

/// Returns the losses of `steps` steps and then the first parameter and its moments, of which every bit counts.
std::vector<double> outcome_of(actors::session& s, int steps) {
  std::vector<double> out;
  for (int i = 0; i < steps; ++i) out.push_back(step_of(s).loss);
  for (const float x : parameter_of(s, 0)) out.push_back(x);
  for (const float x : moment_of(s, 0, 1)) out.push_back(x);
  return out;
}

std::unique_ptr<actors::session> open_with(const small_job& job, const settings& set, actors::session_hooks hooks) {
  auto s = actors::session::open(job.config(set), std::move(hooks));
  if (!s) throw std::runtime_error(s.error().text);
  return std::move(*s);
}

}  // namespace

BOOST_AUTO_TEST_CASE(groups_have_the_values_of_the_configuration) {
  const small_job job;
  const auto groups = job.open(norms_apart)->groups();
  BOOST_TEST_REQUIRE(groups.size() == 2U);
  BOOST_TEST((groups[0].name == "rest" && groups[0].learning_rate == 0.01 && groups[0].weight_decay == 0.1));
  BOOST_TEST((groups[1].name == "parameter_groups[0]: ln_" && groups[1].learning_rate == 0.02));
  BOOST_TEST(groups[1].weight_decay == 0.0);
  BOOST_TEST(groups[1].parameters == 13U * 2 * 32);  // two norms of each of six blocks, and the last, of 32 features
  BOOST_TEST(groups[0].parameters > groups[1].parameters);
  const auto muon = job.open({"optimizer={type: Muon, params: {lr: 0.02}}"})->groups();
  BOOST_TEST_REQUIRE(muon.size() == 2U);
  BOOST_TEST((muon[0].name == "rest, matrices" && muon[1].name == "rest, others"));
}

BOOST_AUTO_TEST_CASE(values_that_are_set_have_the_bits_of_values_of_the_file) {
  const small_job job;
  for (const std::string stage : {"0", "1", "2", "3"}) {
    const settings cut = settings{"parallel.data=2", "zero_optimization.stage=" + stage} + norms_apart;
    auto wanted = job.open(cut + settings{"optimizer.params.lr=0.003", "optimizer.params.weight_decay=0.3",
                                          "parameter_groups=[{match: 'ln_', lr: 0.05, weight_decay: 0.0}]"});
    auto s = job.open(cut);
    check_ok(s->set_learning_rate(0, 0.003));
    check_ok(s->set_weight_decay(0, 0.3));
    check_ok(s->set_learning_rate(1, 0.05));
    BOOST_TEST((s->groups()[0].learning_rate == 0.003 && s->groups()[0].weight_decay == 0.3));
    BOOST_TEST(outcome_of(*s, 3) == outcome_of(*wanted, 3), boost::test_tools::per_element());
    check_ok(s->set_learning_rate(0, 0));
    BOOST_TEST(step_of(*s).lr == 0.0);  // the curves show the rate that acted
    BOOST_TEST(step_of(*s).lr == 0.0);
  }
}

BOOST_AUTO_TEST_CASE(every_optimizer_takes_a_rate_and_a_decay) {
  const small_job job;
  for (const std::string type : {"Adagrad", "Lion", "SGD", "LAMB", "Muon"}) {
    const settings rule = settings{"optimizer={type: " + type + ", params: {lr: 0.01, weight_decay: 0.1}}"} + two_ranks;
    auto wanted =
        job.open(settings{"optimizer={type: " + type + ", params: {lr: 0.002, weight_decay: 0.4}}"} + two_ranks);
    auto s = job.open(rule);
    for (uint32_t g = 0; g < s->groups().size(); ++g) {
      check_ok(s->set_learning_rate(g, wanted->groups()[g].learning_rate));
      check_ok(s->set_weight_decay(g, 0.4));
    }
    BOOST_TEST_CONTEXT(type)
    BOOST_TEST(outcome_of(*s, 2) == outcome_of(*wanted, 2), boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(a_schedule_sets_the_next_rate_and_leaves_the_decay) {
  const small_job job;
  const settings warm{"scheduler={type: WarmupLR, params: {warmup_max_lr: 0.01, warmup_num_steps: 8}}"};
  auto plain = job.open(warm);
  auto s = job.open(warm);
  check_ok(s->set_learning_rate(0, 0.005));
  check_ok(s->set_weight_decay(0, 0.7));
  BOOST_TEST(step_of(*s).lr == 0.005);
  (void)step_of(*plain);
  for (int i = 0; i < 2; ++i) BOOST_TEST(step_of(*s).lr == step_of(*plain).lr);
  BOOST_TEST(s->groups()[0].weight_decay == 0.7);
}

BOOST_AUTO_TEST_CASE(a_checkpoint_has_the_values_and_a_resume_continues_with_them) {
  const small_job job;
  auto s = job.open(two_ranks);
  (void)step_of(*s);
  check_ok(s->set_learning_rate(0, 0.004));
  check_ok(s->set_weight_decay(0, 0.2));
  (void)step_of(*s);
  check_ok(s->save({.root = job.folder() / "saved"}));
  const auto wanted = outcome_of(*s, 2);

  const auto resumed = [&](actors::load_options load, std::vector<std::string>& lines) {
    actors::session_options options{.config = job.config({"parallel.data=2", "zero_optimization.stage=3"})};
    options.hooks.on_warning = [&](const std::string& line) {
      if (has(line, "its program had set")) lines.push_back(line);
    };
    options.resume = job.folder() / "saved";
    options.load = std::move(load);
    return std::move(*check_ok(actors::session::open(std::move(options))));
  };
  std::vector<std::string> lines;
  auto again = resumed({}, lines);
  BOOST_TEST((again->groups()[0].learning_rate == 0.004 && again->groups()[0].weight_decay == 0.2));
  BOOST_TEST(outcome_of(*again, 2) == wanted, boost::test_tools::per_element());
  BOOST_TEST_REQUIRE(lines.size() == 2U);
  BOOST_TEST(has(lines[0], "group 'rest' continues with the learning rate 0.004, which its program had set"), lines[0]);
  BOOST_TEST(has(lines[1], "weight decay 0.2"), lines[1]);
  check_ok(again->load(job.folder() / "saved"));
  BOOST_TEST(again->groups()[0].learning_rate == 0.004);

  // PyTorch, too, stores rates with the optimizer's states.
  auto without = resumed({.load_optimizer_states = false}, lines);
  BOOST_TEST((without->groups()[0].learning_rate == 0.01 && without->groups()[0].weight_decay == 0.1));
}

BOOST_AUTO_TEST_CASE(a_schedule_of_the_host_has_the_bits_of_rates_that_are_set) {
  const small_job job;
  const settings cut = two_ranks + norms_apart;
  auto wanted = job.open(cut);
  std::vector<double> losses;
  for (const double factor : {0.5, 1.0, 2.0}) {
    check_ok(wanted->set_learning_rate(0, 0.01 * factor));
    check_ok(wanted->set_learning_rate(1, 0.02 * factor));
    losses.push_back(step_of(*wanted).loss);
  }
  const auto factor_at = [](uint64_t updates) { return updates == 0 ? 0.5 : updates == 1 ? 1.0 : 2.0; };
  for (const bool as_rates : {false, true}) {
    actors::session_hooks hooks;
    hooks.learning_rate = [&](uint64_t updates) -> actors::rate_choice {
      const double factor = factor_at(updates);
      if (as_rates) return std::vector<double>{0.01 * factor, 0.02 * factor};
      return factor;
    };
    auto s = open_with(job, cut, std::move(hooks));
    for (uint64_t i = 0; i < 3; ++i) {
      const auto r = step_of(*s);
      BOOST_TEST((r.loss == losses[i] && r.lr == 0.01 * factor_at(i)));
    }
    BOOST_TEST(parameter_of(*s, 0) == parameter_of(*wanted, 0), boost::test_tools::per_element());
    check_failed(s->set_learning_rate(0, 0.1), error_kind::bad_input, "session_hooks::learning_rate");
    check_ok(s->set_weight_decay(0, 0.2));
  }
}

BOOST_AUTO_TEST_CASE(a_schedule_that_throws_or_errs_leaves_the_step_undone) {
  const small_job job;
  auto plain = job.open(two_ranks);
  for (int i = 0; i < 2; ++i) (void)step_of(*plain);
  int calls = 0;
  actors::session_hooks hooks;
  hooks.learning_rate = [&](uint64_t) -> actors::rate_choice {
    switch (calls++) {
      case 1:
        throw std::runtime_error("no table");
      case 2:
        throw 7;
      case 3:
        return std::numeric_limits<double>::quiet_NaN();
      case 4:
        return std::vector<double>{1, 2};
      case 5:
        return std::vector<double>{-1};
      default:
        return 1.0;
    }
  };
  auto s = open_with(job, two_ranks, std::move(hooks));
  (void)step_of(*s);
  check_error(s->step(),
              "session_hooks::learning_rate: threw an exception (no table) for step 1; the step was not done");
  check_failed(s->step(), error_kind::bad_input, "threw an exception of an unknown type");
  check_failed(s->step(), error_kind::bad_input, "wanted a factor of at least 0 for step 1, got nan");
  check_failed(s->step(), error_kind::bad_input, "wanted 1 rates for step 1, one for each group, got 2");
  check_failed(s->step(), error_kind::bad_input, "wanted a rate of at least 0 for group 'rest' in step 1, got -1");
  BOOST_TEST(s->steps_done() == 1U);
  (void)step_of(*s);
  BOOST_TEST(parameter_of(*s, 0) == parameter_of(*plain, 0), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_change_of_degrees_keeps_groups_and_brings_no_schedule_beside_that_of_the_host) {
  const small_job job;
  actors::session_hooks hooks;
  hooks.learning_rate = [](uint64_t) { return 0.5; };
  auto s = open_with(job, two_ranks + norms_apart, std::move(hooks));
  BOOST_TEST(step_of(*s).lr == 0.005);
  const settings one{"parallel.data=1", "gradient_accumulation_steps=2"};
  const settings warm{"scheduler={type: WarmupLR, params: {warmup_max_lr: 0.01, warmup_num_steps: 8}}"};
  check_error(s->change_degrees(job.config(one + norms_apart + warm)),
              "session_hooks::learning_rate: cannot be combined with scheduler.type WarmupLR; remove one of the two");
  check_error(s->change_degrees(job.config(one)),
              "parameter_groups: wanted ['ln_'], as before in this run, because only its degrees may change, got []");
  check_ok(s->change_degrees(job.config(one + norms_apart)));
  BOOST_TEST(step_of(*s).lr == 0.005);
}

BOOST_AUTO_TEST_CASE(what_no_group_can_have_is_refused) {
  const small_job job;
  auto s = job.open({});
  check_error(s->set_learning_rate(1, 0.1),
              "set_learning_rate: wanted the number of one of the 1 groups, from 0, got 1");
  check_error(s->set_weight_decay(0, -0.5),
              "set_weight_decay: wanted a number of at least 0 for group 'rest', got -0.5");
  check_failed(s->set_learning_rate(0, std::numeric_limits<double>::infinity()), error_kind::bad_input, "got inf");
  BOOST_TEST(s->groups()[0].learning_rate == 0.01);
  actors::session_hooks hooks;
  hooks.learning_rate = [](uint64_t) { return 1.0; };
  check_error(actors::session::open(
                  job.config({"scheduler={type: WarmupLR, params: {warmup_max_lr: 0.01, warmup_num_steps: 8}}"}),
                  std::move(hooks)),
              "session_hooks::learning_rate: cannot be combined with scheduler.type WarmupLR; remove one of the two");
}

BOOST_AUTO_TEST_SUITE_END()
