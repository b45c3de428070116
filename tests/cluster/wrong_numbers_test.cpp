// Tests jobs and processes that a program creates with invalid numbers and links: each is refused with a sentence, and
// no process is started.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include "cluster/launch.hpp"
#include "cluster/process.hpp"
#include "tests/cluster/worker_log.hpp"

BOOST_AUTO_TEST_SUITE(wrong_numbers)

using namespace troupe;
using namespace troupe::cluster;

namespace {

void refused(const auto& r, const std::string& text, core::error_kind kind = core::error_kind::bad_input) {
  BOOST_TEST_REQUIRE(!r.has_value(), text);
  BOOST_TEST((r.error().kind == kind));
  BOOST_TEST(r.error().text.find(text) != std::string::npos, r.error().text);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_process_without_a_link_or_with_no_patience_has_no_term) {
  const auto lost = core::error_kind::peer_lost;
  for (const auto& end : {shared_descriptor(), own(-1)}) {
    cluster::process alone(end, {});
    refused(alone.next_term(), "a link to it was wanted, got none", lost);
    refused(alone.next_call(), "a link to it was wanted", lost);
    refused(alone.take({4'000'000'000}), "a link to it was wanted", lost);
    alone.leave(3);
  }
  for (const int64_t silence_ns : {int64_t{0}, INT64_MIN}) {
    auto ends = make_pair().value();
    process_setup setup;
    setup.lost_after_ns = silence_ns;
    cluster::process hasty(std::move(ends.second), setup);
    refused(hasty.next_term(), fmt::format("a limit of silence above 0 ns was wanted, got {}", silence_ns), lost);
  }
}

BOOST_AUTO_TEST_CASE(a_process_gives_no_memory_that_is_none_and_waits_for_no_answer_to_no_call) {
  auto ends = make_pair().value();
  cluster::process me(std::move(ends.second), {});
  refused(me.give(7, nullptr), "number 7: wanted some, got none");
  refused(me.keep("/saves/step-1", 10, nullptr), "'/saves/step-1': wanted the memory that holds it");
  refused(me.answers(1, 1), "answers to call 1: wanted one of the 0 that were made");
  refused(me.answers(UINT64_MAX, 1), "wanted one of the 0");
  me.on_end(nullptr);
  me.on_note(nullptr);
}

BOOST_AUTO_TEST_CASE(a_job_with_numbers_that_mean_nothing_starts_no_process) {
  const auto with = [](const auto& change) {
    launch_options o{.job = {}, .program = "/bin/false", .arguments = {"false"}, .say = [](const std::string&) {}};
    o.job.feasible = tests::any_number;
    change(o);
    return launch(o);
  };
  for (uint32_t supervised_job::*number :
       {&supervised_job::processes, &supervised_job::ranks_each, &supervised_job::data, &supervised_job::replica_ranks})
    refused(with([&](launch_options& o) { o.job.*number = 0; }), "wanted at least one process");
  refused(with([](launch_options& o) { o.job.data = 4'000'000'000; }), "at most 1 ranks in 1 processes");
  refused(with([](launch_options& o) { o.job.lost_after_ns = 0; }), "a limit of silence above 0 ns");
  refused(with([](launch_options& o) { o.job.backoff_ns = -1; }), "a wait of at least 0 ns");
  refused(with([](launch_options& o) { o.program.clear(); }), "wanted a program, got none");
  refused(with([](launch_options& o) { o.say = nullptr; }), "functions that say what ranks can do");
  refused(with([](launch_options& o) { o.job.feasible = nullptr; }), "functions that say what ranks can do");
  refused(with([](launch_options& o) { o.job.machines = {0, 1}; }), "a machine for each of 1 processes, got 2");
  refused(with([](launch_options& o) { o.job.machines = {7}; }), "a host for machine 7, got 0 hosts");
  refused(with([](launch_options& o) {
            o.job.machines = {1};
            o.job.hosts = {"a", "b"};
          }),
          "their agents, got none");
  refused(with([](launch_options& o) {
            o.job.machines = {0};
            o.job.hosts = {"a"};
            o.job.lost = {9};
          }),
          "lost machines among 1 hosts, got machine 9");
}

BOOST_AUTO_TEST_SUITE_END()
