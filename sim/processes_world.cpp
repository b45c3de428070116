#include "sim/processes_world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

#include "cluster/supervision.hpp"
#include "sim/job_faults.hpp"
#include "sim/seeds.hpp"
#include "sim/simulated_job.hpp"
#include "sim/terms/modelled_link.hpp"
#include "sim/terms/simulated_process.hpp"

namespace troupe::sim {
namespace {

constexpr int64_t ms = 1'000'000;
/// Delays of the simulated jobs in ns, which are a twentieth of a real job's.
constexpr int64_t start_max_ns = 30 * ms, delay_max_ns = 1 * ms, tick_max_ns = 50 * ms;
/// Virtual time in ns after which the job counts as one that never ends.
constexpr int64_t longest_ns = 120'000 * ms;
constexpr uint64_t rounds_max = 3'000'000;
constexpr std::string_view trouble_names[num_trouble_kinds] = {
    "kill",     "stop",         "stop of the supervisor", "partition", "partition downwards", "partition upwards",
    "cut link", "garbled link", "executor error"};

steps_of_job steps_of(const processes_options& o, const simulated_job& job) {
  return {o.steps, o.memory_every.value_or(job.memory_every), o.disk_every.value_or(job.disk_every)};
}

class processes_run {
 public:
  processes_run(const simulated_job& job, const processes_options& o, uint64_t seed)
      : described_(job),
        options_(o),
        seed_(seed),
        random_(seed * 7919 + 5),
        steps_(steps_of(o, job)),
        faults_(o.faults, job, steps_, {}),
        supervision_(supervised()),
        nodes_(job.base.places()) {
    out_.struck.resize(o.troubles.size());
    around_.steps = steps_.all;
    around_.memory_every = steps_.memory_every;
    around_.disk_every = steps_.disk_every;
    around_.seed = seed;
    around_.lost_after_ns = o.lost_after.count();
    around_.defect = o.defect;
    around_.costs = faults_.costs(o.costs.value_or(job.costs));
    around_.patience = {o.stall_after, o.work_min, o.work_min, {}};
    around_.plans = job.plans;
    if (!faults_.is_empty()) {
      around_.faults_of = [this](const run_of_term& run) { return faults_.of_run(run); };
      around_.has_struck = [this](size_t number, int64_t at_ns) { faults_.has_happened(number, at_ns); };
    }
    for (const auto& t : o.troubles)
      if (t.kind == trouble_kind::executor_error) {
        around_.fault.kind = actors::sim_fault_kind::executor_error;
        around_.fault.run = 1;
        around_.fault.rank = t.place % (job.base.processes * job.base.ranks_each);
        around_.fault.position = static_cast<uint32_t>(t.after_messages % 4);
      }
  }
  ~processes_run() {
    for (auto& n : nodes_) n.process.reset();
    for (const auto& c : around_.left_behind) c->dismiss();
    schedule_.drain();
    around_.left_behind.clear();
    around_.collectives.clear();
  }
  processes_run(const processes_run&) = delete;
  processes_run& operator=(const processes_run&) = delete;

  job_record play() {
    const int64_t begin_ns = began_ns_ = now();
    supervision_.begin(now());
    act();
    uint64_t rounds = 0;
    for (; !is_over() && watch_.wrong().empty(); ++rounds) {
      if (now() - begin_ns > longest_ns || rounds > rounds_max) break;
      strike();
      const int64_t due = due_ns();
      if (due <= now()) {
        look();
      } else if (!schedule_.step(due)) {
        schedule_.stop(std::chrono::nanoseconds(due - now()));
      }
      for (uint32_t p = 0; p < nodes_.size(); ++p) go_on(p);
    }
    if (is_over()) out_.code = code_;
    out_.wrong = watch_.wrong();
    out_.seed = seed_;
    out_.replay = replay_command(seed_);
    out_.steps = steps_.all;
    out_.terms = std::move(around_.terms);
    out_.faults = faults_.strikes(begin_ns);
    out_.steps_done = watch_.steps_done();
    out_.steps_again = watch_.steps_again();
    out_.seconds = double(now() - begin_ns) / 1e9;
    return std::move(out_);
  }

 private:
  struct node {
    std::unique_ptr<simulated_process> process;
    std::unique_ptr<cluster::link> end;  // the supervisor's end of the link to the process
    std::shared_ptr<modelled_stream> up, down;
    int64_t starts_ns = INT64_MAX;  // virtual time at which a started process sends its first message
    int64_t stopped_until_ns = 0;
    bool is_gone = true;  // true before a process is started and after it has ended
  };

  [[nodiscard]] int64_t now() const { return schedule_.now_ns(); }
  [[nodiscard]] bool is_over() const {
    return code_ && std::ranges::all_of(nodes_, [](const node& n) { return n.is_gone; });
  }

  [[nodiscard]] cluster::supervised_job supervised() const {
    cluster::supervised_job out = described_.base;
    out.lost_after_ns = options_.lost_after.count();
    out.backoff_ns = options_.backoff.count();
    return out;
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
          if (nodes_[x->place].end) (void)nodes_[x->place].end->send(std::move(x->what));
        } else if (const auto* x = std::get_if<cluster::start_process>(&a)) {
          start(x->place);
        } else if (const auto* x = std::get_if<cluster::kill_process>(&a)) {
          end(x->place);
        } else if (const auto* x = std::get_if<cluster::say>(&a)) {
          out_.said += x->line + "\n";
        } else if (const auto* x = std::get_if<cluster::finish>(&a)) {
          code_ = x->code;
          over_ns_ = now();
        }
      }
      for (const auto& [place, term] : taken_for_quiet) supervision_.hear(place, {cluster::quiet{term}, {}}, now());
    }
  }

  void start(uint32_t p) {
    auto& n = nodes_[p];
    n = {};
    n.is_gone = false;
    n.starts_ns = now() + static_cast<int64_t>(random_() % start_max_ns);
    const auto clock = [this] { return now(); };
    n.up = std::make_shared<modelled_stream>(clock, random_(), delay_max_ns);
    n.down = std::make_shared<modelled_stream>(clock, random_(), delay_max_ns);
    n.end = std::make_unique<modelled_link>(n.down, n.up);
  }
  /// Kills and reaps process `p`, if it is running.
  void end(uint32_t p) {
    auto& n = nodes_[p];
    if (n.process) n.process->kill();
    n = {};
  }

  // Delivers the messages of process `p` to the supervisor, then the end of its link, as launcher::hear and
  // launcher::ended do.
  void hear(uint32_t p) {
    auto& n = nodes_[p];
    while (n.end && n.up->due_ns() <= now()) {
      auto came = n.end->receive();
      if (!came) {
        const bool leaves = supervision_.of(p) == cluster::standing::left || code_;
        n.end.reset();
        if (!leaves || !n.process) end(p);
        supervision_.closed(p, "was lost: " + came.error().text, now());
        act();
        return;
      }
      for (auto& x : *came) {
        ++out_.messages;
        supervision_.hear(p, std::move(x), now());
      }
      act();
    }
  }

  // ---- virtual time
  [[nodiscard]] int64_t since_ns() const { return now() - began_ns_; }
  [[nodiscard]] int64_t tick_due_ns() const {
    return std::max(ticked_ns_ + ms, std::min(supervision_.due_ns(), ticked_ns_ + tick_max_ns));
  }
  [[nodiscard]] int64_t due_ns() const {
    int64_t supervisor = tick_due_ns();
    int64_t out = INT64_MAX;
    if (!faults_.is_empty())
      if (const int64_t due = faults_.due_ns(since_ns()); due != INT64_MAX) out = began_ns_ + due;
    for (const auto& n : nodes_) {
      if (n.end) supervisor = std::min(supervisor, n.up->due_ns());
      if (n.is_gone) continue;
      int64_t mine = n.starts_ns;
      if (n.process) mine = std::min(n.process->looks_at_ns(), n.down->due_ns());
      out = std::min(out, std::max(mine, n.stopped_until_ns));
    }
    return std::min(out, std::max(supervisor, supervisor_stopped_until_ns_));
  }

  void look() {
    if (supervisor_stopped_until_ns_ <= now()) {
      for (uint32_t p = 0; p < nodes_.size(); ++p) hear(p);
      if (tick_due_ns() <= now()) {
        ticked_ns_ = now();
        supervision_.tick(now());
        act();
      }
      if (code_ && now() > over_ns_ + options_.lost_after.count())
        for (uint32_t p = 0; p < nodes_.size(); ++p) end(p);
    }
    for (uint32_t p = 0; p < nodes_.size(); ++p) {
      auto& n = nodes_[p];
      if (n.is_gone || n.stopped_until_ns > now()) continue;
      if (n.starts_ns <= now()) {
        n.starts_ns = INT64_MAX;
        n.process = std::make_unique<simulated_process>(around_, p, std::make_unique<modelled_link>(n.up, n.down));
      }
      if (n.process && (n.process->looks_at_ns() <= now() || n.down->due_ns() <= now())) {
        out_.messages += n.down->due_ns() <= now();
        n.process->listen();
      }
    }
  }

  void go_on(uint32_t p) {
    auto& n = nodes_[p];
    if (!n.process || n.stopped_until_ns > now()) return;
    n.process->go_on();
    if (n.process->is_executor_struck())
      for (size_t i = 0; i < options_.troubles.size(); ++i)
        if (options_.troubles[i].kind == trouble_kind::executor_error) out_.struck[i] = true;
    if (!n.process->is_over()) return;
    if (p == supervision_.leader()) out_.cause = n.process->why();
    depart(n);
  }
  /// Removes a process that has ended: its last messages arrive, then the end of its link.
  void depart(node& n) {
    n.process->kill();
    n.process.reset();
    n.is_gone = true;
    n.up->close();
  }

  // ---- faults
  void strike() {
    for (size_t i = 0; i < options_.troubles.size(); ++i) {
      const auto& t = options_.troubles[i];
      if (out_.struck[i] || out_.messages < t.after_messages || t.kind == trouble_kind::executor_error) continue;
      out_.struck[i] = true;
      befall(t, nodes_[t.place]);
    }
    if (!faults_.is_empty()) strike_faults();
  }

  // Causes the faults of the world whose moment has come. A fault of a rank that no process has waits for one.
  void strike_faults() {
    uint64_t step = 0;
    for (const node& n : nodes_)
      if (n.process) step = std::max(step, n.process->step());
    for (const size_t i : faults_.due(step, since_ns()))
      if (cause(faults_[i])) faults_.has_happened(i, now());
  }
  bool cause(const fault& f) {
    switch (f.what()) {
      case fault::effect::kill:
        return for_each_at(f, [](node& n) { kill_process_of(n); });
      case fault::effect::freeze:
        if (std::holds_alternative<host>(f.where())) supervisor_stopped_until_ns_ = now() + f.lasts().count();
        return for_each_at(f, [&](node& n) { stop_process_of(n, f.lasts().count()); });
      case fault::effect::freeze_disk:
        for (node& n : nodes_)
          if (n.process) n.process->freeze_disk(f.lasts());
        return true;
      case fault::effect::late_message:
        return schedule_.hold_any(f.lasts());
      default:
        return true;
    }
  }
  /// Calls a function for the process at the fault's place, a rank or this host. Returns false if no such process runs.
  bool for_each_at(const fault& f, auto action) {
    const auto* const r = std::get_if<rank>(&f.where());
    bool any = false;
    for (node& n : nodes_) {
      if (n.is_gone || !n.process || (r != nullptr && !n.process->has_rank(r->number))) continue;
      action(n);
      any = true;
    }
    return any;
  }
  static void kill_process_of(node& n) {
    if (n.process) n.process->kill();
    n.process.reset();
    n.is_gone = true;
    n.up->close();
  }
  void stop_process_of(node& n, int64_t duration_ns) {
    n.stopped_until_ns = now() + duration_ns;
    if (n.process) n.process->stop(duration_ns);
  }
  void befall(const trouble& t, node& n) {
    const int64_t until = now() + t.duration_ns;
    if (t.kind == trouble_kind::supervisor_stopped) supervisor_stopped_until_ns_ = until;
    if (n.is_gone) return;
    switch (t.kind) {
      case trouble_kind::killed:
        kill_process_of(n);
        break;
      case trouble_kind::stopped:
        stop_process_of(n, t.duration_ns);
        break;
      case trouble_kind::partition:
        n.up->hold(until);
        n.down->hold(until);
        break;
      case trouble_kind::partition_down:
        n.down->hold(until);
        break;
      case trouble_kind::partition_up:
        n.up->hold(until);
        break;
      case trouble_kind::link_cut:
        n.up->cut();
        n.down->cut();
        break;
      case trouble_kind::link_garbled:
        n.up->garble();
        break;
      default:
        break;
    }
  }

  /// Returns true if messages of processes may be lost or late for long.
  [[nodiscard]] bool may_lose_words() const {
    return std::ranges::any_of(options_.troubles, [](const trouble& t) {
      return t.kind == trouble_kind::partition || t.kind == trouble_kind::partition_up;
    });
  }
  /// Returns the largest number of steps that a loss repeats while the supervisor hears all processes.
  [[nodiscard]] uint64_t again_max() const {
    if (steps_.memory_every == 0) return steps_.all;
    return steps_again_max + (steps_.memory_every - 1) + (steps_.disk_every > 0 ? 1 : 0);
  }

  const simulated_job& described_;
  const processes_options& options_;
  uint64_t seed_;
  std::mt19937_64 random_;
  steps_of_job steps_;
  job_faults faults_;
  simulated_system config_;
  caf::actor_system system_{config_};
  actors::sim_scheduler schedule_{system_, seed_, std::chrono::microseconds{20}};
  run_watch watch_{may_lose_words(), again_max()};
  surroundings around_{system_, schedule_, watch_, {}};
  cluster::supervision supervision_;
  std::vector<node> nodes_;
  job_record out_;
  std::optional<int32_t> code_;
  int64_t began_ns_ = 0, over_ns_ = 0, ticked_ns_ = 0, supervisor_stopped_until_ns_ = 0;
};

}  // namespace

std::string_view name_of(trouble_kind kind) { return trouble_names[static_cast<size_t>(kind)]; }

std::string trouble::describe() const {
  return fmt::format("{} at process {} after {} messages, for {} ms", name_of(kind), place, after_messages,
                     duration_ns / ms);
}

processes_world::processes_world(std::shared_ptr<const config::job_config> config, processes_options options)
    : options_(std::move(options)) {
  if (options_.spares != 0 || options_.ranks_each != 1)
    throw world_error({core::error_kind::bad_input,
                       "a simulated job: spares and ranks_each are for worlds of plans; a configuration has its own "
                       "(cluster.spares, cluster.processes)"});
  job_ = std::make_shared<const simulated_job>(job_of(config, options_.processes));
  prepare();
}

processes_world::processes_world(plans_at_degree plans, processes_options options) : options_(std::move(options)) {
  if (options_.processes == 0) options_.processes = 2;
  job_ = std::make_shared<const simulated_job>(
      job_of(std::move(plans), options_.processes, options_.spares, options_.ranks_each));
  prepare();
}

void processes_world::prepare() {
  const auto refuse = [](std::string text) {
    throw world_error({core::error_kind::bad_input, "a simulated job: " + std::move(text)});
  };
  if (options_.steps == 0) refuse("wanted a step at least, got none");
  if (!job_->base.hosts.empty())
    refuse("wanted a job on one machine, got one with cluster.hosts; machines_world simulates those");
  if (options_.lost_after.count() <= 0 || options_.backoff.count() <= 0 || options_.stall_after.count() <= 0 ||
      options_.work_min.count() <= 0)
    refuse("wanted times above 0 for lost_after, backoff, stall_after and work_min");
  for (const trouble& t : options_.troubles)
    if (t.place >= job_->base.places())
      refuse(fmt::format("{}: wanted one of {} processes", t.describe(), job_->base.places()));
  if (!options_.faults.empty()) (void)job_faults(options_.faults, *job_, steps_of(options_, *job_), {});
}

processes_world processes_world::with(fault f) const {
  processes_world out = *this;
  out.options_.faults.push_back(std::move(f));
  out.prepare();
  return out;
}

processes_world processes_world::with(trouble t) const {
  processes_world out = *this;
  out.options_.troubles.push_back(t);
  out.prepare();
  return out;
}

job_run processes_world::run(uint64_t seed) const {
  return job_run(std::make_shared<const job_record>(processes_run(*job_, options_, seed).play()));
}

}  // namespace troupe::sim
