// Tests learning rates and betas of parameter groups and of Muon's two parts, under every schedule that sets rates
// itself.
#include "job/step/optimizer_groups.hpp"

#include <boost/test/unit_test.hpp>

#include "config/load.hpp"
#include "config/sections/parameter_groups.hpp"
#include "job/blueprint.hpp"

BOOST_AUTO_TEST_SUITE(optimizer_groups)

using namespace troupe;

namespace {

constexpr const char* begin =
    "model: {model_type: gpt2, n_layer: 2, n_embd: 32, n_head: 4, n_positions: 24, vocab_size: 96}\n"
    "data: {text: corpus.txt}\nsteps: 100\ntrain_micro_batch_size_per_gpu: 1\n";
constexpr const char* two_rates =
    "optimizer: {type: AdamW, params: {lr: 1.0e-2}}\nparameter_groups: [{match: 'h\\.1\\.', lr: 1.0e-3}]\n";
constexpr const char* muon = "optimizer: {type: Muon, params: {muon_lr: 0.02, adam_lr: 0.002}}\n";

/// Returns the settings of all groups after `applied` updates.
std::vector<job::group_setting> settings_after(const std::string& yaml, uint64_t applied) {
  auto loaded = config::load_text(begin + yaml, "job.yaml", "/base", {});
  BOOST_REQUIRE_MESSAGE(loaded, config::render(loaded ? std::vector<config::diagnostic>() : loaded.error()));
  const auto b = job::make_blueprint(std::make_shared<const config::job_config>(loaded->config));
  BOOST_REQUIRE_MESSAGE(b, (b ? "" : b.error().text));
  return job::settings_of(*b->optimizer, applied);
}

void check_ratio(const std::string& yaml, uint64_t applied, double first, double second) {
  const auto s = settings_after(yaml, applied);
  BOOST_REQUIRE_EQUAL(s.size(), 2U);
  BOOST_CHECK_CLOSE(s[0].lr, first, 1e-9);
  BOOST_CHECK_CLOSE(s[1].lr, second, 1e-9);
}

}  // namespace

BOOST_AUTO_TEST_CASE(groups_keep_the_ratio_of_their_rates_under_every_schedule) {
  const auto curve = [](const std::string& type, const std::string& params) {
    return "scheduler: {type: " + type + ", params: {" + params + "}}\n";
  };
  // The rates are compared at the end of the warm-up, or at the highest rate of the cycle.
  for (const auto& [schedule, first] : std::vector<std::pair<std::string, double>>{
           {curve("WarmupLR", "warmup_num_steps: 10"), 0.01},
           {curve("WarmupLR", "warmup_num_steps: 10, warmup_max_lr: 0.05"), 0.05},
           {curve("WarmupDecayLR", "warmup_num_steps: 10, total_num_steps: 100, warmup_max_lr: auto"), 0.01},
           {curve("WarmupDecayLR", "warmup_num_steps: 10, total_num_steps: 100, warmup_max_lr: 0.05"), 0.05},
           {curve("WarmupDecayLR", "warmup_num_steps: 10, total_num_steps: 100"), 0.001},
           {curve("OneCycle", "cycle_min_lr: 0.01, cycle_max_lr: 0.1, cycle_first_step_size: 11"), 0.1},
           {curve("LRRangeTest", "lr_range_test_min_lr: 0.01, lr_range_test_step_size: 11"), 0.02},
           {curve("CosineAnnealingLR", "T_max: 10, num_warmup_steps: 11"), 0.01},
           {curve("CosineAnnealingWarmRestarts", "T_0: 11"), 0.01},
           {curve("cosine_with_restarts", "num_training_steps: 22, num_cycles: 2"), 0.01},
           {curve("warmup_stable_decay", "num_warmup_steps: 10, num_decay_steps: 20, num_training_steps: 100"), 0.01}})
    check_ratio(two_rates + schedule, 11, first, first / 10);
  // The key warmup_min_lr is a learning rate, too.
  check_ratio(std::string(two_rates) + curve("WarmupLR", "warmup_num_steps: 10, warmup_min_lr: 0.004"), 0, 0.004,
              0.0004);
}

BOOST_AUTO_TEST_CASE(muons_two_rates_keep_their_ratio) {
  const std::string cycle =
      "scheduler: {type: OneCycle, params: {cycle_min_lr: 0.01, cycle_max_lr: 0.1, cycle_first_step_size: 11}}\n";
  check_ratio(muon + cycle, 11, 0.1, 0.01);
  const std::string decay =
      "scheduler: {type: WarmupDecayLR, params: {warmup_num_steps: 10, total_num_steps: 100, warmup_max_lr: auto}}\n";
  check_ratio(muon + decay, 11, 0.02, 0.002);
}

BOOST_AUTO_TEST_CASE(a_first_beta_stays_below_its_bound_where_a_run_is_longer_than_its_file_says) {
  const std::string yaml =
      "optimizer: {type: AdamW, params: {lr: 1.0e-2}}\nscheduler: {type: OneCycle, params: {cycle_min_lr: 0.01, "
      "cycle_max_lr: 0.1, cycle_first_step_size: 45, decay_step_size: 1, decay_mom_rate: 0.01}}\n";
  BOOST_CHECK_CLOSE(settings_after(yaml, 95)[0].beta1.value(), 0.9 * 1.05, 1e-9);
  BOOST_CHECK_CLOSE(settings_after(yaml, 200)[0].beta1.value(), 0.999, 1e-9);
}

BOOST_AUTO_TEST_CASE(a_group_that_earlier_ones_leave_nothing_is_named) {
  const std::vector<std::string> names = {"h.0.ln.weight", "h.0.ln.bias", "h.1.ln.weight", "wte.weight"};
  std::vector<config::parameter_group> groups;
  for (const char* match : {"ln", "h\\.1", "weight", "h\\.0\\.ln\\.bias"}) groups.emplace_back().match = match;
  const auto shadowed = config::shadowed_groups(groups, names);
  BOOST_REQUIRE_EQUAL(shadowed.size(), 2U);
  BOOST_CHECK_EQUAL(shadowed[0].group, 1U);
  BOOST_CHECK_EQUAL(shadowed[0].by, 0U);
  BOOST_CHECK_EQUAL(shadowed[0].names, 1U);
  BOOST_CHECK_EQUAL(shadowed[0].first, "h.1.ln.weight");
  BOOST_CHECK_EQUAL(shadowed[1].group, 3U);
}

BOOST_AUTO_TEST_SUITE_END()
