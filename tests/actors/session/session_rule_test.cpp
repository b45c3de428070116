// Tests an optimizer of a host program's own: rules that compute Lion and SGD have the bits of Troupe's optimizers at
// every stage, in every tier and after a resume, and rules that cannot be used are refused by name.
#include <fmt/format.h>

#include <array>
#include <stdexcept>

#include "actors/session/state_access.hpp"
#include "core/shard_optimizer.hpp"
#include "tests/check_ok.hpp"
#include "tests/small_job.hpp"

BOOST_AUTO_TEST_SUITE(session_rule)

using namespace troupe;
using namespace troupe::tests;
using core::error_kind;

namespace {

class own_lion final : public core::shard_optimizer {
 public:
  [[nodiscard]] std::span<const std::string_view> state_names() const override { return names; }
  void update(const core::shard_step& step, const core::shard_span& x) const override {
    const auto beta1 = static_cast<float>(0.9), rest1 = static_cast<float>(1 - 0.9);
    const auto beta2 = static_cast<float>(0.99), rest2 = static_cast<float>(1 - 0.99);
    const auto lr = static_cast<float>(step.learning_rate);
    const auto keep = static_cast<float>(1 - step.learning_rate * step.weight_decay);
    for (size_t i = 0; i < x.weights.size(); ++i) {
      float& m = x.states[0][i];
      const float g = x.gradient[i], c = beta1 * m + rest1 * g;
      x.weights[i] = x.weights[i] * keep - (c > 0 ? lr : c < 0 ? -lr : 0.0F);
      m = beta2 * m + rest2 * g;
    }
  }

 private:
  static constexpr std::array<std::string_view, 1> names{"exp_avg"};
};

class own_sgd final : public core::shard_optimizer {
 public:
  [[nodiscard]] std::span<const std::string_view> state_names() const override { return names; }
  void update(const core::shard_step& step, const core::shard_span& x) const override {
    const auto momentum = static_cast<float>(0.9), lr = static_cast<float>(step.learning_rate);
    const auto l2 = static_cast<float>(step.weight_decay);
    for (size_t i = 0; i < x.weights.size(); ++i) {
      const float g = x.gradient[i] + l2 * x.weights[i];
      float& m = x.states[0][i];
      m = step.update == 1 ? g : momentum * m + g;
      x.weights[i] = x.weights[i] - lr * m;
    }
  }

 private:
  static constexpr std::array<std::string_view, 1> names{"momentum_buffer"};
};

/// A rule whose second state has, after a step, the number of each element in its parameter plus a number of the
/// parameter, as it was told; the first counts the element's updates.
class numbering final : public core::shard_optimizer {
 public:
  [[nodiscard]] std::span<const std::string_view> state_names() const override { return names; }
  void update(const core::shard_step& /*step*/, const core::shard_span& x) const override {
    for (size_t i = 0; i < x.weights.size(); ++i) {
      x.states[0][i] += 1;
      x.states[1][i] = place(x.parameter, x.first + i);
    }
  }
  static float place(uint32_t parameter, uint64_t element) {
    return static_cast<float>(parameter) + static_cast<float>(element) * 1000;
  }

 private:
  static constexpr std::array<std::string_view, 2> names{"updates", "place"};
};

/// A rule with these states that does nothing.
class idle_rule final : public core::shard_optimizer {
 public:
  explicit idle_rule(std::vector<std::string_view> names, bool throws = false)
      : names_(std::move(names)), throws_(throws) {}
  [[nodiscard]] std::span<const std::string_view> state_names() const override { return names_; }
  void update(const core::shard_step& /*step*/, const core::shard_span& /*x*/) const override {
    if (throws_) throw std::runtime_error("the rule has had enough");
  }

 private:
  std::vector<std::string_view> names_;
  bool throws_;
};

using rule_of_host = std::shared_ptr<const core::shard_optimizer>;

actors::session_options with_rule(const small_job& job, const settings& set, rule_of_host rule,
                                  const std::string& type = "host") {
  auto c = *job.config(settings{"optimizer={type: " + type + ", params: {lr: 0.003, weight_decay: 0.1}}"} + set);
  c.optimizer.rule = std::move(rule);
  return {.config = std::make_shared<const config::job_config>(std::move(c))};
}

std::unique_ptr<actors::session> open_with(const small_job& job, const settings& set, rule_of_host rule) {
  return std::move(*check_ok(actors::session::open(with_rule(job, set, std::move(rule)))));
}

/// Returns the losses of `steps` steps, then all weights and first states.
std::vector<double> outcome_of(actors::session& s, int steps) {
  std::vector<double> out;
  for (int i = 0; i < steps; ++i) out.push_back(step_of(s).loss);
  for (uint32_t q = 0; q < s.table().parameters.size(); ++q) {
    if (s.table().parameters[q].is_copy()) continue;
    for (const float x : parameter_of(s, q)) out.push_back(x);
    for (const float x : moment_of(s, q, 0)) out.push_back(x);
  }
  return out;
}

settings stage(int n) {
  return {fmt::format("zero_optimization.stage={}", n), "zero_optimization.sub_group_size=4000",
          "zero_optimization.reduce_bucket_size=9000", "zero_optimization.stage3_param_persistence_threshold=40"};
}

const std::string lion_of_troupe = "optimizer={type: Lion, params: {lr: 0.003, weight_decay: 0.1, betas: [0.9, 0.99]}}";
const std::string sgd_of_troupe = "optimizer={type: SGD, params: {lr: 0.003, weight_decay: 0.1, momentum: 0.9}}";

}  // namespace

BOOST_AUTO_TEST_CASE(a_rule_has_the_bits_of_the_same_optimizer_at_every_stage) {
  const small_job job;
  for (const settings& precision : {settings{}, settings{"bf16.enabled=true"}, settings{"fp16.enabled=true"}}) {
    const settings common = settings{"parallel.data=2"} + precision;
    const auto lion = outcome_of(*job.open(settings{lion_of_troupe} + common), 3);
    const auto sgd = outcome_of(*job.open(settings{sgd_of_troupe} + common), 3);
    for (int at = 0; at <= 3; ++at) BOOST_TEST_CONTEXT("stage " << at) {
        auto first = open_with(job, common + stage(at), std::make_shared<own_lion>());
        BOOST_TEST((outcome_of(*first, 3) == lion));
        auto second = open_with(job, common + stage(at), std::make_shared<own_sgd>());
        BOOST_TEST((outcome_of(*second, 3) == sgd));
      }
  }
}

BOOST_AUTO_TEST_CASE(a_rule_has_these_bits_in_every_tier_and_order_of_updates) {
  const small_job job;
  const std::string nvme = "{device: nvme, nvme_path: " + (job.folder() / "swap").string() + "}";
  const settings common{"parallel.data=2", "parameter_groups=[{match: 'ln_', lr: 0.01}]"};
  const std::vector<settings> ways = {
      stage(2) + settings{"zero_optimization.offload_optimizer=" + nvme},
      stage(3) + settings{"zero_optimization.offload_optimizer=" + nvme, "zero_optimization.offload_param=" + nvme},
      stage(3) + settings{"zero_optimization.offload_optimizer={device: cpu, super_offload: true}",
                          "cluster.early_updates=true"},
      stage(1) + settings{"cluster.early_updates=true"},
      stage(1) + settings{"parallel.data=1", "parallel.pipeline=2", "gradient_accumulation_steps=2"},
      stage(1) + settings{"parallel.tensor=2", "parallel.data=1"}};
  // The gradients are clipped, so that updates before the vote are undone and repeated.
  for (const auto& way : ways) {
    const settings set = common + settings{"gradient_clipping=0.1"} + way;
    const auto wanted = outcome_of(*job.open(settings{lion_of_troupe} + set), 3);
    BOOST_TEST((outcome_of(*open_with(job, set, std::make_shared<own_lion>()), 3) == wanted), way.back());
  }
}

BOOST_AUTO_TEST_CASE(a_rule_is_told_the_parameter_and_the_place_of_every_element) {
  const small_job job;
  for (int at : {0, 3}) {
    auto s = open_with(job, settings{"parallel.data=3"} + stage(at), std::make_shared<numbering>());
    for (int i = 0; i < 2; ++i) (void)step_of(*s);
    for (uint32_t q = 0; q < s->table().parameters.size(); ++q) {
      if (s->table().parameters[q].is_copy()) continue;
      const auto updates = moment_of(*s, q, 0), places = moment_of(*s, q, 1);
      size_t wrong = 0;
      for (size_t i = 0; i < places.size(); ++i)
        wrong += updates[i] == 2 && places[i] == numbering::place(q, i) ? 0 : 1;
      BOOST_TEST(wrong == 0U, s->table().parameters[q].name);
    }
  }
}

BOOST_AUTO_TEST_CASE(states_of_a_rule_are_saved_resumed_and_read_by_name) {
  const small_job job;
  auto s = open_with(job, settings{"parallel.data=2"} + stage(2), std::make_shared<own_sgd>());
  // The memory plan counts the states of the rule as those of the same optimizer of Troupe's.
  const auto built_in = job.open(settings{sgd_of_troupe, "parallel.data=2"} + stage(2));
  const auto memory_of = [](const actors::session& x) { return x.memory().front().resident.total(); };
  BOOST_TEST(memory_of(*s) == memory_of(*built_in));
  for (int i = 0; i < 2; ++i) (void)step_of(*s);
  check_ok(s->save({.root = job.folder() / "saved"}));
  const std::string name = s->table().parameters[1].name;
  const auto held = check_ok(s->states().get_full_optimizer_state(name, "momentum_buffer"));
  BOOST_TEST((*held == moment_of(*s, 1, 0)));
  const auto wanted = outcome_of(*s, 2);
  auto options = with_rule(job, settings{"parallel.data=1", "gradient_accumulation_steps=2"} + stage(3),
                           std::make_shared<own_sgd>());
  options.resume = job.folder() / "saved";
  auto again = check_ok(actors::session::open(std::move(options)));
  BOOST_TEST((moment_of(**again, 1, 0) == *held));
  BOOST_TEST((*again)->steps_done() == 2U);
  BOOST_TEST(wanted.size() > 2U);
}

BOOST_AUTO_TEST_CASE(a_rule_that_cannot_be_used_is_refused_by_name) {
  const small_job job;
  const auto refusal = [&](const settings& set, rule_of_host rule, const std::string& type = "host") {
    const auto s = actors::session::open(with_rule(job, set, std::move(rule), type));
    return s ? std::string("accepted") : s.error().text;
  };
  const auto lion = std::make_shared<own_lion>();
  const auto names = [](std::vector<std::string_view> all) { return std::make_shared<idle_rule>(std::move(all)); };
  BOOST_TEST(
      refusal({}, nullptr) ==
      "optimizer.type: host is the rule of a program that embeds Troupe, which gives it as optimizer.rule of its "
      "job_config; choose another optimizer here");
  BOOST_TEST(refusal({}, lion, "Lion") ==
             "optimizer.type: wanted host, because the program gives a rule of its own, got lion");
  BOOST_TEST(refusal({"data_types.param_dtype=fp64"}, lion) ==
             "optimizer.type: host computes in fp32 and cannot be combined with param_dtype: fp64");
  BOOST_TEST(refusal({"zero_optimization.stage=2", "zero_optimization.offload_optimizer={device: cpu}",
                      "zero_optimization.zenflow={topk_ratio: 0.1}"},
                     lion) ==
             "optimizer.type: host updates whole runs of elements and cannot be combined with "
             "zero_optimization.zenflow");
  BOOST_TEST(refusal({}, names({"a", "b", "c"})) == "shard_optimizer: wanted at most 2 states, got 3");
  for (const char* taken : {"ema", "step", "fp32"})
    BOOST_TEST(has(refusal({}, names({taken})), fmt::format("wanted another name of a state than '{}'", taken)));
  BOOST_TEST(refusal({}, names({"a", "a"})) == "shard_optimizer: wanted states of different names, got 'a' twice");
  for (const char* wrong : {"", "A", "a b", "a/b"})
    BOOST_TEST(has(refusal({}, names({wrong})), "wanted a state's name of 1 to 64 lower-case letters"), wrong);
}

BOOST_AUTO_TEST_CASE(a_rule_that_throws_ends_the_run_with_its_text) {
  const small_job job;
  auto s = open_with(job, {}, std::make_shared<idle_rule>(std::vector<std::string_view>{}, true));
  const auto did = s->step();
  BOOST_TEST_REQUIRE(!did.has_value());
  BOOST_TEST(has(did.error().text, "the rule has had enough"), did.error().text);
  BOOST_TEST(!s->step().has_value());
}

BOOST_AUTO_TEST_SUITE_END()
