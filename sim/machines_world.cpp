#include "sim/machines_world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>

#include "cluster/agent_links.hpp"
#include "cluster/agent_state.hpp"
#include "cluster/supervision.hpp"
#include "sim/job_faults.hpp"
#include "sim/seeds.hpp"
#include "sim/simulated_job.hpp"
#include "sim/terms/modelled_link.hpp"
#include "sim/terms/simulated_children.hpp"

namespace troupe::sim {
namespace {

constexpr int64_t ms = 1'000'000;
/// Timeouts of the simulated jobs in ns, which are a twentieth of a real job's.
constexpr int64_t ending_ns = 250 * ms, rejoin_ns = 25 * ms;
constexpr int64_t tick_max_ns = 10 * ms, agent_poll_ns = 5 * ms;
/// Network delays in ns: the limits of a message's delay, and the largest delay of data that was resent after a
/// partition.
constexpr int64_t delay_min_ns = 50'000, delay_max_ns = 1 * ms, resend_max_ns = 10 * ms;
/// Virtual time in ns after which the job counts as one that never ends.
constexpr int64_t longest_ns = 120'000 * ms;
constexpr uint64_t rounds_max = 5'000'000;

constexpr std::string_view event_names[num_machine_troubles] = {"partition",
                                                                "partition downwards",
                                                                "partition upwards",
                                                                "kill of the agent",
                                                                "stop of the agent",
                                                                "loss of the machine",
                                                                "cut control",
                                                                "cut data",
                                                                "kill",
                                                                "stop",
                                                                "stop of the supervisor",
                                                                "executor error",
                                                                "loss of the machine, which comes back unfit"};

/// Returns the virtual time, in ns, at which something ends that begins now and lasts for `time`; the largest for what
/// lasts for ever.
int64_t end_of(int64_t now_ns, std::chrono::nanoseconds time) {
  return time.count() > INT64_MAX / 4 ? INT64_MAX / 2 : now_ns + time.count();
}

steps_of_job steps_of(const machines_options& o, const simulated_job& job) {
  return {o.steps, o.memory_every.value_or(job.memory_every), o.disk_every.value_or(job.disk_every)};
}

class machines_run {
 public:
  machines_run(const simulated_job& described, const machines_options& o, uint64_t seed)
      : options_(o),
        seed_(seed),
        random_(seed * 7919 + 5),
        steps_(steps_of(o, described)),
        faults_(o.faults, described, steps_, o.between_hosts),
        job_(supervised(described)),
        supervision_(job_),
        agents_(job_, {}, supervision_, [](int) {}),
        machines_(job_.hosts.size()) {
    out_.struck.resize(o.events.size());
    around_.steps = steps_.all;
    around_.memory_every = steps_.memory_every;
    around_.disk_every = steps_.disk_every;
    around_.seed = seed;
    around_.lost_after_ns = o.lost_after.count();
    around_.defect = o.defect;
    around_.costs = faults_.costs(o.costs.value_or(described.costs));
    around_.patience = {o.stall_after, o.work_min, o.work_min, {}};
    around_.between = &net_;
    around_.plans = described.plans;
    around_.links_of = [this](const plans_by_choice& plans, const std::vector<uint32_t>& hosts) {
      return faults_.links(plans, hosts);
    };
    if (!faults_.is_empty()) {
      around_.faults_of = [this](const run_of_term& run) { return faults_.of_run(run); };
      around_.has_struck = [this](size_t number, int64_t at_ns) { faults_.has_happened(number, at_ns); };
    }
    for (const auto& e : o.events)
      if (e.kind == machine_trouble::executor_error) {
        around_.fault.kind = actors::sim_fault_kind::executor_error;
        around_.fault.run = 1;
        around_.fault.rank = e.place % job_.data;
        around_.fault.position = static_cast<uint32_t>(e.after_messages % 4);
      }
    net_.machines = job_.machines;
    net_.cut_until = [this](uint32_t a, uint32_t b) { return cut_until(a, b); };
    net_.passes = [this](uint32_t a, uint32_t b) { return passes(a, b); };
    net_.later = [this](int64_t due_ns, std::function<void()> what) {
      later_.emplace(std::pair{due_ns, ++num_later_}, std::move(what));
    };
    net_.at = [this](uint32_t place) -> simulated_process* {
      const auto& children = machines_[job_.machines[place]].children;
      return children ? children->at(place) : nullptr;
    };
    machines_[0].children = std::make_unique<simulated_children>(
        around_, job_.places(), random_(),
        [this](uint32_t p, cluster::parcel x) { supervision_.hear(p, std::move(x), now()); },
        [this](uint32_t p, const std::string& how) { supervision_.closed(p, how, now()); });
    for (uint32_t m = 1; m < machines_.size(); ++m)
      machines_[m].joins_ns = now() + static_cast<int64_t>(random_() % rejoin_ns);
  }
  ~machines_run() {
    for (auto& m : machines_) m.children.reset();
    orphans_.clear();
    later_.clear();
    for (const auto& c : around_.left_behind) c->dismiss();
    schedule_.drain();
    around_.left_behind.clear();
    net_.collectives.clear();
    around_.collectives.clear();
  }
  machines_run(const machines_run&) = delete;
  machines_run& operator=(const machines_run&) = delete;

  job_record play() {
    const int64_t begin_ns = began_ns_ = now();
    supervision_.begin(now());
    act();
    for (uint64_t rounds = 0; !is_over() && watch_.wrong().empty(); ++rounds) {
      if (now() - begin_ns > longest_ns || rounds > rounds_max) break;
      strike();
      const int64_t due = due_ns();
      if (due <= now()) {
        look();
      } else if (!schedule_.step(due)) {
        schedule_.stop(std::chrono::nanoseconds(due - now()));
      }
      for_each_family([](simulated_children& c) { c.go_on(); });
    }
    if (is_over()) out_.code = code_;
    if (const auto& c = machines_[job_.machine_of(supervision_.leader())].children)
      out_.cause = c->why(supervision_.leader());
    out_.wrong = watch_.wrong();
    out_.seed = seed_;
    out_.replay = replay_command(seed_);
    out_.steps = steps_.all;
    out_.terms = std::move(around_.terms);
    out_.faults = faults_.strikes(begin_ns);
    out_.steps_done = watch_.steps_done();
    out_.steps_again = watch_.steps_again();
    out_.seconds = double(now() - begin_ns) / 1e9;
    for_each_family([&](const simulated_children& c) { out_.messages += c.num_messages(); });
    return std::move(out_);
  }

 private:
  struct machine {
    std::unique_ptr<simulated_children> children;
    std::optional<cluster::agent_state> agent;
    std::unique_ptr<cluster::link> link;  // the agent's end of its link to the launcher
    std::shared_ptr<modelled_stream> up, down;
    int64_t joins_ns = INT64_MAX, looks_ns = 0, stopped_until_ns = 0;
    int64_t down_until_ns = 0, up_until_ns = 0;  // virtual times at which partitions of the two directions end
    bool is_done = false;
    bool was_struck = false;
  };

  [[nodiscard]] int64_t now() const { return schedule_.now_ns(); }
  [[nodiscard]] bool is_over() const {
    const auto done = [](const machine& m) { return m.is_done; };
    return code_ && machines_[0].children->is_empty() && std::all_of(machines_.begin() + 1, machines_.end(), done);
  }
  void for_each_family(auto action) {
    for (auto& m : machines_)
      if (m.children) action(*m.children);
    for (auto& o : orphans_) action(*o);
  }

  [[nodiscard]] cluster::supervised_job supervised(const simulated_job& described) const {
    cluster::supervised_job out = described.base;
    out.lost_after_ns = options_.lost_after.count();
    out.backoff_ns = options_.backoff.count();
    out.losses_max = 100;
    out.secret = [] { return std::string("s"); };
    return out;
  }
  [[nodiscard]] int64_t since_ns() const { return now() - began_ns_; }

  /// Returns the virtual time at which the cut of the link between two machines ends; 0: the link was never cut.
  [[nodiscard]] int64_t cut_until(uint32_t a, uint32_t b) const {
    const auto found = cuts_.find(std::minmax(a, b));
    return found == cuts_.end() ? 0 : found->second;
  }
  /// Returns the virtual time at which data can pass between machines `a` and `b`. A partition separates its machine
  /// from all others until that time.
  [[nodiscard]] int64_t passes(uint32_t a, uint32_t b) const {
    int64_t out = now();
    for (const uint32_t m : {a, b}) {
      const int64_t until = std::max(machines_[m].down_until_ns, machines_[m].up_until_ns);
      if (a != b && until > now()) out = std::max(out, until);
    }
    return a == b ? out : std::max(out, cut_until(a, b));
  }

  // ---- actions of the launcher
  void act() {
    for (auto actions = supervision_.take(); !actions.empty(); actions = supervision_.take()) {
      std::vector<std::pair<uint32_t, uint64_t>> taken_for_quiet;
      for (auto& a : actions) {
        if (auto* x = std::get_if<cluster::send_to>(&a)) {
          const auto* end = std::get_if<cluster::end_term>(&x->what.what);
          if (end != nullptr && !end->is_final && options_.defect == planted::next_term_without_quiet)
            taken_for_quiet.emplace_back(x->place, end->term);
          if (job_.machine_of(x->place) == 0)
            machines_[0].children->send(x->place, std::move(x->what));
          else
            agents_.tell_process(x->place, x->what, now());
        } else if (const auto* x = std::get_if<cluster::start_process>(&a)) {
          if (job_.machine_of(x->place) == 0)
            machines_[0].children->start(x->place);
          else
            agents_.tell(job_.machine_of(x->place), cluster::start_place{x->place}, now());
        } else if (const auto* x = std::get_if<cluster::kill_process>(&a)) {
          is_ended_by_the_system(job_.machine_of(x->place));
          if (job_.machine_of(x->place) == 0)
            machines_[0].children->kill(x->place);
          else
            agents_.tell(job_.machine_of(x->place), cluster::kill_place{x->place}, now());
        } else if (auto* x = std::get_if<cluster::send_to_agent>(&a)) {
          agents_.tell(x->machine, std::move(x->what), now());
        } else if (const auto* x = std::get_if<cluster::drop_agent>(&a)) {
          is_ended_by_the_system(x->machine);
          machines_[x->machine].down->close();
          agents_.drop(x->machine);
        } else if (const auto* x = std::get_if<cluster::leave_out_agent>(&a)) {
          agents_.leave_out(*x, now());
        } else if (const auto* x = std::get_if<cluster::say>(&a)) {
          out_.said += x->line + "\n";
        } else if (const auto* x = std::get_if<cluster::finish>(&a)) {
          code_ = x->code;
          over_ns_ = now();
          machines_[0].children->let_end();
          agents_.end_job(x->code, x->why, now());
        }
      }
      for (const auto& [place, term] : taken_for_quiet) supervision_.hear(place, {cluster::quiet{term}, {}}, now());
    }
  }
  /// Reports a violation if the supervisor kills a process of a machine that has had no fault.
  void is_ended_by_the_system(uint32_t machine) {
    if (!machines_[machine].was_struck) watch_.fail(fmt::format("machine {} was healthy, and is ended", machine));
  }

  void launch() {
    if (supervisor_stopped_until_ns_ > now()) return;
    for (uint32_t m = 1; m < machines_.size(); ++m)
      while (agents_.all()[m] != nullptr && machines_[m].up->due_ns() <= now()) {
        agents_.hear(m, now());
        act();
      }
    machines_[0].children->listen();
    act();
    if (tick_due_ns() <= now()) {
      ticked_ns_ = now();
      supervision_.tick(now());
      act();
    }
    if (!code_ || now() < over_ns_ + ending_ns) return;
    machines_[0].children->kill_all();
    for (uint32_t m = 1; m < machines_.size(); ++m) leave_alone(m);
  }
  /// Closes the launcher's connection to machine `m`, as the operating system does when the launcher ends. A machine
  /// whose agent has not joined counts as ended.
  void leave_alone(uint32_t m) {
    auto& x = machines_[m];
    if (agents_.all()[m] != nullptr) x.down->close();
    agents_.drop(m);
    if (!x.agent) x.is_done = true;
  }

  // ---- actions of the agents
  void join(uint32_t m) {
    auto& x = machines_[m];
    if (code_ && now() >= over_ns_ + ending_ns) {  // the launcher has ended and accepts no connections
      x.joins_ns = INT64_MAX;
      x.is_done = true;
      return;
    }
    if (passes(0, m) > now() || supervisor_stopped_until_ns_ > now()) {
      x.joins_ns = now() + rejoin_ns;
      return;
    }
    x.joins_ns = INT64_MAX;
    const auto clock = [this] { return now(); };
    x.up = std::make_shared<modelled_stream>(clock, random_(), delay_max_ns, delay_min_ns);
    x.down = std::make_shared<modelled_stream>(clock, random_(), delay_max_ns, delay_min_ns);
    x.link = std::make_unique<modelled_link>(x.up, x.down);
    x.agent.emplace(now());
    x.looks_ns = now();
    agents_.welcome(job_.hosts[m], std::make_unique<modelled_link>(x.down, x.up), now());
    act();
  }

  void run_agent(uint32_t m) {
    auto& x = machines_[m];
    if (x.stopped_until_ns > now()) return;
    if (x.joins_ns <= now()) join(m);
    if (!x.agent) return;
    if (x.children) x.children->listen();
    if (!follow(m)) return;
    x.looks_ns = now() + agent_poll_ns;
    auto came = x.link->receive();
    if (!came) return lose_first(m);
    for (auto& p : *came)
      if (!x.agent->hear(std::move(p.what), now())) return lose_first(m);
    if (!follow(m)) return;
    if (x.agent->code() && (!x.children || x.children->is_empty())) {
      x.agent.reset();
      x.up->close();
      x.is_done = true;
      return;
    }
    if (x.agent->code() && now() > x.agent->over_ns() + ending_ns) x.children->kill_all();
    if (!x.agent->look(now(), !came->empty())) return lose_first(m);
    (void)follow(m);
  }
  bool follow(uint32_t m) {
    auto& x = machines_[m];
    for (auto actions = x.agent->take(); !actions.empty(); actions = x.agent->take())
      for (auto& a : actions) {
        if (auto* t = std::get_if<cluster::tell_supervisor>(&a))
          (void)x.link->send({std::move(t->what), {}});
        else if (auto* t = std::get_if<cluster::tell_process>(&a))
          x.children->send(t->place, std::move(t->what));
        else if (std::holds_alternative<cluster::let_end>(a) && x.children)
          x.children->let_end();
        else if (const auto* t = std::get_if<cluster::start_place>(&a))
          x.children->start(t->place);
        else if (const auto* t = std::get_if<cluster::kill_place>(&a))
          x.children->kill(t->place);
        else if (std::holds_alternative<cluster::job_order>(a))
          x.children = std::make_unique<simulated_children>(
              around_, job_.places(), random_(),
              [&x](uint32_t p, cluster::parcel c) { x.agent->hear_process(p, std::move(c)); },
              [&x](uint32_t p, const std::string& how) { x.agent->process_ended(p, how); });
      }
    return true;
  }
  /// Closes the agent's connection to the first machine as agent::lost does: kills all its processes, and joins again
  /// unless the job has ended.
  void lose_first(uint32_t m) {
    auto& x = machines_[m];
    const bool is_over = x.agent->code().has_value();
    if (x.children) x.children->kill_all();
    x.agent.reset();
    x.up->close();
    x.is_done = is_over;
    if (!is_over) x.joins_ns = now() + rejoin_ns;
  }

  // ---- virtual time
  [[nodiscard]] int64_t tick_due_ns() const {
    return std::max(ticked_ns_ + ms, std::min(supervision_.due_ns(), ticked_ns_ + tick_max_ns));
  }
  [[nodiscard]] int64_t due_ns() {
    int64_t supervisor = std::min(tick_due_ns(), machines_[0].children->due_ns());
    int64_t out = later_.empty() ? INT64_MAX : later_.begin()->first.first;
    if (!faults_.is_empty())
      if (const int64_t due = faults_.due_ns(since_ns()); due != INT64_MAX) out = std::min(out, began_ns_ + due);
    for (uint32_t m = 1; m < machines_.size(); ++m) {
      const auto& x = machines_[m];
      if (agents_.all()[m] != nullptr) supervisor = std::min(supervisor, x.up->due_ns());
      int64_t mine = x.joins_ns;
      if (x.agent) mine = std::min({mine, x.looks_ns, x.down->due_ns(), x.children ? x.children->due_ns() : INT64_MAX});
      out = std::min(out, std::max(mine, x.stopped_until_ns));
    }
    for_each_family([&](const simulated_children& c) { out = std::min(out, c.processes_due_ns()); });
    for (const auto& [term, meets] : net_.collectives) out = std::min(out, meets->due_ns());
    return std::min(out, std::max(supervisor, supervisor_stopped_until_ns_));
  }

  void look() {
    while (!later_.empty() && later_.begin()->first.first <= now()) {
      const auto what = std::move(later_.begin()->second);
      later_.erase(later_.begin());
      what();
    }
    for (const auto& [term, meets] : net_.collectives) meets->go_on();
    launch();
    for (uint32_t m = 1; m < machines_.size(); ++m) run_agent(m);
    for_each_family([](simulated_children& c) { c.run_processes(); });
    for (auto& o : orphans_)
      if (o->processes_due_ns() == INT64_MAX) o->kill_all();
  }

  // ---- faults
  [[nodiscard]] uint64_t num_messages() {
    uint64_t out = 0;
    for_each_family([&](const simulated_children& c) { out += c.num_messages(); });
    return out + gone_messages_;
  }
  void strike() {
    for (size_t i = 0; i < options_.events.size(); ++i) {
      const auto& e = options_.events[i];
      if (e.kind == machine_trouble::executor_error) {
        for_each_family(
            [&](const simulated_children& c) { out_.struck[i] = out_.struck[i] || c.is_executor_struck(); });
        continue;
      }
      if (out_.struck[i] || num_messages() < e.after_messages) continue;
      out_.struck[i] = true;
      befall(e, machines_[e.machine]);
    }
    if (!faults_.is_empty()) strike_faults();
  }

  // Causes the faults of the world whose moment has come. A fault of a rank that no process has waits for one.
  void strike_faults() {
    uint64_t step = 0;
    for (uint32_t p = 0; p < job_.machines.size(); ++p)
      if (const auto* const one = net_.at(p)) step = std::max(step, one->step());
    for (const size_t i : faults_.due(step, since_ns()))
      if (cause(faults_[i])) faults_.has_happened(i, now());
  }
  bool cause(const fault& f) {
    const auto* const at_host = std::get_if<host>(&f.where());
    switch (f.what()) {
      case fault::effect::kill:
        if (at_host != nullptr) return lose_machine(at_host->number, INT64_MAX);
        return for_place_of(f, [](simulated_children& c, uint32_t place) { c.end_by_signal(place); });
      case fault::effect::freeze:
        if (at_host != nullptr) return freeze_machine(at_host->number, f.lasts().count());
        return for_place_of(f, [&](simulated_children& c, uint32_t place) { c.stop(place, f.lasts().count()); });
      case fault::effect::freeze_disk:
        for (uint32_t p = 0; p < job_.machines.size(); ++p)
          if (auto* const one = net_.at(p)) one->freeze_disk(f.lasts());
        return true;
      case fault::effect::late_message:
        return schedule_.hold_any(f.lasts());
      case fault::effect::cut: {
        const auto& ends = std::get<link>(f.where());
        cut_link(ends.from, ends.to, end_of(now(), f.lasts()));
        return true;
      }
      default:
        return true;
    }
  }
  /// Calls a function for the process that has the fault's rank. Returns false if none has.
  bool for_place_of(const fault& f, auto action) {
    const uint32_t number = std::get<rank>(f.where()).number;
    for (uint32_t p = 0; p < job_.machines.size(); ++p) {
      const auto* const one = net_.at(p);
      if (one == nullptr || !one->has_rank(number)) continue;
      machine& x = machines_[job_.machines[p]];
      x.was_struck = true;
      action(*x.children, p);
      return true;
    }
    return false;
  }
  /// Loses a machine without a message; its agent joins again at `joins_ns`. Returns false if it has not joined.
  bool lose_machine(uint32_t number, int64_t joins_ns) {
    machine& x = machines_[number];
    if (!x.agent) return false;
    x.was_struck = true;
    if (x.children) {
      gone_messages_ += x.children->num_messages();
      x.children->vanish();
      x.children.reset();
    }
    x.agent.reset();
    x.up->hold(INT64_MAX);  // discards all further messages of the machine
    x.joins_ns = joins_ns;
    return true;
  }
  bool freeze_machine(uint32_t number, int64_t duration_ns) {
    machine& x = machines_[number];
    if (number > 0 && !x.agent) return false;
    // Machines that receive no message from the first one for too long leave it.
    for (auto& m : machines_) m.was_struck = m.was_struck || number == 0 || &m == &x;
    if (number == 0)
      supervisor_stopped_until_ns_ = now() + duration_ns;
    else
      x.stopped_until_ns = now() + duration_ns;
    for (uint32_t p = 0; x.children && p < job_.machines.size(); ++p)
      if (job_.machines[p] == number) x.children->stop(p, duration_ns);
    return true;
  }
  /// Cuts the link between two machines: no data passes, and the connections of processes end when data has not been
  /// acknowledged for `lost_after`. Messages of an agent wait, if the first machine is at the other end.
  void cut_link(uint32_t a, uint32_t b, int64_t until_ns) {
    cuts_[std::minmax(a, b)] = until_ns;
    for (const uint32_t m : {a, b}) machines_[m].was_struck = true;
    if (a == 0 || b == 0) {
      machine& x = machines_[std::max(a, b)];
      if (x.down) x.down->hold(until_ns);
      if (x.up) x.up->hold(until_ns);
    }
    const int64_t closes_ns = now() + options_.lost_after.count();
    if (until_ns > closes_ns) net_.later(closes_ns, [this, a, b] { cut_data(a, b); });
  }
  void hold(machine& x, bool down, bool up, int64_t ns) {
    const int64_t until = now() + ns;
    if (down) x.down_until_ns = std::max(x.down_until_ns, until);
    if (up) x.up_until_ns = std::max(x.up_until_ns, until);
    const auto resend = static_cast<int64_t>(random_() % resend_max_ns);
    if (down && x.down) x.down->hold(until + std::min(ns, resend));
    if (up && x.up) x.up->hold(until + std::min(ns, resend));
  }
  void befall(const machine_event& e, machine& x) {
    using enum machine_trouble;
    if (e.kind != data_cut) x.was_struck = true;
    auto* const place = machines_[job_.machines[e.place]].children.get();
    switch (e.kind) {
      case partition:
      case partition_down:
      case partition_up:
        return hold(x, e.kind != partition_up, e.kind != partition_down, e.duration_ns);
      case agent_killed:
        if (!x.agent) return;
        if (x.children) {
          gone_messages_ += x.children->num_messages();
          x.children->orphan();
          orphans_.push_back(std::move(x.children));
        }
        x.agent.reset();
        x.up->close();
        x.joins_ns = now() + e.duration_ns;
        return;
      case agent_stopped:
        x.stopped_until_ns = now() + e.duration_ns;
        return;
      case machine_lost:
      case comes_unfit:
        if (!x.agent) return;
        if (e.kind == comes_unfit) net_.unfit.insert(e.machine);
        (void)lose_machine(e.machine, now() + e.duration_ns);
        return;
      case control_cut:
        if (!x.up || !x.agent) return;
        x.up->cut();
        x.down->cut();
        for (uint32_t p = 0; p < job_.machines.size(); ++p)
          if (job_.machines[p] == e.machine)
            if (auto* const one = net_.at(p)) one->cut_off();
        return;
      case data_cut:
        return cut_data(e.machine, (e.machine + 1 + e.place) % machines_.size());
      case process_killed:
        machines_[job_.machines[e.place]].was_struck = true;
        if (place != nullptr) place->end_by_signal(e.place);
        return;
      case process_stopped:
        machines_[job_.machines[e.place]].was_struck = true;
        if (place != nullptr) place->stop(e.place, e.duration_ns);
        return;
      // Machines that receive no message from the first one for too long leave it, so any machine may lose its
      // processes.
      case supervisor_stopped:
        for (auto& m : machines_) m.was_struck = true;
        supervisor_stopped_until_ns_ = now() + e.duration_ns;
        return;
      case executor_error:
        return;
    }
  }
  void cut_data(size_t a, size_t b) {
    if (a == b) return;
    for (uint32_t p = 0; p < job_.machines.size(); ++p)
      for (uint32_t q = 0; q < job_.machines.size(); ++q)
        if ((job_.machines[p] == a && job_.machines[q] == b) || (job_.machines[p] == b && job_.machines[q] == a))
          if (auto* const who = net_.at(p)) who->lose_peer_now(q);
  }

  const machines_options& options_;
  uint64_t seed_;
  std::mt19937_64 random_;
  steps_of_job steps_;
  job_faults faults_;
  simulated_system config_;
  caf::actor_system system_{config_};
  actors::sim_scheduler schedule_{system_, seed_, std::chrono::microseconds{20}};
  run_watch watch_{true};
  connections net_;
  std::map<std::pair<uint32_t, uint32_t>, int64_t> cuts_;  ///< [smaller and larger machine]: time at which the cut ends
  surroundings around_{system_, schedule_, watch_, {}};
  cluster::supervised_job job_;
  cluster::supervision supervision_;
  cluster::agent_links agents_;
  std::vector<machine> machines_;
  std::vector<std::unique_ptr<simulated_children>> orphans_;  ///< processes whose agent was killed
  std::map<std::pair<int64_t, uint64_t>, std::function<void()>> later_;
  uint64_t num_later_ = 0, gone_messages_ = 0;
  job_record out_;
  std::optional<int32_t> code_;
  int64_t began_ns_ = 0, over_ns_ = 0, ticked_ns_ = 0, supervisor_stopped_until_ns_ = 0;
};

}  // namespace

std::string_view name_of(machine_trouble kind) { return event_names[static_cast<size_t>(kind)]; }

std::string machine_event::describe() const {
  return fmt::format("{} at machine {}, process {} after {} messages, for {} ms", name_of(kind), machine, place,
                     after_messages, duration_ns / 1'000'000);
}

machines_world::machines_world(std::shared_ptr<const config::job_config> config, machines_options options)
    : options_(std::move(options)) {
  const auto refuse = [](std::string text) {
    throw world_error({core::error_kind::bad_input, "a simulated job: " + std::move(text)});
  };
  if (options_.ranks_each != 1 || options_.divides != 0)
    refuse("ranks_each and divides are for worlds of plans; a configuration has its own");
  simulated_job made = job_of(config, static_cast<uint32_t>(options_.hosts.size()));
  if (!made.base.hosts.empty() && !options_.hosts.empty())
    refuse("the configuration has cluster.hosts; `hosts` cannot be set, too");
  if (made.base.spares != 0) refuse("wanted a job without spare processes, got one with them (cluster.spares)");
  if (made.base.hosts.empty()) made.base.machines = options_.hosts;
  job_ = std::make_shared<const simulated_job>(std::move(made));
  prepare();
}

machines_world::machines_world(plans_at_degree plans, machines_options options) : options_(std::move(options)) {
  if (options_.hosts.empty()) options_.hosts = {0, 1, 2};
  const auto processes = static_cast<uint32_t>(options_.hosts.size());
  simulated_job made = job_of(std::move(plans), processes, 0, options_.ranks_each);
  made.base.machines = options_.hosts;
  made.base.feasible = [divides = options_.divides](uint32_t ranks) -> core::result<uint32_t> {
    if (ranks == 0) return core::fail(core::error_kind::peer_lost, "no rank is left");
    while (divides % ranks != 0) --ranks;
    return ranks;
  };
  job_ = std::make_shared<const simulated_job>(std::move(made));
  prepare();
}

void machines_world::prepare() {
  const auto refuse = [](std::string text) {
    throw world_error({core::error_kind::bad_input, "a simulated job: " + std::move(text)});
  };
  if (options_.steps == 0) refuse("wanted a step at least, got none");
  const auto& machines = job_->base.machines;
  if (machines.empty()) refuse("wanted the host of each process (`hosts`, or cluster.hosts), got none");
  uint32_t next = 0;
  for (const uint32_t m : machines) {
    if (m > next) refuse(fmt::format("wanted hosts in ascending order from 0, got host {} before host {}", m, next));
    next = std::max(next, m + 1);
  }
  if (next < 2) refuse("wanted two hosts at least, got one; processes_world simulates jobs on one");
  if (job_->base.hosts.empty()) {
    if (next > 26) refuse(fmt::format("wanted at most 26 hosts, got {}", next));
    simulated_job named = *job_;
    for (uint32_t m = 0; m < next; ++m) named.base.hosts.emplace_back(1, static_cast<char>('a' + m));
    job_ = std::make_shared<const simulated_job>(std::move(named));
  }
  if (job_->base.hosts.size() != next) refuse("wanted a process on each host");
  if (options_.lost_after.count() <= 0 || options_.backoff.count() <= 0 || options_.stall_after.count() <= 0 ||
      options_.work_min.count() <= 0)
    refuse("wanted times above 0 for lost_after, backoff, stall_after and work_min");
  if (!(options_.between_hosts.latency_us >= 0 && options_.between_hosts.bytes_per_second > 0))
    refuse("between_hosts: wanted a latency of at least 0 and a bandwidth above 0");
  for (const machine_event& e : options_.events)
    if (e.machine >= next || e.place >= machines.size())
      refuse(fmt::format("{}: wanted one of {} hosts and of {} processes", e.describe(), next, machines.size()));
  if (!options_.faults.empty())
    (void)job_faults(options_.faults, *job_, steps_of(options_, *job_), options_.between_hosts);
}

machines_world machines_world::with(fault f) const {
  machines_world out = *this;
  out.options_.faults.push_back(std::move(f));
  out.prepare();
  return out;
}

machines_world machines_world::with(machine_event e) const {
  machines_world out = *this;
  out.options_.events.push_back(e);
  out.prepare();
  return out;
}

job_run machines_world::run(uint64_t seed) const {
  return job_run(std::make_shared<const job_record>(machines_run(*job_, options_, seed).play()));
}

}  // namespace troupe::sim
