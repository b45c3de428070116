#include "tests/sim/processes_world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

#include "tests/sim/small_plans.hpp"

namespace troupe::actors {
namespace {

constexpr int64_t ms = 1'000'000;
/// Timeouts and delays of the simulated jobs in ns, which are a twentieth of a real job's.
constexpr int64_t lost_after_ns = 250 * ms, backoff_ns = 25 * ms, start_max_ns = 30 * ms, delay_max_ns = 1 * ms;
constexpr int64_t tick_max_ns = 50 * ms;
/// Virtual time in ns after which the job counts as one that never ends.
constexpr int64_t longest_ns = 120'000 * ms;
constexpr uint64_t rounds_max = 3'000'000;
constexpr std::string_view trouble_names[num_trouble_kinds] = {
    "kill",     "stop",         "stop of the supervisor", "partition", "partition downwards", "partition upwards",
    "cut link", "garbled link", "executor error"};

class world {
 public:
  explicit world(const processes_scenario& s)
      : scenario_(s), random_(s.seed * 7919 + 5), supervision_(job()), nodes_(s.processes + s.spares) {
    out_.struck.resize(s.all.size());
    around_.steps = s.steps;
    around_.seed = s.seed;
    around_.lost_after_ns = lost_after_ns;
    around_.defect = s.defect;
    for (uint32_t data = 1; data <= s.processes * s.ranks_each; ++data)
      around_.plans[data] = small_plans(data, s.stage);
    for (const auto& t : s.all)
      if (t.kind == trouble_kind::executor_error) {
        around_.fault.kind = sim_fault_kind::executor_error;
        around_.fault.run = 1;
        around_.fault.rank = t.place % (s.processes * s.ranks_each);
        around_.fault.position = static_cast<uint32_t>(t.after_messages % 4);
      }
  }
  ~world() {
    for (auto& n : nodes_) n.process.reset();
    for (const auto& c : around_.left_behind) c->dismiss();
    schedule_.drain();
    around_.left_behind.clear();
    around_.collectives.clear();
  }
  world(const world&) = delete;
  world& operator=(const world&) = delete;

  job_result play() {
    const int64_t begin_ns = now();
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
    out_.terms = watch_.terms();
    out_.steps_done = watch_.steps_done();
    out_.steps_again = watch_.steps_again();
    out_.seconds = double(now() - begin_ns) / 1e9;
    return std::move(out_);
  }

 private:
  struct node {
    std::unique_ptr<simulated_process> process;
    std::unique_ptr<cluster::link> end;  // the supervisor's end of the link to the process
    std::shared_ptr<cluster::modelled_stream> up, down;
    int64_t starts_ns = INT64_MAX;  // virtual time at which a started process sends its first message
    int64_t stopped_until_ns = 0;
    bool is_gone = true;  // true before a process is started and after it has ended
  };

  [[nodiscard]] int64_t now() const { return schedule_.now_ns(); }
  [[nodiscard]] bool is_over() const {
    return code_ && std::ranges::all_of(nodes_, [](const node& n) { return n.is_gone; });
  }

  [[nodiscard]] cluster::supervised_job job() const {
    cluster::supervised_job out;
    out.processes = scenario_.processes;
    out.spares = scenario_.spares;
    out.ranks_each = scenario_.ranks_each;
    out.data = scenario_.processes * scenario_.ranks_each;
    out.feasible = [](uint32_t ranks) -> core::result<uint32_t> {
      if (ranks == 0) return core::fail(core::error_kind::peer_lost, "no rank is left");
      return ranks;
    };
    out.lost_after_ns = lost_after_ns;
    out.backoff_ns = backoff_ns;
    return out;
  }

  // ---- actions of the launcher
  void act() {
    for (auto actions = supervision_.take(); !actions.empty(); actions = supervision_.take()) {
      std::vector<std::pair<uint32_t, uint64_t>> taken_for_quiet;
      for (auto& a : actions) {
        if (auto* x = std::get_if<cluster::send_to>(&a)) {
          const auto* end = std::get_if<cluster::end_term>(&x->what.what);
          if (end != nullptr && !end->is_final && scenario_.defect == planted::next_term_without_quiet)
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
    n.up = std::make_shared<cluster::modelled_stream>(clock, random_(), delay_max_ns);
    n.down = std::make_shared<cluster::modelled_stream>(clock, random_(), delay_max_ns);
    n.end = std::make_unique<cluster::modelled_link>(n.down, n.up);
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
  [[nodiscard]] int64_t tick_due_ns() const {
    return std::max(ticked_ns_ + ms, std::min(supervision_.due_ns(), ticked_ns_ + tick_max_ns));
  }
  [[nodiscard]] int64_t due_ns() const {
    int64_t supervisor = tick_due_ns();
    int64_t out = INT64_MAX;
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
      if (code_ && now() > over_ns_ + lost_after_ns)
        for (uint32_t p = 0; p < nodes_.size(); ++p) end(p);
    }
    for (uint32_t p = 0; p < nodes_.size(); ++p) {
      auto& n = nodes_[p];
      if (n.is_gone || n.stopped_until_ns > now()) continue;
      if (n.starts_ns <= now()) {
        n.starts_ns = INT64_MAX;
        n.process =
            std::make_unique<simulated_process>(around_, p, std::make_unique<cluster::modelled_link>(n.up, n.down));
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
      for (size_t i = 0; i < scenario_.all.size(); ++i)
        if (scenario_.all[i].kind == trouble_kind::executor_error) out_.struck[i] = true;
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
    for (size_t i = 0; i < scenario_.all.size(); ++i) {
      const auto& t = scenario_.all[i];
      if (out_.struck[i] || out_.messages < t.after_messages || t.kind == trouble_kind::executor_error) continue;
      out_.struck[i] = true;
      befall(t, nodes_[t.place]);
    }
  }
  void befall(const trouble& t, node& n) {
    const int64_t until = now() + t.duration_ns;
    if (t.kind == trouble_kind::supervisor_stopped) supervisor_stopped_until_ns_ = until;
    if (n.is_gone) return;
    switch (t.kind) {
      case trouble_kind::killed:
        if (n.process) n.process->kill();
        n.process.reset();
        n.is_gone = true;
        n.up->close();
        break;
      case trouble_kind::stopped:
        n.stopped_until_ns = until;
        if (n.process) n.process->stop(t.duration_ns);
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

  const processes_scenario& scenario_;
  std::mt19937_64 random_;
  sim_config config_;
  caf::actor_system system_{config_};
  sim_scheduler schedule_{system_, scenario_.seed, std::chrono::microseconds{20}};
  run_watch watch_{std::ranges::any_of(scenario_.all, [](const trouble& t) {
    return t.kind == trouble_kind::partition || t.kind == trouble_kind::partition_up;
  })};
  surroundings around_{system_, schedule_, watch_, {}};
  cluster::supervision supervision_;
  std::vector<node> nodes_;
  job_result out_;
  std::optional<int32_t> code_;
  int64_t over_ns_ = 0, ticked_ns_ = 0, supervisor_stopped_until_ns_ = 0;
};

}  // namespace

std::string_view name_of(trouble_kind kind) { return trouble_names[static_cast<size_t>(kind)]; }

std::string trouble::describe() const {
  return fmt::format("{} at process {} after {} messages, for {} ms", name_of(kind), place, after_messages,
                     duration_ns / ms);
}

processes_scenario processes_scenario_of(uint64_t seed) {
  std::mt19937_64 random(seed);
  processes_scenario s;
  s.seed = seed;
  s.processes = static_cast<uint32_t>(2 + random() % 3);
  s.spares = static_cast<uint32_t>(random() % 2);
  s.ranks_each = random() % 4 == 0 ? 2 : 1;
  s.stage = static_cast<uint32_t>(random() % 4);
  s.steps = 8 + random() % 16;
  const uint64_t troubles = random() % 6;
  for (uint64_t i = 0; i < troubles; ++i) {
    trouble t;
    const auto kind = random() % (4 * num_trouble_kinds);
    t.kind = static_cast<trouble_kind>(kind % num_trouble_kinds);
    // Executor errors are rare, because each of them ends the run, and most runs should end without an error.
    if (t.kind == trouble_kind::executor_error && kind >= num_trouble_kinds) t.kind = trouble_kind::killed;
    t.place = static_cast<uint32_t>(random() % (s.processes + s.spares));
    // `within` is a separate variable, because a compiler may evaluate either side of % first.
    const uint64_t within = random() % 4 == 0 ? 60 : 600;
    t.after_messages = random() % within;
    t.duration_ns = static_cast<int64_t>(random() % 20) * lost_after_ns / 10;
    s.all.push_back(t);
  }
  return s;
}

job_result play_processes(const processes_scenario& s) { return world(s).play(); }

}  // namespace troupe::actors
