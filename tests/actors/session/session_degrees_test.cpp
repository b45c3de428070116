// Tests degrees that a configuration does not set, as a host program sees them.
#include <fmt/format.h>

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
  const std::string found = s->found_degrees();
  BOOST_TEST(found.starts_with("troupe degrees,1\n"), found);
  const auto& mesh = s->training_plan(0).options().mesh;
  const auto say = [](const char* axis, uint32_t n) { return fmt::format("parallel.{}={}", axis, n); };
  auto same = job.open(open_degrees + settings{say("pipeline", mesh.degree(core::axis::pipeline)),
                                               say("tensor", mesh.degree(core::axis::tensor)),
                                               say("data", mesh.degree(core::axis::shard))});
  BOOST_TEST(same->found_degrees().empty());
  for (int i = 0; i < 3; ++i) BOOST_TEST_CONTEXT("i " << i) BOOST_TEST(step_of(*s).loss == step_of(*same).loss);
}

BOOST_AUTO_TEST_CASE(what_a_session_found_makes_the_next_one_choose_the_same_and_try_nothing) {
  const small_job job;
  const auto here = open_degrees + settings{"output=" + job.folder().path().string()};
  const auto first = actors::session::choose_degrees({.config = job.config(here)});
  BOOST_TEST_REQUIRE(first.has_value());
  BOOST_TEST(first->texts != nullptr);
  BOOST_TEST(first->config->open_degrees.empty());
  job.folder().write("degrees.csv", first->file);
  const auto next = actors::session::choose_degrees({.config = job.config(here)});
  BOOST_TEST_REQUIRE(next.has_value());
  BOOST_TEST(next->file.empty());
  BOOST_TEST(next->texts == nullptr);
  BOOST_TEST((next->config->parallel.mesh() == first->config->parallel.mesh()));
  for (const auto& entry : std::filesystem::directory_iterator(job.folder().path()))
    BOOST_TEST((entry.path().filename() == "corpus.txt" || entry.path().filename() == "degrees.csv"));
}

BOOST_AUTO_TEST_CASE(a_host_may_stop_it_and_a_job_without_open_degrees_has_nothing_to_choose) {
  const small_job job;
  actors::session_options options{.config = job.config(open_degrees)};
  int asked = 0;
  options.hooks.on_opening = [&](const actors::opening_progress& p) {
    return !p.phase.starts_with("trying") || ++asked < 3;
  };
  const auto stopped = actors::session::choose_degrees(options);
  BOOST_TEST_REQUIRE(!stopped.has_value());
  BOOST_TEST((stopped.error().kind == core::error_kind::stopped));
  BOOST_TEST(!actors::session::choose_degrees({.config = job.config({})}).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
