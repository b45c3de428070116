// Checks that the checker accepts the plans of any cut of a model into pipeline stages, and finds every break of a
// transfer between stages.
#include <sys/resource.h>

#include <ctime>
#include <map>
#include <string>

#include "models/table/model_spec.hpp"
#include "plan/check/check.hpp"
#include "tests/plan/cuts.hpp"
#include "tests/plan/pipeline_saboteur.hpp"
#include "tests/plan/taught_samples.hpp"

BOOST_AUTO_TEST_SUITE(cuts)

using namespace troupe::plan;

namespace {

const std::map<std::string, bool (pipeline_saboteur::*)()> breakages = {
    {"drop a transfer", &pipeline_saboteur::drop_a_transfer},
    {"cross two receives", &pipeline_saboteur::cross_two_receives},
    {"misdirect a transfer", &pipeline_saboteur::misdirect_a_transfer},
    {"reduce too early", &pipeline_saboteur::reduce_too_early},
    {"add in another order", &pipeline_saboteur::add_in_another_order},
    {"say another order of sums", &pipeline_saboteur::say_another_order_of_sums},
    {"share a slot", &pipeline_saboteur::share_a_slot},
    {"vote without an axis", &pipeline_saboteur::vote_without_an_axis},
    {"swap micro-batches", &pipeline_saboteur::swap_micro_batches},
    {"compute a unit twice or never", &pipeline_saboteur::compute_a_unit_twice_or_never},
    {"free a receive too early", &pipeline_saboteur::free_a_receive_too_early},
    {"name another slot", &pipeline_saboteur::name_another_slot},
};

/// Generates and checks the plans, and requires that both use at most 20 s of processor time and 2 GiB.
void is_written_and_proved_in_time(const shared_table& table, const plan_options& o) {
  const std::clock_t began = std::clock();
  const auto plans = plans_of(table, o);
  const auto proved = check(plans);
  // std::clock() counts processor time, which does not depend on the load of the machine.
  const double took_s = double(std::clock() - began) / CLOCKS_PER_SEC;
  BOOST_TEST(proved.has_value(), (proved ? "" : proved.error().text));
  size_t instructions = 0;
  for (const auto& p : plans) instructions += p->instructions.size();
  rusage used{};
  BOOST_REQUIRE(getrusage(RUSAGE_SELF, &used) == 0);
  BOOST_TEST_MESSAGE(o.mesh.text() << ", " << o.pipeline.first_unit.size() << " stages, ZeRO " << o.stage << ": "
                                   << instructions << " instructions in " << took_s << " s, " << used.ru_maxrss / 1024
                                   << " MiB");
  BOOST_TEST(took_s <= 20.0);
  BOOST_TEST(used.ru_maxrss <= 2 << 20);  // in KiB; the peak of the process, which includes all earlier tests
}

}  // namespace

BOOST_AUTO_TEST_CASE(any_cut_of_any_model_is_proved) {
  for (uint64_t seed = 0; seed < seeds(400); ++seed) BOOST_TEST_CONTEXT("seed " << seed) {
      std::mt19937_64 random(seed);
      const auto [table, options] = (seed % 4 == 1 ? random_taught_cut : random_cut)(random, {});
      const auto proved = check(plans_of(table, options));
      BOOST_TEST(proved.has_value(), (proved ? "" : proved.error().text));
    }
}

BOOST_AUTO_TEST_CASE(ranks_that_differ_in_the_data_coordinate_alone_compute_and_meet_alike) {
  for (uint64_t seed = 0; seed < 200; ++seed) BOOST_TEST_CONTEXT("seed " << seed) {
      std::mt19937_64 random(seed);
      const auto [table, options] = random_cut(random);
      const auto plans = plans_of(table, options);
      for (const auto& mine : plans) {
        const auto& first = *plans[options.mesh.at_stage(0, mine->options().mesh.pipeline_at(mine->rank))];
        for (const lane l : {lane::compute, lane::fabric}) {
          const auto &a = mine->lanes[static_cast<size_t>(l)], &b = first.lanes[static_cast<size_t>(l)];
          BOOST_TEST_REQUIRE(a.size() == b.size());
          for (size_t i = 0; i < a.size(); ++i) {
            BOOST_TEST_INFO_SCOPE("i " << i);
            const auto &x = mine->instructions[a[i]], &y = first.instructions[b[i]];
            BOOST_TEST_REQUIRE(mine->describe(x.id) == first.describe(y.id));
            // The releases of two ranks may differ in size: one that stores a second copy has the size of its rank's
            // own part.
            BOOST_TEST_REQUIRE((x.moved_bytes == y.moved_bytes || (x.kind == kind::release && x.near)),
                               mine->describe(x.id));
            BOOST_TEST_REQUIRE((x.flops == y.flops && x.guard == y.guard && x.use == y.use && x.segment == y.segment &&
                                x.sequence == y.sequence),
                               mine->describe(x.id));
          }
        }
      }
    }
}

BOOST_AUTO_TEST_CASE(every_break_between_stages_is_caught_and_harmless_changes_pass) {
  std::map<std::string, uint32_t> caught, harmless;
  for (uint64_t seed = 0; seed < seeds(150); ++seed) {
    std::mt19937_64 random(seed);
    const auto [table, options] =
        (seed % 4 == 1 ? random_taught_cut : random_cut)(random, seed % 8 == 0 ? mode::evaluate : mode::train);
    const auto whole = plans_of(table, options);
    for (const auto& [name, change] : breakages) BOOST_TEST_CONTEXT("seed " << seed << ", " << name) {
        plans broken;
        for (const auto& p : whole) broken.push_back(*p);
        pipeline_saboteur breaks(broken, random);
        if (!(breaks.*change)()) continue;
        const auto now = shared(broken);
        const bool excused = breaks.excused(now);
        const auto proved = check(now);
        BOOST_TEST(proved.has_value() == excused, (proved ? "passed" : proved.error().text));
        ++(excused ? harmless : caught)[name];
      }
  }
  for (const auto& [name, change] : breakages) {
    BOOST_TEST_MESSAGE(name << ": " << caught[name] << " caught, " << harmless[name] << " harmless");
    BOOST_TEST(caught[name] >= 50U, name << ": " << caught[name]);
  }
}

BOOST_AUTO_TEST_CASE(sixty_four_ranks_with_thirty_two_micro_batches_are_written_and_proved_in_time) {
  const auto spec = troupe::models::parse_model_spec(R"({"model_type": "gpt2", "n_layer": 62, "n_embd": 64, "n_head": 4,
      "n_positions": 64, "vocab_size": 4096, "tie_word_embeddings": false})");
  for (const uint32_t tensor : {1U, 2U})
    for (const auto& [schedule, chunks] : {std::pair{"1f1b", 1U}, {"dual_pipe_v", 2U}})
      for (const uint32_t stage : {0U, 3U}) {
        BOOST_TEST_INFO_SCOPE("stage " << stage);
        const auto table = std::make_shared<const troupe::core::model_table>(
            troupe::models::make_model_table(*spec, 1, 64, 4, {.degree = tensor}));
        BOOST_TEST_REQUIRE(table->units.size() == 64U);
        auto o = small_options(8 / tensor, stage, 32);
        o.mesh = {{troupe::core::axis::pipeline, 8},
                  {troupe::core::axis::shard, 8 / tensor},
                  {troupe::core::axis::tensor, tensor}};
        o.pipeline = cut_evenly(*table, *make_table(*find_schedule(schedule).value(), {8, chunks, 32}));
        is_written_and_proved_in_time(table, o);
      }
}

BOOST_AUTO_TEST_SUITE_END()
