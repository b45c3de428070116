#include "cluster/launch.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "cluster/children.hpp"
#include "core/clock.hpp"

namespace troupe::cluster {
namespace {

class launcher {
 public:
  explicit launcher(const launch_options& o)
      : options_(o),
        supervision_(watched(o.job)),
        children_(
            {o.program, o.arguments, o.job.places()},
            [this](uint32_t place, parcel p) { supervision_.hear(place, std::move(p), core::now_ns()); },
            [this](uint32_t place, const std::string& how) { supervision_.closed(place, how, core::now_ns()); }),
        agents_(std::max<size_t>(o.job.hosts.size(), 1)) {}

  core::result<int> run() {
    supervision_.begin(core::now_ns());
    say_who_is_awaited();
    for (;;) {
      if (auto ok = act(); !ok) return core::fail(ok.error());
      if (code_ && children_.is_empty() && std::ranges::all_of(agents_, [](const auto& a) { return a == nullptr; }))
        return *code_;
      if (code_ && core::now_ns() > over_ns_ + ending_ns_max) {
        children_.kill_all();
        for (auto& a : agents_) a.reset();
      }
      wait();
      supervision_.tick(core::now_ns());
    }
  }

 private:
  /// The job, whose supervision asks how its processes are.
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
      for (auto& a : actions)
        if (auto ok = std::visit([this](auto& x) { return follow(x); }, a); !ok) return ok;
    return {};
  }
  core::result<void> follow(send_to& x) {
    if (is_here(x.place))
      children_.send(x.place, std::move(x.what));
    else
      tell(options_.job.machine_of(x.place), passed{x.place, encode(x.what.what)});
    return {};
  }
  core::result<void> follow(const start_process& x) {
    if (is_here(x.place)) return children_.start(x.place);
    tell(options_.job.machine_of(x.place), start_place{x.place});
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
    for (uint32_t m = 1; m < agents_.size(); ++m) tell(m, job_over{x.code});
    return {};
  }
  core::result<void> follow(send_to_agent& x) {
    tell(x.machine, std::move(x.what));
    return {};
  }
  core::result<void> follow(const drop_agent& x) {
    agents_[x.machine].reset();
    return {};
  }

  void tell(uint32_t machine, message m) {
    auto& agent = agents_[machine];
    if (agent == nullptr) return;
    if (const auto sent = agent->send({std::move(m), {}}); !sent) agent_ended(machine, sent.error().text);
  }

  void agent_ended(uint32_t machine, const std::string& how) {
    agents_[machine].reset();
    supervision_.parted(machine, "was lost: its host's agent has gone: " + how, core::now_ns());
  }

  void welcome() {
    for (auto& x : options_.agents->take()) {
      const auto at = std::ranges::find(options_.job.hosts, x.host);
      const auto machine = static_cast<uint32_t>(at - options_.job.hosts.begin());
      if (at == options_.job.hosts.end() || machine == 0 || code_) continue;
      if (agents_[machine] != nullptr) agent_ended(machine, "it has come back");
      agents_[machine] = std::move(x.link);
      job_order order = options_.order;
      order.machine = machine;
      order.lost_after_ns = options_.job.lost_after_ns;
      for (uint32_t p = 0; p < options_.job.places(); ++p)
        if (options_.job.machine_of(p) == machine) order.places.push_back(p);
      tell(machine, std::move(order));
      supervision_.joined(machine, core::now_ns());
    }
  }

  void hear_agent(uint32_t machine) {
    auto came = agents_[machine]->receive();
    if (!came) return agent_ended(machine, came.error().text);
    for (auto& p : *came) {
      supervision_.heard_agent(machine, core::now_ns());
      if (auto ok = hear_agent(machine, p.what); !ok) return agent_ended(machine, ok.error().text);
    }
  }
  core::result<void> hear_agent(uint32_t machine, const message& m) {
    const auto is_of_it = [&](uint32_t place) {
      return place < options_.job.places() && options_.job.machine_of(place) == machine;
    };
    if (const auto* x = std::get_if<passed>(&m)) {
      auto inner = decode(x->what);
      if (!inner) return core::fail(inner.error());
      if (is_of_it(x->place)) supervision_.hear(x->place, {std::move(*inner), {}}, core::now_ns());
    } else if (const auto* x = std::get_if<place_ended>(&m)) {
      if (is_of_it(x->place)) supervision_.closed(x->place, x->how, core::now_ns());
    } else if (const auto* x = std::get_if<signalled>(&m)) {
      signal_leader(x->signal);
    }
    return {};
  }

  void signal_leader(int number) {
    const uint32_t leader = supervision_.leader();
    if (is_here(leader))
      children_.pass_signal(leader, number);
    else
      tell(options_.job.machine_of(leader), signalled{number, leader});
  }
  void pass_on() {
    signalfd_siginfo info{};
    while (::read(options_.signals->number(), &info, sizeof info) == sizeof info)
      signal_leader(static_cast<int>(info.ssi_signo));
  }

  void wait() {
    std::vector<pollfd> on{{options_.signals ? options_.signals->number() : -1, POLLIN, 0},
                           {options_.agents != nullptr ? options_.agents->number() : -1, POLLIN, 0}};
    for (const auto& a : agents_) {
      const int events = POLLIN | (a != nullptr && a->has_waiting() ? POLLOUT : 0);
      on.push_back({a != nullptr ? a->number() : -1, static_cast<short>(events), 0});
    }
    const size_t first_child = on.size();
    children_.add_to(on);
    const int64_t left_ms = (supervision_.due_ns() - core::now_ns()) / 1'000'000;
    ::poll(on.data(), on.size(), static_cast<int>(std::clamp<int64_t>(left_ms, 1, 200)));
    if (on[0].revents != 0) pass_on();
    if (on[1].revents != 0) welcome();
    for (uint32_t m = 1; m < agents_.size(); ++m) {
      const short came = on[2 + m].revents;
      if (agents_[m] == nullptr || came == 0) continue;
      if ((came & POLLOUT) != 0) (void)agents_[m]->flush();
      if ((came & ~POLLOUT) != 0) hear_agent(m);
    }
    children_.listen(on, first_child);
  }

  const launch_options& options_;
  supervision supervision_;
  children children_;
  std::vector<std::unique_ptr<polled_link>> agents_;  ///< [machine]
  std::optional<int> code_;
  int64_t over_ns_ = 0;
};

}  // namespace

core::result<int> launch(const launch_options& options) { return launcher(options).run(); }

}  // namespace troupe::cluster
