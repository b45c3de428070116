// Tests the actors of whole ranks on real threads: runs that succeed, and every kind of failure.
#include <boost/test/unit_test.hpp>
#include <future>
#include <stdexcept>
#include <thread>

#include "tests/actors/ranks.hpp"

BOOST_AUTO_TEST_SUITE(company)

using namespace troupe;
using namespace troupe::actors;

namespace {

using clock_type = std::chrono::steady_clock;

double since(clock_type::time_point t) { return std::chrono::duration<double>(clock_type::now() - t).count(); }

// Calls a function for the instructions of one kind on rank 1, and lets all other instructions succeed.
struct at_rank_1 {
  plan::kind kind;
  std::function<core::result<progress>()> act;
  core::result<progress> operator()(const step_context& c, const plan::instruction& x) const {
    if (c.plan().rank == 1 && x.kind == kind) return act();
    return progress::done;
  }
};

core::result<progress> never() { return progress::pending; }

}  // namespace

BOOST_AUTO_TEST_CASE(every_instruction_ends_in_every_run_at_every_stage) {
  for (uint32_t stage = 0; stage <= 3; ++stage) {
    BOOST_TEST_INFO_SCOPE("stage " << stage);
    threaded_company c(small_plans(3, stage, 2));
    for (int i = 0; i < 5; ++i) {
      BOOST_TEST_INFO_SCOPE("i " << i);
      const auto out = c.run();
      BOOST_REQUIRE_MESSAGE(!out.failure, (out.failure ? out.failure->text : ""));
      BOOST_REQUIRE(out.ranks->size() == 3U);
      for (const auto& rank : *out.ranks) {
        BOOST_TEST(rank.spans.spans.size() == rank.spans.plan->instructions.size());
        for (const auto& s : rank.spans.spans) BOOST_TEST((s.end_ns > 0 && s.end_ns >= s.start_ns));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(an_executors_error_is_the_runs_one_error_with_rank_and_instruction) {
  threaded_company c(small_plans(2), at_rank_1{plan::kind::update, [] {
                                                 return core::result<progress>(
                                                     core::fail(core::error_kind::no_space, "no room on the disk"));
                                               }});
  const auto out = c.run();
  BOOST_REQUIRE(out.failure);
  BOOST_TEST((out.failure->kind == core::error_kind::no_space));
  BOOST_TEST(out.failure->text == "rank 1: update sub-group 0: no room on the disk");
  const auto again = c.run();
  BOOST_REQUIRE(again.failure);
  BOOST_TEST(again.failure->text == out.failure->text);
}

BOOST_AUTO_TEST_CASE(an_exception_keeps_its_text) {
  threaded_company c(small_plans(2), at_rank_1{plan::kind::forward, []() -> core::result<progress> {
                                                 throw std::runtime_error("shapes do not fit");
                                               }});
  const auto out = c.run();
  BOOST_REQUIRE(out.failure);
  BOOST_TEST(out.failure->text == "rank 1: compute lane: shapes do not fit");
}

BOOST_AUTO_TEST_CASE(a_lane_that_dies_during_a_run_is_named_at_once) {
  std::promise<void> reached;
  threaded_company c(small_plans(2), at_rank_1{plan::kind::backward, [&, once = std::make_shared<std::once_flag>()] {
                                                 std::call_once(*once, [&] { reached.set_value(); });
                                                 return never();
                                               }});
  clock_type::time_point killed;
  const auto out = c.run([&] {
    reached.get_future().wait();
    killed = clock_type::now();
    caf::anon_send_exit(c.lane(1, plan::lane::compute), caf::exit_reason::kill);
  });
  BOOST_REQUIRE(out.failure);
  BOOST_TEST((out.failure->kind == core::error_kind::peer_lost));
  BOOST_TEST(says(out.failure->text, "rank 1: compute lane ended"), out.failure->text);
  BOOST_TEST(since(killed) < 20);
}

BOOST_AUTO_TEST_CASE(a_fabric_lane_that_dies_is_named_by_its_rank_or_its_partners) {
  std::promise<void> reached;
  threaded_company c(small_plans(2), at_rank_1{plan::kind::backward, [&, once = std::make_shared<std::once_flag>()] {
                                                 std::call_once(*once, [&] { reached.set_value(); });
                                                 return never();
                                               }});
  const auto out = c.run([&] {
    reached.get_future().wait();
    caf::anon_send_exit(c.lane(1, plan::lane::fabric), caf::exit_reason::kill);
  });
  BOOST_REQUIRE(out.failure);
  BOOST_TEST((out.failure->kind == core::error_kind::peer_lost));
  BOOST_TEST(says(out.failure->text, "rank 1"), out.failure->text);
}

BOOST_AUTO_TEST_CASE(an_actor_that_died_between_runs_fails_the_next_one_at_once) {
  for (const bool rank : {false, true}) {
    BOOST_TEST_INFO_SCOPE("rank " << rank);
    threaded_company c(small_plans(2));
    BOOST_TEST(!c.run().failure);
    if (rank)
      caf::anon_send_exit(c.actors().ranks[1]->rank, caf::exit_reason::kill);
    else
      caf::anon_send_exit(c.lane(1, plan::lane::shard), caf::exit_reason::kill);
    const auto began = clock_type::now();
    const auto out = c.run();
    BOOST_REQUIRE(out.failure);
    BOOST_TEST(says(out.failure->text, "rank 1"), out.failure->text);
    BOOST_TEST(since(began) < 20);
  }
}

BOOST_AUTO_TEST_CASE(an_actor_that_died_before_the_first_run_fails_it_at_once) {
  for (const bool loader : {false, true}) {
    BOOST_TEST_INFO_SCOPE("loader " << loader);
    threaded_company c(small_plans(2));
    if (loader)
      caf::anon_send_exit(c.actors().loader, caf::exit_reason::kill);
    else
      caf::anon_send_exit(c.lane(0, plan::lane::compute), caf::exit_reason::kill);
    const auto out = c.run();
    BOOST_REQUIRE(out.failure);
    BOOST_TEST((out.failure->kind == core::error_kind::peer_lost));
    BOOST_TEST(says(out.failure->text, loader ? "loader" : "rank 0"), out.failure->text);
  }
}

BOOST_AUTO_TEST_CASE(a_dead_supervisor_answers_the_order_too) {
  std::promise<void> reached;
  threaded_company c(small_plans(2), at_rank_1{plan::kind::backward, [&, once = std::make_shared<std::once_flag>()] {
                                                 std::call_once(*once, [&] { reached.set_value(); });
                                                 return never();
                                               }});
  std::string unanswered;
  c.run(
      [&] {
        reached.get_future().wait();
        caf::anon_send_exit(c.actors().supervisor, caf::exit_reason::kill);
      },
      &unanswered);
  BOOST_TEST(says(unanswered, "request_receiver_down"), unanswered);
}

BOOST_AUTO_TEST_CASE(silence_is_named_after_stall_after_with_instruction_and_partners) {
  const auto plans = small_plans(2);
  threaded_company c(plans, at_rank_1{plan::kind::backward, never}, at_most(std::chrono::milliseconds(200)));
  const auto began = clock_type::now();
  const auto out = c.run();
  const double took_s = since(began);
  BOOST_REQUIRE(out.failure);
  BOOST_TEST((out.failure->kind == core::error_kind::stalled));
  const auto& text = out.failure->text;
  const auto& backward = find_instruction(*plans[1], [](const auto& x) { return x.kind == plan::kind::backward; });
  const bool by_itself = says(text, "rank 1: nothing has ended for ") &&
                         says(text, "compute lane is in " + plans[1]->describe(backward.id));
  const bool by_its_partner = says(text, "rank 0: nothing has ended for ") && says(text, "and waits for rank 1");
  BOOST_TEST_REQUIRE((by_itself || by_its_partner), text);
  const std::string quiet = "nothing has ended for ";
  const double quiet_s = std::stod(text.substr(text.find(quiet) + quiet.size()));
  BOOST_TEST((quiet_s >= 0.2 && quiet_s <= took_s + 0.05), text);  // the message rounds the time to a tenth of a second
  BOOST_TEST(took_s >= 0.2);
  BOOST_TEST(took_s < 20);
}

BOOST_AUTO_TEST_CASE(a_loader_that_reads_a_slow_disk_makes_the_run_wait) {
  const auto plans = small_plans(2);
  auto loader = empty_batches();
  loader.cut = [](const next_batch&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return std::make_shared<const data::batch>();
  };
  patience p;
  p.stall_after = std::chrono::milliseconds(20);
  threaded_company c(plans, scripted_ranks(plans, {}, p), loader);
  const auto out = c.run();
  BOOST_TEST(!out.failure, (out.failure ? out.failure->text : ""));
}

BOOST_AUTO_TEST_CASE(a_loader_that_throws_fails_the_run_at_once) {
  const auto plans = small_plans(2);
  auto loader = empty_batches();
  loader.cut = [](const next_batch&) -> std::shared_ptr<const data::batch> { throw std::runtime_error("no text"); };
  threaded_company c(plans, scripted_ranks(plans, {}, {}), loader);
  const auto began = clock_type::now();
  const auto out = c.run();
  BOOST_REQUIRE(out.failure);
  BOOST_TEST((out.failure->kind == core::error_kind::peer_lost));
  BOOST_TEST(says(out.failure->text, "loader: no batch"), out.failure->text);
  BOOST_TEST(since(began) < 20);
}

BOOST_AUTO_TEST_CASE(a_stop_by_the_user_is_the_reason_given) {
  threaded_company c(small_plans(2), at_rank_1{plan::kind::backward, never});
  const auto out = c.run([&] {
    post(c.actors().supervisor, give_up{core::error_kind::stopped, "interrupted by the user"});
  });
  BOOST_REQUIRE(out.failure);
  BOOST_TEST((out.failure->kind == core::error_kind::stopped));
  BOOST_TEST(out.failure->text == "interrupted by the user");
}

BOOST_AUTO_TEST_CASE(a_stop_before_the_first_run_refuses_it) {
  threaded_company c(small_plans(1, 0));
  post(c.actors().supervisor, give_up{core::error_kind::stopped, "not today"});
  const auto out = c.run();
  BOOST_REQUIRE(out.failure);
  BOOST_TEST(out.failure->text == "not today");
}

BOOST_AUTO_TEST_CASE(a_second_order_during_a_run_is_refused_and_the_first_continues) {
  std::promise<void> reached;
  std::promise<void> refused;
  std::shared_future<void> go_on = refused.get_future();
  threaded_company c(small_plans(1, 1),
                     [&, once = std::make_shared<std::once_flag>()](const step_context&, const plan::instruction& x) {
                       if (x.kind == plan::kind::update)
                         std::call_once(*once, [&] { reached.set_value(), go_on.wait(); });
                       return core::result<progress>(progress::done);
                     });
  const auto out = c.run([&] {
    reached.get_future().wait();
    const auto second = c.run();
    BOOST_REQUIRE(second.failure);
    BOOST_TEST(says(second.failure->text, "while another is under way"), second.failure->text);
    refused.set_value();
  });
  BOOST_TEST(!out.failure);
}

BOOST_AUTO_TEST_CASE(two_hundred_companies_start_run_fail_or_not_and_end) {
  const auto plans = small_plans(2, 1);
  const auto began = clock_type::now();
  for (int i = 0; i < 200; ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    script what;
    if (i % 4 == 1)
      what = at_rank_1{plan::kind::vote, [] { return core::result<progress>(core::fail(core::error_kind::io, "no")); }};
    threaded_company c(plans, what);
    if (i % 4 == 2) caf::anon_send_exit(c.lane(0, plan::lane::shard), caf::exit_reason::kill);
    if (i % 4 == 3) continue;  // the company is destroyed before any run
    BOOST_TEST((c.run().failure != nullptr) == (i % 4 != 0));
  }
  BOOST_TEST(since(began) < 60);
}

BOOST_AUTO_TEST_SUITE_END()
