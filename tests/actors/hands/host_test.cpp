// Tests sessions in a host program: its own actor system, typed handles, callbacks, several sessions at once.
#include "actors/host.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/ones.h>
#include <c10/core/Allocator.h>
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <future>
#include <thread>

#include "actors/aten_threads.hpp"
#include "actors/run/host_messages.hpp"
#include "models/segment/products.hpp"
#include "tests/check_ok.hpp"
#include "tests/small_job.hpp"

BOOST_AUTO_TEST_SUITE(host)

using namespace troupe;
using namespace troupe::tests;

namespace {

// An actor system as a host program creates it.
struct host_system {
  caf::actor_system_config settings;
  std::unique_ptr<caf::actor_system> system;
  explicit host_system(bool with_messages = true, const char* policy = nullptr) {
    if (with_messages) actors::add_message_types(settings);
    if (policy != nullptr) settings.set("scheduler.policy", caf::atom_from_string(policy));
    settings.set("scheduler.max-threads", size_t{2});
    system = std::make_unique<caf::actor_system>(settings);
  }
};

std::unique_ptr<actors::session> open_in(caf::actor_system& system, const small_job& job, const settings& set,
                                         actors::session_hooks hooks = {}) {
  actors::session_options options;
  options.config = job.config(set);
  options.hooks = std::move(hooks);
  options.system = &system;
  auto s = actors::session::open(std::move(options));
  if (!s) throw std::runtime_error(s.error().text);
  return std::move(*s);
}

std::vector<double> losses(actors::session& s, int steps) {
  std::vector<double> out;
  for (int i = 0; i < steps; ++i) out.push_back(step_of(s).loss);
  return out;
}

const settings stage3 = {"parallel.data=2", "zero_optimization.stage=3"};

}  // namespace

BOOST_AUTO_TEST_CASE(a_session_in_a_hosts_system_computes_the_same_and_leaves_the_system_running) {
  const small_job job;
  const auto alone = losses(*job.open(stage3), 3);
  const host_system mine;
  for (int round = 0; round < 2; ++round) {
    BOOST_TEST_INFO_SCOPE("round " << round);
    auto s = open_in(*mine.system, job, stage3);
    BOOST_TEST(losses(*s, 3) == alone, boost::test_tools::per_element());
  }
  caf::scoped_actor self{*mine.system};
  const auto echo = mine.system->spawn([]() -> caf::behavior { return {[](int32_t x) { return x; }}; });
  self->request(echo, caf::infinite, int32_t{7})
      .receive([](int32_t x) { BOOST_TEST(x == 7); }, [](caf::error&) { BOOST_ERROR("the system is dead"); });
}

BOOST_AUTO_TEST_CASE(sessions_at_the_same_time_compute_as_if_they_were_alone) {
  const small_job job;
  const settings other = stage3 + settings{"seed=8", "gradient_accumulation_steps=2"};
  const auto first = losses(*job.open(stage3), 4), second = losses(*job.open(other), 4);
  auto* const allocator = c10::GetAllocator(c10::DeviceType::CPU);
  {
    const host_system mine;
    auto a = open_in(*mine.system, job, stage3), b = open_in(*mine.system, job, other), c = job.open(other);
    std::vector<double> got[3];
    actors::session* all[3] = {a.get(), b.get(), c.get()};
    std::vector<std::thread> callers;
    for (int i = 0; i < 3; ++i) callers.emplace_back([&, i] { got[i] = losses(*all[i], 4); });
    for (auto& t : callers) t.join();
    BOOST_TEST(got[0] == first, boost::test_tools::per_element());
    BOOST_TEST(got[1] == second, boost::test_tools::per_element());
    BOOST_TEST(got[2] == second, boost::test_tools::per_element());
    a.reset();  // ends one session; the other sessions' allocations are still counted
    BOOST_TEST((c10::GetAllocator(c10::DeviceType::CPU) != allocator));
    BOOST_TEST(b->memory()[0].activations_peak_bytes > 0U);
  }
  BOOST_TEST((c10::GetAllocator(c10::DeviceType::CPU) == allocator));
}

BOOST_AUTO_TEST_CASE(threads_of_the_host_keep_their_number_of_aten_threads) {
  const int before = at::get_num_threads();
  at::set_num_threads(3);
  const small_job job;
  auto s = job.open(stage3);
  step_of(*s);
  BOOST_TEST(at::get_num_threads() == 3);
  int during = 0, after = 0, late = 0;
  std::promise<void> used, closed;
  // The thread uses ATen for the first time while a session is open.
  std::thread host_thread([&, wait = closed.get_future()] {
    during = at::get_num_threads();
    used.set_value();
    wait.wait();
    after = at::get_num_threads();
  });
  used.get_future().wait();
  step_of(*s);
  s.reset();
  closed.set_value();
  host_thread.join();
  std::thread([&] { late = at::get_num_threads(); }).join();
  BOOST_TEST(during == 3);
  BOOST_TEST(after == 3);
  BOOST_TEST(late == 3);
  BOOST_TEST(at::get_num_threads() == 3);
  int inside = 0;
  {
    const actors::one_aten_thread here;
    inside = at::get_num_threads();
    std::thread([&] { during = at::get_num_threads(); }).join();
  }
  BOOST_TEST(inside == 1);
  BOOST_TEST(during == 3);
  BOOST_TEST(at::get_num_threads() == 3);
  at::set_num_threads(before);
}

BOOST_AUTO_TEST_CASE(a_lane_keeps_to_one_thread_whatever_it_calls) {
  const int before = at::get_num_threads();
  at::set_num_threads(3);
  int multiplied = 0, looped = 0;
  std::thread([&] {
    actors::keep_to_one_aten_thread();
    const at::Tensor a = at::ones({64, 64});  // this size is large enough for oneDNN
    (void)models::product(a, a);
    multiplied = at::get_num_threads();
    // A host program's at::parallel_for() makes this call if it was compiled with OpenMP.
    at::internal::lazy_init_num_threads();
    looped = at::get_num_threads();
  }).join();
  BOOST_TEST(multiplied == 1);
  BOOST_TEST(looped == 1);
  int inside = 0, after = 0;
  std::thread([&] {
    {
      const actors::one_aten_thread here;
      at::internal::lazy_init_num_threads();
      inside = at::get_num_threads();
    }
    after = at::get_num_threads();
  }).join();
  BOOST_TEST(inside == 1);
  BOOST_TEST(after == 3);
  at::set_num_threads(before);
}

BOOST_AUTO_TEST_CASE(a_system_without_troupes_messages_is_refused_with_what_to_add) {
  const small_job job;
  const host_system mine(false);
  actors::session_options options;
  options.config = job.config({});
  options.system = mine.system.get();
  const auto s = actors::session::open(std::move(options));
  BOOST_REQUIRE(!s);
  BOOST_TEST((s.error().kind == core::error_kind::bad_input));
  BOOST_TEST(s.error().text ==
             "session: the host's actor system does not know the message troupe::actors::run_failed; call "
             "troupe::actors::add_message_types(settings) before it is made from its settings");
}

BOOST_AUTO_TEST_CASE(a_system_whose_scheduler_runs_nothing_is_refused) {
  const host_system mine(true, "testing");
  check_failed(actors::check_system(*mine.system), "scheduler.policy testing");
}

BOOST_AUTO_TEST_CASE(without_a_configuration_there_is_no_session) {
  check_failed(actors::session::open(actors::session_options{}), core::error_kind::bad_input);
}

BOOST_AUTO_TEST_CASE(the_loader_answers_a_host_and_the_run_is_not_disturbed) {
  const small_job job;
  const auto alone = losses(*job.open(stage3), 2);
  const host_system mine;
  auto s = open_in(*mine.system, job, stage3);
  {
    caf::scoped_actor self{*mine.system};
    const actors::next_batch third{.run = 0, .step = 2, .micro = 0, .rank = 1, .which = plan::plan_choice::train};
    self->request(s->actors().loader, caf::infinite, third)
        .receive(
            [](const actors::batch_ready& m) {
              BOOST_TEST(m.batch->step == 2U);
              // One micro-batch has 2 rows of sequence length + 1 tokens.
              BOOST_TEST(m.batch->tokens.size() == 2U * 17);
            },
            [](caf::error&) { BOOST_ERROR("no batch"); });
  }
  BOOST_TEST(losses(*s, 2) == alone, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_host_ends_the_run_by_a_message_and_sees_the_actors_go) {
  const small_job job;
  const host_system mine;
  auto s = open_in(*mine.system, job, stage3);
  caf::scoped_actor self{*mine.system};
  {
    const auto all = s->actors();
    BOOST_TEST(all.ranks.size() == 2U);
    self->monitor(all.supervisor);
    for (const auto& r : all.ranks) self->monitor(r);
    step_of(*s);
    self->send(all.supervisor, actors::give_up{core::error_kind::stopped, "the host has seen enough"});
  }
  check_failed(s->step(), core::error_kind::stopped, "the host has seen enough");
  s.reset();
  for (int i = 0; i < 3; ++i) self->receive([](const caf::down_msg&) {});
}

BOOST_AUTO_TEST_CASE(callbacks_come_on_the_callers_thread) {
  const small_job job;
  const auto here = std::this_thread::get_id();
  std::vector<uint64_t> steps;
  double evaluated = 0;
  bool elsewhere = false;
  const auto look = [&] { elsewhere |= std::this_thread::get_id() != here; };
  actors::session_hooks hooks;
  hooks.on_step = [&](const actors::step_report& r) {
    look();
    steps.push_back(r.step);
  };
  hooks.on_evaluation = [&](uint64_t step, double loss) {
    look();
    BOOST_TEST(step == 2U);
    evaluated = loss;
  };
  const host_system mine;
  auto s = open_in(*mine.system, job, stage3 + settings{"data.validation_fraction=0.2"}, hooks);
  losses(*s, 2);
  const auto loss = s->evaluate(1);
  BOOST_REQUIRE(loss);
  BOOST_TEST(evaluated == *loss);
  BOOST_TEST(steps == (std::vector<uint64_t>{1, 2}), boost::test_tools::per_element());
  BOOST_TEST(!elsewhere);
}

BOOST_AUTO_TEST_CASE(warnings_wait_for_the_caller_and_those_beyond_the_limit_are_counted) {
  actors::line_box box(actors::warnings_max, "warnings");
  std::thread([&] {
    for (size_t i = 0; i < actors::warnings_max + 6; ++i) box.put(fmt::format("warning {}", i));
  }).join();
  std::vector<std::string> lines;
  while (auto line = box.take()) lines.push_back(std::move(*line));
  BOOST_REQUIRE(lines.size() == actors::warnings_max + 1);
  BOOST_TEST(lines.front() == "warning 0");
  BOOST_TEST(lines.back() == "6 further warnings were not kept");
  BOOST_TEST(!box.take().has_value());
}

BOOST_AUTO_TEST_CASE(a_message_asks_for_a_checkpoint_once) {
  const tests::small_job job;
  auto s = job.open({"parallel.data=2"});
  BOOST_TEST(!tests::step_of(*s).save_asked);
  caf::anon_send(s->actors().supervisor, actors::save_now{});
  caf::anon_send(s->actors().supervisor, actors::save_now{});
  BOOST_TEST(tests::step_of(*s).save_asked);
  BOOST_TEST(!tests::step_of(*s).save_asked);
}

BOOST_AUTO_TEST_SUITE_END()
