// Tests the optimization passes that a configuration requests: their names, schedules and memory budgets.
#include "job/compile.hpp"
#include "job/changed_steps.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <iterator>
#include <vector>

#include "config/load.hpp"
#include "job/blueprint.hpp"
#include "tests/check_ok.hpp"

BOOST_AUTO_TEST_SUITE(compile)

using namespace troupe;
using troupe::tests::check_ok;

namespace {

/// Returns a configuration with `compile` on its last line.
std::shared_ptr<const config::job_config> loaded(const std::string& compile) {
  const auto out = config::load_text(
      "model: {model_type: gpt2, n_layer: 2, n_embd: 32, n_head: 4, n_positions: 24, vocab_size: 96}\n"
      "data: {text: corpus.txt}\nseed: 1\nsteps: 3\ntrain_micro_batch_size_per_gpu: 2\n"
      "zero_optimization: {stage: 3}\ncompile: " +
          compile + "\n",
      "job.yaml", "/");
  BOOST_REQUIRE_MESSAGE(out.has_value(), (out ? "" : config::render(out.error())));
  return std::make_shared<const config::job_config>(out->config);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_configuration_takes_the_names_of_all_passes) {
  for (const auto& x : plan::option_passes()) {
    const auto c = loaded("{deepcompile: true, passes: [" + std::string(x.name) + "]}");
    BOOST_TEST(c->compile.entries().front().passes == std::vector<std::string>{std::string(x.name)},
               boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(a_list_of_passes_is_a_schedule_of_one_entry_and_auto_is_all_of_them) {
  const auto listed = loaded("{deepcompile: true, passes: [z3, recompute]}");
  const auto entries = listed->compile.entries();
  BOOST_REQUIRE(entries.size() == 1U);
  BOOST_TEST(entries[0].step == 0U);
  BOOST_TEST(entries[0].passes == std::vector<std::string>{"recompute"}, boost::test_tools::per_element());
  BOOST_TEST(!job::wish_of(*listed, entries[0]).is_automatic);
  const auto automatic = loaded("auto");
  BOOST_TEST(automatic->compile.entries().size() == 1U);
  BOOST_TEST(job::wish_of(*automatic, automatic->compile.entries()[0]).is_automatic);
  const auto none = loaded("{deepcompile: true, passes: []}");
  BOOST_TEST(!none->compile.is_automatic());
  BOOST_TEST(loaded("{}")->compile.entries().empty());
}

BOOST_AUTO_TEST_CASE(the_cost_model_of_the_job_chooses_passes) {
  plan::cost_model free, dear;  // of messages
  free.latency_s = 0;
  dear.latency_s = 1;
  const auto config = loaded("auto");
  const auto cheap = check_ok(job::make_blueprint(config, {}, &free)),
             slow = check_ok(job::make_blueprint(config, {}, &dear));
  BOOST_TEST(slow->compiled->chosen.step_s > cheap->compiled->chosen.step_s + 1);
  const auto changed = check_ok(job::change_steps(*slow, {{}, {}, true, {}}));
  BOOST_TEST((changed->train == slow->options[static_cast<size_t>(plan::plan_choice::train)]));
}

BOOST_AUTO_TEST_CASE(passes_chosen_elsewhere_are_used_in_all_steps_or_in_none) {
  constexpr auto train = static_cast<size_t>(plan::plan_choice::train),
                 saving = static_cast<size_t>(plan::plan_choice::train_saving);
  auto made = check_ok(job::make_blueprint(loaded("{}")));
  auto chosen = made->options[train];
  chosen.recompute = !chosen.recompute;
  chosen.gathering.max_reuse_distance = 0;
  const auto pool_bytes = [](const job::blueprint& b) {
    std::vector<uint64_t> out;
    for (const auto& of_rank : b.pools) out.insert(out.end(), std::begin(of_rank.bytes), std::end(of_rank.bytes));
    return out;
  };
  job::blueprint used = *made;
  BOOST_TEST_REQUIRE(job::use_chosen_passes(used, chosen).has_value());
  for (const auto which : {train, saving}) BOOST_TEST((used.options[which].recompute == chosen.recompute));
  BOOST_TEST(used.train.layout().options.recompute == chosen.recompute);

  job::blueprint refused = *made;
  refused.options[train].updates.rules.resize(1);  // changes the options so that they belong to another model
  for (auto& of_rank : refused.pools) std::fill(std::begin(of_rank.bytes), std::end(of_rank.bytes), 0);
  const auto options = refused.options[train];
  BOOST_TEST_REQUIRE(!job::use_chosen_passes(refused, chosen).has_value());
  BOOST_TEST((refused.options[train] == options));
  BOOST_TEST((refused.options[saving] == made->options[saving]));
  BOOST_TEST(&refused.train.layout() == &made->train.layout());
  BOOST_TEST(std::ranges::all_of(pool_bytes(refused), [](uint64_t bytes) { return bytes == 0; }));
}

BOOST_AUTO_TEST_SUITE_END()
