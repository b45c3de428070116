#include "cluster/launch.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "cluster/agent.hpp"
#include "cluster/agent_links.hpp"
#include "cluster/children.hpp"
#include "core/clock.hpp"
#include "core/system/signal_table.hpp"

namespace troupe::cluster {
namespace {

/// Nanoseconds within which equal signals, from other machines or from this one, count as one.
constexpr int64_t same_signal_ns_max = 1'000'000'000;

core::result<void> check_machines(const launch_options& o) {
  const supervised_job& job = o.job;
  const auto wanted = [](const std::string& what) {
    return core::refused("a job on several machines: wanted " + what);
  };
  if (job.machines.empty()) return {};
  if (job.machines.size() != job.places())
    return wanted(fmt::format("a machine for each of {} processes, got {}", job.places(), job.machines.size()));
  const uint32_t last = *std::ranges::max_element(job.machines);
  if (last >= std::max<size_t>(1, job.hosts.size()))
    return wanted(fmt::format("a host for machine {}, got {} hosts", last, job.hosts.size()));
  if (const auto lost = std::ranges::find_if(job.lost, [&](uint32_t m) { return m >= job.hosts.size(); });
      lost != job.lost.end())
    return wanted(fmt::format("lost machines among {} hosts, got machine {}", job.hosts.size(), *lost));
  if (last > 0 && o.agents == nullptr) return wanted("their agents, got none");
  return {};
}

core::result<void> check(const launch_options& o) {
  const supervised_job& job = o.job;
  const auto wanted = [](const std::string& what) { return core::refused("the processes of a job: wanted " + what); };
  if (job.processes == 0 || job.ranks_each == 0 || job.data == 0 || job.replica_ranks == 0)
    return wanted(
        fmt::format("at least one process, rank of each, data rank and rank of a replica, got {}, {}, {} and {}",
                    job.processes, job.ranks_each, job.data, job.replica_ranks));
  if (uint64_t{job.data} * job.replica_ranks > uint64_t{job.processes} * job.ranks_each)
    return wanted(fmt::format("at most {} ranks in {} processes, got {} data ranks of {} each",
                              uint64_t{job.processes} * job.ranks_each, job.processes, job.data, job.replica_ranks));
  if (job.lost_after_ns <= 0 || job.backoff_ns < 0)
    return wanted(fmt::format("a limit of silence above 0 ns and a wait of at least 0 ns, got {} and {}",
                              job.lost_after_ns, job.backoff_ns));
  if (o.program.empty()) return wanted("a program, got none");
  if (!job.feasible || !o.say) return wanted("functions that say what ranks can do and that take lines, got none");
  return check_machines(o);
}

class launcher {
 public:
  explicit launcher(const launch_options& o)
      : options_(o),
        supervision_(watched(o.job)),
        children_(
            {o.program, o.arguments, o.job.places()},
            [this](uint32_t place, parcel p) { supervision_.hear(place, std::move(p), core::now_ns()); },
            [this](uint32_t place, const std::string& how) { supervision_.closed(place, how, core::now_ns()); }),
        agents_(o.job, o.order, supervision_, [this](int number) { signal_leader(number); }) {}

  core::result<int> run() {
    supervision_.begin(core::now_ns());
    say_who_is_awaited();
    for (;;) {
      TROUPE_TRY(act());
      if (code_ && children_.is_empty() && agents_.is_empty() && !waits_for_agents()) return *code_;
      if (code_ && core::now_ns() > over_ns_ + ending_ns_max) {
        children_.kill_all();
        for (uint32_t m = 1; m < agents_.all().size(); ++m) agents_.drop(m);
      }
      wait();
      if (is_replaced_ && !code_) {
        children_.kill_all();
        return core::fail(core::error_kind::peer_lost, "another host leads the job now");
      }
      supervision_.tick(core::now_ns());
      if (options_.watch) options_.watch({supervision_.has_run(), supervision_.misses_hosts(core::now_ns())});
      pass_signal_again();
    }
  }

 private:
  /// Returns the job with a function by which the supervision reads the state of processes on this machine.
  supervised_job watched(supervised_job job) {
    job.condition = [this](uint32_t place) { return is_here(place) ? children_.condition_of(place) : std::string(); };
    return job;
  }
  [[nodiscard]] bool is_here(uint32_t place) const { return options_.job.machine_of(place) == 0; }

  void say_who_is_awaited() {
    const auto awaited = supervision_.awaited_machines();
    if (awaited.empty()) return;
    std::string who;
    for (const uint32_t m : awaited) who += (who.empty() ? "" : ", ") + options_.job.hosts[m];
    options_.say("waits for agents on " + who);
  }

  core::result<void> act() {
    for (auto actions = supervision_.take(); !actions.empty(); actions = supervision_.take())
      for (auto& a : actions) TROUPE_TRY(std::visit([this](auto& x) { return follow(x); }, a));
    return {};
  }
  core::result<void> follow(send_to& x) {
    if (is_here(x.place))
      children_.send(x.place, std::move(x.what));
    else
      agents_.tell_process(x.place, x.what, core::now_ns());
    return {};
  }
  core::result<void> follow(const start_process& x) {
    if (!is_here(x.place)) {
      tell(options_.job.machine_of(x.place), start_place{x.place});
    } else if (const auto ok = children_.start(x.place); !ok) {
      supervision_.closed(x.place, "cannot be started: " + ok.error().text, core::now_ns());
    }
    return {};
  }
  core::result<void> follow(const kill_process& x) {
    if (is_here(x.place))
      children_.kill(x.place);
    else
      tell(options_.job.machine_of(x.place), kill_place{x.place});
    return {};
  }
  core::result<void> follow(const say& x) {
    options_.say(x.line);
    return {};
  }
  core::result<void> follow(const finish& x) {
    code_ = x.code;
    over_ns_ = core::now_ns();
    children_.let_end();
    agents_.end_job(x.code, x.why, core::now_ns());
    return {};
  }
  core::result<void> follow(send_to_agent& x) {
    tell(x.machine, std::move(x.what));
    return {};
  }
  core::result<void> follow(const drop_agent& x) {
    agents_.drop(x.machine);
    return {};
  }
  core::result<void> follow(const leave_out_agent& x) {
    agents_.leave_out(x, core::now_ns());
    return {};
  }
  void tell(uint32_t machine, message m) { agents_.tell(machine, std::move(m), core::now_ns()); }
  /// True while the launcher waits for lost machines: a machine that was cut off reconnects when the network is back,
  /// and then receives the end of the job.
  [[nodiscard]] bool waits_for_agents() const {
    return agents_.some_are_away() && !is_hurried_ && core::now_ns() < over_ns_ + coming_back_ns_max;
  }

  void welcome() {
    for (auto& x : options_.agents->take()) agents_.welcome(x.host, std::move(x.link), core::now_ns());
  }

  /// Sends a signal to the leading process. Launchers signal all machines at once, so equal signals from several
  /// machines count as one.
  void signal_leader(int number) {
    const int64_t now = core::now_ns();
    is_hurried_ = is_hurried_ || (code_ && core::ends_run(number));
    if (number == signal_ && now - signal_ns_ < same_signal_ns_max) return;
    signal_ = number;
    signal_ns_ = now;
    if (core::ends_run(number) && supervision_.stops_before_it_began(128 + number)) return;
    signal_to(supervision_.leader(), number);
    if (core::ends_run(number)) stop_ = stop{number, supervision_.leader()};
  }
  void signal_to(uint32_t place, int number) {
    if (is_here(place))
      children_.pass_signal(place, number);
    else
      tell(options_.job.machine_of(place), signalled{number, place});
  }
  /// If the process that received a signal to end the run was lost, or no longer leads, sends the signal to the process
  /// that leads now.
  void pass_signal_again() {
    if (!stop_ || code_) return;
    const auto is = supervision_.of(stop_->told);
    if (is == standing::absent || is == standing::starting) stop_->was_lost = true;
    if (!supervision_.is_running() || (!stop_->was_lost && stop_->told == supervision_.leader())) return;
    stop_ = stop{stop_->number, supervision_.leader()};
    signal_to(stop_->told, stop_->number);
  }
  void pass_on() {
    signalfd_siginfo info{};
    while (::read(options_.signals->number(), &info, sizeof info) == sizeof info)
      signal_leader(static_cast<int>(info.ssi_signo));
  }

  void wait() {
    std::vector<pollfd> on{{options_.signals ? options_.signals->number() : -1, POLLIN, 0},
                           {options_.agents != nullptr ? options_.agents->number() : -1, POLLIN, 0}};
    for (const auto& a : agents_.all()) {
      const int events = POLLIN | (a != nullptr && a->has_waiting() ? POLLOUT : 0);
      on.push_back({a != nullptr ? a->number() : -1, static_cast<short>(events), 0});
    }
    on.push_back({options_.replaced ? options_.replaced->number() : -1, POLLIN, 0});
    const size_t first_child = on.size();
    children_.add_to(on);
    const int64_t left_ms = (supervision_.due_ns() - core::now_ns()) / 1'000'000;
    ::poll(on.data(), on.size(), static_cast<int>(std::clamp<int64_t>(left_ms, 1, 200)));
    if (on[0].revents != 0) pass_on();
    if (on[1].revents != 0) welcome();
    is_replaced_ = on[first_child - 1].revents != 0;
    for (uint32_t m = 1; m < agents_.all().size(); ++m) {
      const auto& agent = agents_.all()[m];
      // `on` was filled before the poll, so an agent that has connected since is not in it; the next pass reads it.
      const short came = agent != nullptr && agent->number() == on[2 + m].fd ? on[2 + m].revents : short{0};
      if (came == 0) continue;
      if ((came & POLLOUT) != 0) (void)agent->flush();
      if ((came & ~POLLOUT) != 0) agents_.hear(m, core::now_ns());
    }
    children_.listen(on, first_child);
  }

  const launch_options& options_;
  supervision supervision_;
  children children_;
  agent_links agents_;
  std::optional<int> code_;
  int64_t over_ns_ = 0;
  bool is_replaced_ = false;
  bool is_hurried_ = false;  ///< true: a signal to end came after the job was over; the launcher waits for no agent
  struct stop {
    int number;
    uint32_t told;  ///< number of the process that received the signal
    bool was_lost = false;
  };
  std::optional<stop> stop_;  ///< set if a signal has requested the end of the job
  int signal_ = 0;            ///< number of the last signal that was passed on to the processes
  int64_t signal_ns_ = 0;
};

}  // namespace

core::result<int> launch(const launch_options& options) {
  TROUPE_TRY(check(options));
  if (options.order.file.empty() || options.order.file_argument == 0) return launcher(options).run();
  TROUPE_ASSIGN(const auto file, file_of(options.order));
  launch_options from_memory = options;
  from_memory.arguments = arguments_with(options.order, file);
  return launcher(from_memory).run();
}

}  // namespace troupe::cluster
