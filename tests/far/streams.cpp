#include "tests/far/streams.hpp"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "actors/aten_threads.hpp"
#include "core/clock.hpp"
#include "tests/far/counters.hpp"
#include "tests/sanitizer_options.hpp"

namespace troupe::far {
namespace {

/// Delay of the host before each wait for a stream. An access that does not wait for the stream must happen within that
/// time, and the address sanitizer makes it several times slower.
constexpr std::chrono::milliseconds lateness{troupe::tests::has_address_sanitizer ? 10 : 1};

/// Does work of the device on the calling thread, with one thread of LibTorch: which thread waits for the work changes
/// from run to run, and the bits of a product depend on its number of threads.
void do_now(const std::function<void()>& work) {
  actors::keep_to_one_aten_thread();
  work();
}

struct queue;

struct point {  // a point in a stream's work, to which an event refers
  queue* on = nullptr;
  bool over = false;
  int64_t ns = 0;
};

struct event {
  std::shared_ptr<point> latest;
};

struct queued {
  std::function<void()> work{};
  std::shared_ptr<point> reached{}, waits_for{};
};

struct queue {
  int64_t number = 0;
  std::deque<queued> asked{};
  bool listed = false;  // true: the queue is in the list of queues that may have work
};

struct scheduler {
  std::recursive_mutex lock;
  std::atomic<bool> late{false};
  std::mt19937_64 random;
  uint64_t one_in = 0;  // one in this many requests causes queued work to be done at once; 0: none does
  bool wanders = false;                         // true: other work is done as well while the host waits
  std::vector<std::shared_ptr<queue>> streams;  // [number]: a stream; never freed, because streams are small
  std::vector<queue*> busy;                     // all queues that have work, and some that no longer have any

  std::atomic<bool> lost{false}, refused{false}, comes_late{false};

  scheduler() { open(); }

  std::shared_ptr<queue> open() {
    streams.push_back(std::make_shared<queue>());
    streams.back()->number = static_cast<int64_t>(streams.size()) - 1;
    return streams.back();
  }
  queue& of(void* stream) { return stream == nullptr ? *streams.front() : *static_cast<queue*>(stream); }
  uint64_t drawn(uint64_t below) { return std::uniform_int_distribution<uint64_t>(0, below - 1)(random); }

  static bool may_go_on(const queue& q) {
    return !q.asked.empty() && (!q.asked.front().waits_for || q.asked.front().waits_for->over);
  }

  /// Runs the first entry of a queue whose dependencies are fulfilled.
  static void step(queue& q) {
    queued x = std::move(q.asked.front());
    q.asked.pop_front();
    try {
      if (x.work) do_now(x.work);
    } catch (const std::exception& e) {
      dprintf(STDERR_FILENO, "work of the far device failed: %s\n", e.what());
      _exit(1);
    }
    if (!x.reached) return;
    x.reached->ns = core::now_ns();
    x.reached->over = true;
  }

  /// Runs one entry that must be done before `q` can continue, which may be in another queue.
  static void advance(queue& q) {
    if (may_go_on(q)) return step(q);
    if (!q.asked.empty()) advance(*q.asked.front().waits_for->on);
  }

  void wander() {
    std::vector<queue*> able;
    std::erase_if(busy, [](queue* q) {
      q->listed = !q->asked.empty();
      return !q->listed;
    });
    for (queue* q : busy)
      if (may_go_on(*q)) able.push_back(q);
    if (!able.empty()) step(*able[drawn(able.size())]);
  }

  void add(queue& q, queued x) {
    q.asked.push_back(std::move(x));
    if (!std::exchange(q.listed, true)) busy.push_back(&q);
  }

  void put(queue& q, queued x) {
    add(q, std::move(x));
    if (one_in == 0 || drawn(one_in) > 0) return;
    for (uint64_t n = drawn(8); n > 0; --n) wander();
  }

  void until(auto over, queue& q) {
    while (!over()) {
      if (wanders && drawn(2) == 0) wander();
      if (!over()) advance(q);
    }
  }
};

scheduler& all() {
  static auto* const kept = new scheduler;  // never freed, because threads may end after main
  return *kept;
}

thread_local void* torch_current = nullptr;

point& point_of(void* e) { return *static_cast<event*>(e)->latest; }

}  // namespace

void be_prompt() {
  scheduler& s = all();
  const std::lock_guard guard(s.lock);
  for (const auto& q : s.streams) s.until([&] { return q->asked.empty(); }, *q);
  s.late = s.lost = s.refused = false;
}

void be_late(uint64_t seed) {
  be_prompt();
  scheduler& s = all();
  const std::lock_guard guard(s.lock);
  s.late = true;
  s.random.seed(seed);
  s.one_in = seed == 0 ? 0 : std::vector<uint64_t>{0, 64, 8, 2}[s.drawn(4)];
  s.wanders = seed != 0 && s.drawn(4) > 0;
}

bool is_late() { return all().late; }
void come_late(bool on) { all().comes_late = on; }
void lose() { all().lost = true; }
bool is_lost() { return all().lost; }
void refuse_once() { all().refused = true; }

std::shared_ptr<void> make_stream() {
  const std::lock_guard guard(all().lock);
  return all().open();
}

void ask(void* stream, std::function<void()> work) {
  scheduler& s = all();
  if (!s.late) return do_now(work);
  const std::lock_guard guard(s.lock);
  s.put(s.of(stream), {.work = std::move(work)});
}

void record(void* stream, std::shared_ptr<void>& at) {
  scheduler& s = all();
  const std::lock_guard guard(s.lock);
  if (at == nullptr) at = std::make_shared<event>();
  auto made = std::make_shared<point>(&s.of(stream));
  static_cast<event*>(at.get())->latest = made;
  if (s.late) return s.put(s.of(stream), {.reached = std::move(made)});
  made->ns = core::now_ns();
  made->over = true;
}

void wait(void* stream, void* at) {
  scheduler& s = all();
  const std::lock_guard guard(s.lock);
  if (s.late) s.put(s.of(stream), {.waits_for = static_cast<event*>(at)->latest});
}

core::result<void> finish(void* stream) {
  scheduler& s = all();
  ++counting().waits;
  if (s.lost) return core::fail(core::error_kind::io, "the far device was lost");
  if (s.refused.exchange(false)) return core::fail(core::error_kind::io, "the far device refused a launch");
  if (!s.late) return {};
  if (s.comes_late) std::this_thread::sleep_for(lateness);
  const std::lock_guard guard(s.lock);
  queue& q = s.of(stream);
  if (!q.asked.empty() && computes) ++counting().compute_waits;
  // The wait does not include work that other threads queue after this point.
  const auto end = std::make_shared<point>(&q);
  s.add(q, {.reached = end});
  s.until([&] { return end->over; }, q);
  return {};
}

bool is_over(void* at) {
  const std::lock_guard guard(all().lock);
  return point_of(at).over;
}

void finish_event(void* at) {
  scheduler& s = all();
  ++counting().waits;
  const std::lock_guard guard(s.lock);
  const auto wanted = static_cast<event*>(at)->latest;
  if (!wanted->over && computes) ++counting().compute_waits;
  s.until([&] { return wanted->over; }, *wanted->on);
}

int64_t elapsed_ns(void* from, void* to) {
  const std::lock_guard guard(all().lock);
  return point_of(to).ns - point_of(from).ns;
}

void* torch_stream() { return torch_current; }
void* make_torch_stream(void* stream) { return std::exchange(torch_current, stream); }

int64_t number_of(void* stream) {
  const std::lock_guard guard(all().lock);
  return all().of(stream).number;
}

void* numbered(int64_t number) {
  const std::lock_guard guard(all().lock);
  return number == 0 ? nullptr : all().streams.at(static_cast<size_t>(number)).get();
}

}  // namespace troupe::far
