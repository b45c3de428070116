// Tests sessions and threads: calls from several host threads, and threads that the operating system refuses to start.
#include <ATen/Parallel.h>
#include <fenv.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "actors/calibrate.hpp"
#include "actors/company.hpp"
#include "actors/opening/own_system.hpp"
#include "actors/opening/thread_room.hpp"
#include "tests/actors/ranks.hpp"
#include "tests/crash/wanted_cases.hpp"
#include "tests/small_job.hpp"
#include "tests/thread_limit.hpp"

BOOST_AUTO_TEST_SUITE(session_threads)

using namespace troupe;
using namespace troupe::tests;

namespace {

constexpr std::chrono::seconds patience{60};

/// Runs tasks one after another on one host thread, which lives until the object releases it.
class worker {
 public:
  worker() : thread_([this] { work(); }) {}
  ~worker() {
    if (!stuck_) (void)call([this] { over_ = true; });
    stuck_ ? thread_.detach() : thread_.join();
  }
  worker(const worker&) = delete;
  worker& operator=(const worker&) = delete;

  /// Runs the task on the thread and waits for it. Returns false if the task does not return in time.
  bool call(std::function<void()> f) {
    std::packaged_task<void()> task(std::move(f));
    auto done = task.get_future();
    {
      const std::lock_guard lock(mutex_);
      next_ = std::move(task);
    }
    changed_.notify_one();
    stuck_ = done.wait_for(patience) != std::future_status::ready;
    if (!stuck_) done.get();
    return !stuck_;
  }

 private:
  void work() {
    while (!over_) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return next_.valid(); });
      auto task = std::move(next_);
      lock.unlock();
      task();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::packaged_task<void()> next_;
  bool over_ = false, stuck_ = false;
  std::thread thread_;
};

size_t entries_of(const char* folder) {
  const std::filesystem::directory_iterator all(folder);
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

uint64_t resident_bytes() {
  uint64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

/// Returns true if the process reaches this number of threads; waits for threads that have ended, because the kernel
/// counts them until it has removed them.
bool ends_with(size_t threads) {
  for (int i = 0; i < 500 && entries_of("/proc/self/task") != threads; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return entries_of("/proc/self/task") == threads;
}
bool ends_alone() { return ends_with(1); }

/// Runs `f` in a child process and returns its result, which is passed as the exit code; 99 if the child does not end.
int in_a_child(const std::function<int()>& f) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(f());
  const auto until = std::chrono::steady_clock::now() + patience;
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > until) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      return 99;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

BOOST_AUTO_TEST_CASE(four_living_threads_open_step_save_and_destroy_a_session) {
  const small_job job;
  worker opens, steps, saves, destroys;
  std::unique_ptr<actors::session> s;
  BOOST_REQUIRE(opens.call([&] { s = job.open({"parallel.data=2", "data.validation_fraction=0.1"}); }));
  BOOST_REQUIRE(steps.call([&] { BOOST_TEST(step_of(*s).step == 1U); }));
  BOOST_REQUIRE(opens.call([&] { BOOST_TEST(s->evaluate().has_value()); }));
  BOOST_REQUIRE(saves.call([&] {
    actors::save_request request;
    request.root = job.folder() / "checkpoints";
    BOOST_TEST(s->save(request).has_value());
  }));
  BOOST_REQUIRE(steps.call([&] { BOOST_TEST(step_of(*s).step == 2U); }));
  BOOST_REQUIRE_MESSAGE(destroys.call([&] { s.reset(); }), "the session's end hangs");
}

BOOST_AUTO_TEST_CASE(a_session_ends_while_a_thread_that_stepped_it_lives) {
  const small_job job;
  worker stepped, ends;
  auto s = job.open({});
  BOOST_REQUIRE(stepped.call([&] { BOOST_TEST(step_of(*s).step == 1U); }));
  BOOST_REQUIRE(stepped.call([&] { s->stop("seen enough"); }));
  BOOST_REQUIRE_MESSAGE(ends.call([&] { s.reset(); }), "the session's end hangs");
}

BOOST_AUTO_TEST_CASE(a_thread_registered_with_its_hosts_actor_system_stays_registered) {
  const small_job job;
  caf::actor_system_config settings;
  actors::add_message_types(settings);
  caf::actor_system system(settings);
  const caf::scoped_actor self{system};
  auto s = job.open({});
  step_of(*s);
  s.reset();
  BOOST_TEST(caf::logger::current_logger() == nullptr);  // CAF sets the logger again when this thread next needs it
  caf::logger::set_current_actor_system(&system);
  actors::session_options options;
  options.config = job.config({});
  options.system = &system;
  auto mine = actors::session::open(std::move(options));
  BOOST_TEST_REQUIRE(mine.has_value());
  step_of(**mine);
  BOOST_TEST(caf::logger::current_logger() == &system.logger());
}

BOOST_AUTO_TEST_CASE(no_session_opens_without_threads_and_nothing_is_left) {
  const small_job job;
  const auto config = job.config({"parallel.data=2"});
  for (const rlim_t threads : {1, 2, 4, 8, 12}) {
    const int code = in_a_child([&] {
      const size_t descriptors = entries_of("/proc/self/fd");
      allow_threads(threads);
      const auto s = actors::session::open(config);
      if (s.has_value()) return 2;
      if (s.error().kind != core::error_kind::limit) return 3;
      if (s.error().text.find("threads: wanted 14 ") != 0) return 4;
      if (!ends_alone()) return 5;
      return entries_of("/proc/self/fd") == descriptors ? 0 : 6;
    });
    BOOST_TEST(code == 0, "with " << threads << " threads: " << code);
  }
}

// Each session trains, evaluates, generates and saves. The test alternates sessions with pipeline stages, with states
// in files, and in a host program's actor system.
BOOST_AUTO_TEST_CASE(sessions_that_are_opened_and_closed_again_and_again_leave_nothing_behind) {
  constexpr uint64_t early = 20;
  [[maybe_unused]] constexpr uint64_t beyond_the_first_sessions_bytes = uint64_t{8} << 20;
  const uint64_t late = wanted_cases("TROUPE_SESSIONS", 100);
  const small_job job;
  const std::string swaps = (job.folder() / "swap").string();
  const std::vector<settings> kinds{
      {"parallel.data=2", "data.validation_fraction=0.1"},
      {"parallel.pipeline=2", "pipeline={schedule: zb_v, chunks: 2}", "gradient_accumulation_steps=2",
       "zero_optimization.stage=1", "data.validation_fraction=0.1"},
      {"zero_optimization={stage: 3, offload_optimizer: {device: nvme, nvme_path: " + swaps + "}}", "parallel.data=2",
       "data.validation_fraction=0.1"}};
  std::vector<std::shared_ptr<const config::job_config>> configs;
  for (const auto& kind : kinds) configs.push_back(job.config(kind));
  caf::actor_system_config settings_of_host;
  actors::add_message_types(settings_of_host);
  caf::actor_system system(settings_of_host);
  size_t threads = 0, descriptors = 0;
  uint64_t resident = 0;
  for (uint64_t i = 1; i <= late; ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    actors::session_options options;
    options.config = configs[i % configs.size()];
    if (i % 2 == 0) options.system = &system;
    auto s = actors::session::open(std::move(options));
    BOOST_TEST_REQUIRE(s.has_value(), (s ? "" : s.error().text));
    step_of(**s);
    BOOST_TEST((*s)->evaluate(1).has_value());
    BOOST_TEST((*s)->generate({1, 2}, 2, 0).has_value());
    actors::save_request request;
    request.root = job.folder() / "kept";
    BOOST_TEST((*s)->save_async(request).has_value());
    step_of(**s);
    BOOST_TEST((*s)->wait_for_saves().has_value());
    s->reset();
    std::filesystem::remove_all(job.folder() / "kept");
    if (i != early) continue;
    threads = entries_of("/proc/self/task");
    descriptors = entries_of("/proc/self/fd");
    resident = resident_bytes();
  }
  // The loop waits for threads that have ended, which are counted until the kernel has removed them.
  for (int i = 0; i < 500 && entries_of("/proc/self/task") > threads; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  BOOST_TEST(entries_of("/proc/self/task") <= threads);
  BOOST_TEST(entries_of("/proc/self/fd") == descriptors);
  const uint64_t now = resident_bytes();
  BOOST_TEST_MESSAGE(resident / 1000 << " -> " << now / 1000 << " KB");
#ifdef __SANITIZE_ADDRESS__
  BOOST_TEST_MESSAGE("the address sanitizer keeps what is freed: bytes are not compared");
#else
  BOOST_TEST(now <= resident + beyond_the_first_sessions_bytes);
#endif
}

BOOST_AUTO_TEST_CASE(a_host_with_floating_point_traps_trains_and_keeps_them) {
  const small_job job;
  const auto config = job.config({"parallel.data=2"});
  constexpr int traps = FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW;
  const int code = in_a_child([&] {
    if (::feenableexcept(traps) == -1) return 2;
    const auto s = actors::session::open(config);
    if (!s.has_value()) return 3;
    for (int i = 0; i < 3; ++i)
      if (!(*s)->step()) return 4;
    return ::fegetexcept() == traps ? 0 : 5;
  });
  BOOST_TEST(code == 0, code);
}

// An OpenMP team would keep its threads, and libgomp ends the process if it cannot start a thread for a team.
BOOST_AUTO_TEST_CASE(neither_steps_nor_the_measurement_for_lanes_opens_an_openmp_team) {
  const small_job job;
  const auto config = job.config({"parallel.data=2"});
  const int code = in_a_child([&] {
    at::set_num_threads(3);
    // LibTorch starts threads of its own at the first such call of a process.
    const size_t of_host = entries_of("/proc/self/task");
    if (!(actors::measured_matmul_flops(*config) > 0)) return 2;
    if (!ends_with(of_host)) return 3;
    const auto s = actors::session::open(config);
    if (!s.has_value()) return 4;
    const size_t threads = entries_of("/proc/self/task");
    for (int i = 0; i < 2; ++i)
      if (!(*s)->step().has_value()) return 5;
    for (int i = 0; i < 500 && entries_of("/proc/self/task") > threads; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return entries_of("/proc/self/task") <= threads ? 0 : 6;
  });
  BOOST_TEST(code == 0, code);
}

// The test simulates that other processes start threads between the session's check and the start of its lanes.
BOOST_AUTO_TEST_CASE(a_company_without_enough_threads_is_dismissed_and_its_system_ends) {
  for (const rlim_t threads : {1, 2, 4, 6}) {
    const int code = in_a_child([&] {
      auto held = std::make_shared<int>(0);
      {
        actors::own_system own;
        allow_threads(actors::threads_of_system(actors::own_workers) + threads);
        std::vector<actors::rank_parts> ranks(1);
        for (auto& make : ranks[0].lanes)
          make = [held] {
            return std::make_unique<actors::scripted_executor>(actors::script(), actors::memberships{});
          };
        const auto c = actors::assemble(own.system, std::move(ranks), {}, {}, actors::lane_threads::own);
        if (c.has_value()) return 2;
        if (c.error().kind != core::error_kind::limit) return 3;
        if (c.error().text.find("threads: wanted 6 for the lanes of 1 ranks") != 0) return 4;
      }
      if (held.use_count() != 1) return 5;
      return ends_alone() ? 0 : 6;
    });
    BOOST_TEST(code == 0, "with " << threads << " threads: " << code);
  }
}

BOOST_AUTO_TEST_CASE(checking_for_threads_leaves_none_taken) {
  BOOST_TEST(actors::check_thread_room(0).has_value());
  const size_t before = entries_of("/proc/self/task");
  BOOST_TEST(actors::check_thread_room(20).has_value());
  BOOST_TEST(entries_of("/proc/self/task") == before);
}

BOOST_AUTO_TEST_SUITE_END()
