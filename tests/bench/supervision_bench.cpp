// Measures the cost of a job's supervisor: processor time for each process and step. Its decisions and links are the
// real ones, over socket pairs; one thread models the processes and sends the messages that they send in a step that is
// kept in memory, as long as those of four real processes.
//
// Usage: bench_supervision [PROCESSES [STEPS]]. Prints a line of JSON. `state_us` is without bytes and sockets.
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cluster/link.hpp"
#include "cluster/supervision.hpp"
#include "core/clock.hpp"

namespace {

using namespace troupe;
using namespace troupe::cluster;

constexpr size_t call_bytes = 1200, names_bytes = 250, note_bytes = 140, answer_bytes = 2000;

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "bench_supervision: %s\n", why.c_str());
  std::exit(1);
}

int64_t used_ns() {  // returns the processor time of this thread in nanoseconds
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

/// Models one process: the messages that it sends in a step, before and after it has received the call.
class modelled_process {
 public:
  modelled_process(uint32_t place, uint32_t processes, shared_descriptor memory)
      : place_(place), processes_(processes), memory_(std::move(memory)) {}

  [[nodiscard]] std::vector<parcel> first_words() const { return {{hello{place_ + 1, "1", "job"}}}; }
  std::vector<parcel> hear(const message& m) {
    std::vector<parcel> out;
    if (const auto* x = std::get_if<begin_term>(&m)) {
      term_ = x->number;
      out.push_back({ready{term_, "digest"}});
    } else if (std::holds_alternative<started>(m)) {
      if (place_ == 0) out.push_back(next_call());
    } else if (const auto* x = std::get_if<call>(&m)) {
      if (x->number % 2 == 0) return out;  // a call about file names, which no process answers
      keep(out);
      out.push_back({answer{term_, 0, place_, std::string(note_bytes, 'n')}});
      out.push_back({answer{term_, x->number, place_, std::string(answer_bytes, 'a')}});
    } else if (const auto* x = std::get_if<answer>(&m)) {
      if (x->number == 0 || ++answers_ + 1 < processes_) return out;
      answers_ = 0;
      keep(out);
      const std::string folder = fmt::format("/saves/{}", ++steps_);
      out.push_back({kept_save{folder, working(), steps_}});
      out.push_back({call{term_, ++number_, std::string(names_bytes, 'f')}});
      out.push_back(next_call());
    }
    return out;
  }
  [[nodiscard]] uint64_t steps() const { return steps_; }

 private:
  static std::string working() { return "/saves/working-0123456789abcdef"; }
  parcel next_call() { return {call{term_, ++number_, std::string(call_bytes, 'c')}}; }
  void keep(std::vector<parcel>& out) const {
    out.push_back({kept_file{fmt::format("{}/rank-{}.troupe", working(), place_), 1 << 20}, {memory_}});
  }

  uint32_t place_, processes_;
  shared_descriptor memory_;
  uint64_t term_ = 0, number_ = 0, answers_ = 0, steps_ = 0;
};

supervised_job job_of(uint32_t processes) {
  supervised_job out;
  out.processes = out.data = processes;
  out.feasible = [](uint32_t ranks) { return core::result<uint32_t>(ranks); };
  return out;
}

shared_descriptor some_memory() { return own(::memfd_create("bench", MFD_CLOEXEC)); }

/// Returns the microseconds that decisions alone take, without messages as bytes and sockets, for each process and
/// step.
double state_us(uint32_t processes, uint64_t steps) {
  supervision s(job_of(processes));
  std::vector<modelled_process> members;
  for (uint32_t p = 0; p < processes; ++p) members.emplace_back(p, processes, some_memory());
  std::vector<std::pair<uint32_t, parcel>> said;
  const auto say = [&](uint32_t p, std::vector<parcel> words) {
    for (auto& w : words) said.emplace_back(p, std::move(w));
  };
  int64_t used = 0;
  s.begin(core::now_ns());
  for (uint32_t p = 0; p < processes; ++p) say(p, members[p].first_words());
  while (members[0].steps() < steps) {
    auto now_said = std::exchange(said, {});
    const int64_t begin = used_ns();
    for (auto& [p, w] : now_said) s.hear(p, std::move(w), core::now_ns());
    s.tick(core::now_ns());
    auto actions = s.take();
    used += used_ns() - begin;
    for (const auto& a : actions)
      if (const auto* x = std::get_if<send_to>(&a)) say(x->place, members[x->place].hear(x->what.what));
  }
  return double(used) / 1e3 / double(steps) / processes;
}

/// Runs the processes' ends of all links on one thread.
void play(std::vector<std::unique_ptr<socket_link>>& ends, uint64_t steps) {
  const auto processes = static_cast<uint32_t>(ends.size());
  std::vector<modelled_process> members;
  for (uint32_t p = 0; p < processes; ++p) {
    members.emplace_back(p, processes, some_memory());
    for (auto& w : members[p].first_words()) (void)ends[p]->send(std::move(w));
  }
  while (members[0].steps() < steps) {
    std::vector<pollfd> on;
    on.reserve(processes);
    for (const auto& e : ends)
      on.push_back({e->number(), static_cast<short>(POLLIN | (e->has_waiting() ? POLLOUT : 0)), 0});
    ::poll(on.data(), on.size(), 100);
    for (uint32_t p = 0; p < processes; ++p) {
      if ((on[p].revents & POLLOUT) != 0) (void)ends[p]->flush();
      if ((on[p].revents & POLLIN) == 0) continue;
      auto came = ends[p]->receive();
      if (!came) fail(came.error().text);
      for (const auto& c : *came)
        for (auto& w : members[p].hear(c.what)) (void)ends[p]->send(std::move(w));
    }
  }
}

/// Returns the microseconds including the links, for each process and step, in a loop like that of launch.cpp but
/// without waiting for child processes.
double with_links_us(uint32_t processes, uint64_t steps) {
  std::vector<std::unique_ptr<socket_link>> ours, theirs;
  for (uint32_t p = 0; p < processes; ++p) {
    auto pair = make_pair();
    if (!pair) fail(pair.error().text);
    ours.push_back(std::make_unique<socket_link>(pair->first));
    theirs.push_back(std::make_unique<socket_link>(pair->second));
  }
  std::atomic<bool> over{false};
  std::thread players([&] {
    play(theirs, steps);
    over = true;
  });
  supervision s(job_of(processes));
  const int64_t begin = used_ns();
  s.begin(core::now_ns());
  while (!over) {
    for (auto actions = s.take(); !actions.empty(); actions = s.take())
      for (auto& a : actions)
        if (auto* x = std::get_if<send_to>(&a)) (void)ours[x->place]->send(std::move(x->what));
    std::vector<pollfd> on;
    on.reserve(processes);
    for (const auto& e : ours)
      on.push_back({e->number(), static_cast<short>(POLLIN | (e->has_waiting() ? POLLOUT : 0)), 0});
    ::poll(on.data(), on.size(), 200);
    for (uint32_t p = 0; p < processes; ++p) {
      if ((on[p].revents & POLLOUT) != 0) (void)ours[p]->flush();
      if ((on[p].revents & POLLIN) == 0) continue;
      auto came = ours[p]->receive();
      if (!came) fail(came.error().text);
      for (auto& c : *came) s.hear(p, std::move(c), core::now_ns());
    }
    s.tick(core::now_ns());
  }
  const int64_t used = used_ns() - begin;
  players.join();
  return double(used) / 1e3 / double(steps) / processes;
}

}  // namespace

int main(int argc, char** argv) {
  const auto processes = static_cast<uint32_t>(argc > 1 ? std::atoi(argv[1]) : 256);
  const auto steps = static_cast<uint64_t>(argc > 2 ? std::atoi(argv[2]) : 100);
  rlimit files{};  // each process needs two descriptors for its link, and kept saves need more
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  const double alone = state_us(processes, steps), all = with_links_us(processes, steps);
  std::printf("{\"processes\":%u,\"steps\":%llu,\"state_us\":%.3f,\"supervisor_us\":%.3f}\n", processes,
              static_cast<unsigned long long>(steps), alone, all);
  return 0;
}
