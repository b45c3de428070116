// Tests degrees that a configuration does not set, as a host program sees them.
#include <fmt/format.h>

#include "job/blueprint.hpp"
#include "job/degrees.hpp"
#include "tests/small_job.hpp"

BOOST_AUTO_TEST_SUITE(session_degrees)

using namespace troupe;
using namespace troupe::tests;

namespace {

const settings open_degrees = {"parallel={ranks: 2, pipeline: auto, tensor: auto, data: auto}", "train_batch_size=8",
                               "train_micro_batch_size_per_gpu=2"};

}  // namespace

BOOST_AUTO_TEST_CASE(a_session_of_open_degrees_has_the_bits_of_one_that_is_given_the_chosen_ones) {
  const small_job job;
  auto s = job.open(open_degrees);
  const auto& mesh = s->training_plan(0).options().mesh;
  const auto say = [](const char* axis, uint32_t n) { return fmt::format("parallel.{}={}", axis, n); };
  auto same = job.open(open_degrees + settings{say("pipeline", mesh.degree(core::axis::pipeline)),
                                               say("tensor", mesh.degree(core::axis::tensor)),
                                               say("data", mesh.degree(core::axis::shard))});
  for (int i = 0; i < 3; ++i) BOOST_TEST_CONTEXT("i " << i) BOOST_TEST(step_of(*s).loss == step_of(*same).loss);
}

BOOST_AUTO_TEST_CASE(kept_constants_of_the_machine_decide_and_nothing_is_written) {
  const small_job job;
  const auto here = open_degrees + settings{"output=" + job.folder().path().string()};
  job::model_of_kept kept;
  kept.costs.latency_s = 0;
  actors::session_options options{.config = job.config(here)};
  options.kept_costs = kept;
  const auto chosen = actors::session::choose_degrees(options);
  BOOST_TEST_REQUIRE(chosen.has_value());
  BOOST_TEST(chosen->config->open_degrees.empty());
  auto list = job::list_degrees(*options.config, {}, &kept.costs);
  BOOST_TEST_REQUIRE(list.has_value());
  BOOST_TEST(chosen->reason == job::reason_of(*list));
  const auto usual = actors::session::choose_degrees({.config = options.config});
  BOOST_TEST_REQUIRE(usual.has_value());
  BOOST_TEST(usual->reason != chosen->reason);  // other costs predict another time
  for (const auto& entry : std::filesystem::directory_iterator(job.folder().path()))
    BOOST_TEST((entry.path().filename() == "corpus.txt"));
}

BOOST_AUTO_TEST_CASE(passes_of_a_session_are_those_of_a_plan_by_the_same_constants) {
  const small_job job;
  const auto config = job.config({"parallel.data=2", "zero_optimization.stage=3", "compile=auto"});
  job::model_of_kept kept;
  kept.costs.copy_bytes_per_s = 1e9;
  actors::session_options options{.config = config};
  options.kept_costs = kept;
  const auto s = actors::session::open(std::move(options));
  BOOST_TEST_REQUIRE(s.has_value());
  const auto planned = job::make_blueprint(config, {}, &kept.costs);
  BOOST_TEST_REQUIRE(planned.has_value());
  BOOST_TEST(((*s)->training_plan(0).options() == planned->train.like(0).options()));
}

BOOST_AUTO_TEST_CASE(a_host_may_stop_it_and_a_job_without_open_degrees_has_nothing_to_choose) {
  const small_job job;
  actors::session_options options{.config = job.config(open_degrees)};
  options.hooks.on_opening = [](const actors::opening_progress&) { return false; };
  const auto stopped = actors::session::choose_degrees(options);
  BOOST_TEST_REQUIRE(!stopped.has_value());
  BOOST_TEST((stopped.error().kind == core::error_kind::stopped));
  BOOST_TEST(!actors::session::choose_degrees({.config = job.config({})}).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
