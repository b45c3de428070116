#include "actors/sim/sim.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <span>

#include "actors/company.hpp"
#include "actors/sim/modelled_executor.hpp"
#include "actors/sim/scheduler.hpp"
#include "core/text.hpp"
#include "fabric/modelled.hpp"
#include "job/step/step_rules.hpp"
#include "plan/layout/communicators.hpp"
#include "plan/vote_layout.hpp"

namespace troupe::actors {
namespace {

struct sim_config : caf::actor_system_config {
  sim_config() {
    add_message_types<caf::id_block::troupe>();
    set("scheduler.policy", caf::atom("testing"));
  }
};

/// Number of message deliveries per instruction that no correct run reaches; a run that reaches it is ended, because
/// its actors exchange messages without end.
constexpr uint64_t deliveries_per_instruction_max = 100;

/// Delay after which some collectives wake their lane a second time, as real communicators sometimes do.
constexpr std::chrono::microseconds late_wake{300};

class world {
 public:
  world(const std::vector<shared_rank_plans>& plans, const sim_options& o) : plans_(plans), options_(o) {
    models_->costs = o.costs;
    models_->noise = o.noise;
    models_->seed = o.seed;
    models_->arm(o.fault);
    for (const auto& f : o.further_faults) models_->arm(f);
    models_->overflow_in_run = o.overflow_in_run;
    models_->clip_in_run = o.clip_in_run;
    models_->now_ns = [this] { return schedule_.now_ns(); };
    models_->writes_together = o.even_messages;
    for (const auto& p : plans) num_ranks_ = std::max(num_ranks_, static_cast<uint32_t>(p.size()));
    divide_ranks();
    fabric_free_ns_.assign(num_ranks_, 0);
    for (uint32_t c = 0; c < communicators().size(); ++c) groups_.push_back(make_group(c));
    patience_ = {o.stall_after, o.work_min, o.work_min, longest_predicted()};
    pulses_ = std::make_shared<pulse_board>(num_ranks_);
    show_followers();
    share_votes();
    std::vector<rank_parts> ranks(acting_.size());
    for (size_t i = 0; i < acting_.size(); ++i) furnish(ranks[i], acting_[i]);
    loader_setup loader;
    loader.shape.ranks = any_plan().options().data() / any_plan().options().sequence_ranks();
    loader.cut = [](const next_batch&) { return std::make_shared<const data::batch>(); };
    company_ = assemble(system_, std::move(ranks), std::move(loader), {}, lane_threads::scheduler).value();
  }

  ~world() {
    dismiss(*company_);
    for (const auto& a : askers_) caf::anon_send_exit(a, caf::exit_reason::kill);
    askers_.clear();
    schedule_.drain();
  }
  world(const world&) = delete;
  world& operator=(const world&) = delete;

  core::result<sim_run> run(plan::plan_choice which) {
    const auto& plans = acting_plans_[static_cast<size_t>(which)];
    auto order = std::make_shared<step_order>();
    order->run = ++runs_;
    order->step = runs_ - 1;
    order->collectives_before = collectives_;
    price_collectives(plans);
    plan::add_collectives(collectives_, plans);
    size_t instructions = 0;
    for (const auto& p : plans) instructions += p->instructions.size();
    const uint64_t deliveries_max = schedule_.num_delivered() + 1000 + deliveries_per_instruction_max * instructions;

    sim_run out;
    out.which = which;
    out.predicted_s = plan::predict(plans, options_.costs, acted_for_).step_s;
    out.patience_s = patience_s();
    const int64_t quiet_max_ns = static_cast<int64_t>(4e9 * out.patience_s) + delays_ns();
    run_began_ns_ = schedule_.now_ns();
    auto answer = std::make_shared<std::optional<run_outcome>>();
    out.began_ns = run_began_ns_;
    if (runs_ == 1) first_began_ns_ = run_began_ns_;
    which_ = which;
    ask(run_plan{which, order}, answer);
    // virtual time of the last start or end of an instruction
    int64_t quiet_since = run_began_ns_;
    for (size_t seen = models_->log.size(); !*answer; strike()) {
      if (models_->log.size() != seen) {
        seen = models_->log.size();
        quiet_since = schedule_.now_ns();
      }
      stop_if_told();
      if (!schedule_.step(quiet_since + quiet_max_ns))
        return hang(fmt::format("run {} gave no answer; the last instruction started or ended {} s ago", runs_,
                                core::text_of("%.6f", double(schedule_.now_ns() - quiet_since) / 1e9)));
      if (schedule_.num_delivered() > deliveries_max)
        return hang(fmt::format("run {} gave no answer after {} messages", runs_, deliveries_max));
    }
    out.outcome = std::move(**answer);
    out.ended_ns = schedule_.now_ns();
    out.seconds = double(out.ended_ns - run_began_ns_) / 1e9;
    return out;
  }

  // After the failure `why`: waits until all actors are idle, and checks that the next order is refused with the same
  // error.
  core::result<void> rest(const core::error& why) {
    const size_t events = models_->log.size();
    const int64_t until = schedule_.now_ns() + 4 * options_.stall_after.count() + delays_ns();
    const uint64_t deliveries_max = schedule_.num_delivered() + 1000 + 100 * events;
    while (schedule_.step(until))
      if (schedule_.num_delivered() > deliveries_max)
        return hang("the actors continue to send messages after '" + why.text + "'");
    auto again = std::make_shared<std::optional<run_outcome>>();
    auto order = std::make_shared<step_order>();
    order->run = runs_ + 1;
    ask(run_plan{plan::plan_choice::train, order}, again);
    while (!*again && schedule_.step(until + 1'000'000'000)) {
    }
    if (!*again || !(*again)->failure || (*again)->failure->text != why.text)
      return hang("an order after '" + why.text + "' was not refused with these words");
    return {};
  }

  void tell(sim_result& out) {
    out.log = std::move(models_->log);
    out.fault_struck = models_->faults.front().struck();
    out.fault_at_s = struck_at_s_;
    for (const auto& f : models_->faults) out.struck_ns.push_back(f.struck_ns);
    out.began_ns = first_began_ns_;
    out.told = std::move(told_);
    out.messages = schedule_.num_delivered();
    out.schedule = schedule_.digest();
  }

 private:
  // Divides the ranks into those that act and those that others act for.
  void divide_ranks() {
    const auto& by = options_.acted_by;
    place_of_.resize(num_ranks_, 0);
    if (!by.empty()) models_->acts_for.assign(num_ranks_, 0);
    for (uint32_t r = 0; r < num_ranks_; ++r) {
      if (!by.empty()) ++models_->acts_for[by[r]];
      if (!acts(r)) continue;
      place_of_[r] = acting_.size();
      acting_.push_back(r);
    }
    for (const uint32_t r : acting_) acted_for_.push_back(models_->ranks_of(r));
    for (const auto& which : plans_) {
      auto& here = acting_plans_.emplace_back();
      for (size_t i = 0; i < acting_.size() && !which.empty(); ++i) here.push_back(which[acting_[i]]);
    }
  }
  [[nodiscard]] bool acts(uint32_t r) const { return options_.acted_by.empty() || options_.acted_by[r] == r; }
  // Ranks that others act for have no pulse of their own: each is shown as one that waits in every run, because a rank
  // without a pulse would count as working.
  void show_followers() {
    for (uint32_t r = 0; r < num_ranks_; ++r)
      if (!acts(r)) pulses_->show(r, [] { return pulse{.run = UINT64_MAX}; });
  }

  // Makes the memory of the votes, which are equal on all ranks where ranks act for others, once for all of them: a
  // rank of a large job has a gigabyte of them. No rank begins a run before all have decided the one before. Where a
  // kind of run needs more than the others in one of its parts, each run keeps memory of its own.
  void share_votes() {
    if (options_.acted_by.empty()) return;
    const plan::rank_plan* most = &any_plan();
    const auto sizes = [](const plan::rank_plan& p) {
      return std::pair(plan::vote_elements(*p.layout), plan::measured_elements(*p.layout));
    };
    for (const auto& which : acting_plans_)
      if (!which.empty())
        most = std::max(most, which.front().get(), [&](const auto* a, const auto* b) { return sizes(*a) < sizes(*b); });
    const auto [votes, norms] = sizes(*most);
    for (const auto& which : acting_plans_)
      if (!which.empty() && (sizes(*which.front()).first > votes || sizes(*which.front()).second > norms)) return;
    votes_ = plain_votes(*most);
  }

  static tl::unexpected<core::error> hang(std::string text) {
    return core::fail(core::error_kind::bug, "simulation: " + std::move(text));
  }
  [[nodiscard]] const lane_actor& lane_of(uint32_t rank, plan::lane l) const {
    return company_->ranks[place_of_[rank]]->lanes[static_cast<size_t>(l)];
  }
  // Returns the lane actor that the fault affects. If several actors share the fault's lane, as the pipeline stages of
  // a rank share the compute lane, returns the actor that runs the instruction at the fault's position in that lane.
  [[nodiscard]] const lane_actor& struck_lane(const sim_fault& f) const {
    for (const auto& which : plans_) {
      if (f.rank >= which.size()) continue;
      const auto& order = which[f.rank]->lanes[static_cast<size_t>(f.lane)];
      if (f.position >= order.size()) continue;
      return company_->ranks[place_of_[f.rank]]->lanes[program(which[f.rank]).seat[order[f.position]]];
    }
    return lane_of(f.rank, f.lane);
  }
  [[nodiscard]] const lane_actor& fabric_lane(uint32_t rank) const { return lane_of(rank, plan::lane::fabric); }

  [[nodiscard]] std::chrono::nanoseconds longest_predicted() const {
    double seconds = 0;
    for (const auto& which : acting_plans_)
      for (const auto& p : which)
        for (const auto& x : p->instructions)
          seconds = std::max(seconds, plan::predicted_seconds(*p, x, options_.costs));
    return std::chrono::nanoseconds(static_cast<int64_t>(1e9 * seconds));
  }
  // Returns the time without progress, in seconds, after which a working lane counts as stalled: it depends on the
  // longest measured instruction, whose time is the predicted one, lengthened by noise and a slow lane.
  [[nodiscard]] double patience_s() const {
    double factor = 1, more_s = 0;
    for (const auto& f : models_->faults) {
      if (f.what.kind != sim_fault_kind::slow_lane) continue;
      factor = std::max(factor, f.what.factor);
      if (f.what.moment == sim_moment::instruction)
        more_s = std::max(more_s, std::chrono::duration<double>(f.what.delay).count());
    }
    const double predicted_s = std::chrono::duration<double>(patience_.longest_predicted).count();
    const double work_s = double(work_factor) * ((1 + options_.noise) * factor * predicted_s + more_s);
    return std::max({std::chrono::duration<double>(patience_.stall_after).count(),
                     std::chrono::duration<double>(patience_.measured_min).count(), work_s});
  }

  // Stops the run, as a host program would, if a rank has reported that it waits for a disk; such a wait alone
  // ends no run.
  void stop_if_told() {
    if (told_.empty() || stopped_) return;
    if (std::ranges::none_of(models_->faults, [](const armed_fault& f) {
          return f.what.kind == sim_fault_kind::silence && asks_disk(f.what.lane);
        }))
      return;
    stopped_ = true;
    post(company_->supervisor, give_up{core::error_kind::stopped, told_.front()});
  }

  /// Returns the first plan of the first kind of run that has plans.
  [[nodiscard]] const plan::rank_plan& any_plan() const {
    return *std::ranges::find_if(acting_plans_, [](const shared_rank_plans& x) { return !x.empty(); })->front();
  }
  [[nodiscard]] const std::vector<plan::communicator>& communicators() const {
    return any_plan().layout->communicators;
  }
  [[nodiscard]] const fabric::linear_link& link_of(uint32_t c) const {
    return options_.links.empty() ? options_.link : options_.links[c];
  }
  std::shared_ptr<fabric::modelled_group> make_group(uint32_t c) {
    const auto& members = communicators()[c].members;
    std::vector<uint32_t> acted_by;  // by the numbers of members
    for (size_t i = 0; i < members.size() && !options_.acted_by.empty(); ++i) {
      const auto who = std::ranges::lower_bound(members, options_.acted_by[members[i]]);
      // Nobody joins a communicator whose members are all acted for by ranks elsewhere.
      if (who == members.end() || *who != options_.acted_by[members[i]]) return nullptr;
      acted_by.push_back(static_cast<uint32_t>(who - members.begin()));
    }
    const auto wake_later = [this, c, &members](int64_t delay_ns, uint32_t member, uint64_t sequence) {
      const auto& lane = fabric_lane(members[member]);
      const wake what{collective_id{c, sequence}.number()};
      schedule_.post_later(std::chrono::nanoseconds(delay_ns), lane, what);
      // Real communicators sometimes wake a lane once too often, and late, even in the next run. With even messages
      // they wake all members alike.
      if ((sequence + (options_.even_messages ? 0 : member)) % 4 == 0)
        schedule_.post_later(std::chrono::nanoseconds(delay_ns) + late_wake, lane, what);
    };
    const auto size = static_cast<uint32_t>(members.size());
    const bool has_curves = c < options_.curves.size() && !options_.curves[c].empty();
    const bool is_priced =
        !has_curves && c < options_.predicted_collectives.size() && options_.predicted_collectives[c];
    // A collective takes at least 1 ns with even messages: one that took none would end at once for the member that
    // posts last, and a message later for the others, although nothing but their numbers tells them apart.
    const int64_t least_ns = options_.even_messages ? 1 : 0;
    fabric::virtual_time time{[this] { return schedule_.now_ns(); }, wake_later, {}, {}};
    if (has_curves)
      time.duration_ns = [this, c, size, least_ns](const fabric::request& r) {
        return std::max(least_ns, fabric::duration_ns(options_.curves[c], r, size));
      };
    if (is_priced)
      time.duration_ns = [this, c, least_ns](const fabric::request& r) {
        return std::max(least_ns, prices_ns_[c].at(r.id.sequence - priced_from_[c]));
      };
    // Which of two collectives of one moment a rank moves first depends on the order of messages, which sets ranks
    // apart that are alike: with even messages each group moves its own.
    if (is_priced && !options_.even_messages)
      time.begin_ns = [this, &members](int64_t earliest_ns, int64_t takes_ns) {
        return book_fabrics(members, earliest_ns, takes_ns);
      };
    return fabric::modelled_group::make(size, link_of(c), std::move(time), members, acted_by);
  }
  // Returns when a collective of these ranks begins to move bytes, and books them until it has ended: a rank moves the
  // bytes of one collective at a time, as plan::predict() assumes.
  int64_t book_fabrics(const std::vector<uint32_t>& members, int64_t earliest_ns, int64_t takes_ns) {
    const auto& by = options_.acted_by;
    const auto who = [&](uint32_t r) { return by.empty() ? r : by[r]; };
    for (const uint32_t r : members) earliest_ns = std::max(earliest_ns, fabric_free_ns_[who(r)]);
    for (const uint32_t r : members) fabric_free_ns_[who(r)] = earliest_ns + takes_ns;
    return earliest_ns;
  }
  // Computes what the collectives of the next run cost, as plan::predict() does: the largest price of a member, nothing
  // for one that acts only in skipped or clipped steps.
  void price_collectives(const shared_rank_plans& plans) {
    if (options_.predicted_collectives.empty()) return;
    priced_from_ = collectives_;
    priced_from_.resize(communicators().size(), 0);
    prices_ns_.assign(communicators().size(), {});
    for (const auto& p : plans)
      for (const uint32_t id : p->lanes[static_cast<size_t>(plan::lane::fabric)]) {
        const auto& x = p->instructions[id];
        auto& prices_ns = prices_ns_[x.communicator];
        if (prices_ns.size() <= x.sequence) prices_ns.resize(x.sequence + 1, 0);
        if (!plan::acts(x.guard, plan::branch::not_skipped)) continue;
        const double seconds = plan::predicted_seconds(*p, x, options_.costs);
        prices_ns[x.sequence] = std::max(prices_ns[x.sequence], static_cast<int64_t>(1e9 * seconds));
      }
  }
  void furnish(rank_parts& x, uint32_t r) {
    rank_programs programs;
    for (size_t which = 0; which < plans_.size(); ++which)
      if (r < plans_[which].size()) {
        programs[which] = std::make_shared<const program>(plans_[which][r]);
        x.lanes.resize(num_seats(*plans_[which][r]));
      }
    x.setup.programs = std::make_shared<const rank_programs>(std::move(programs));
    x.setup.rules.skip_overflow = true;
    x.setup.rules.clip = models_->clip_in_run > 0 ? modelled_norm_limit : 0;
    x.setup.patience = patience_;
    x.setup.votes = votes_;
    x.setup.pulses = pulses_;
    x.setup.tell = [this](const std::string& line) { told_.push_back(line); };
    x.setup.window = options_.window;
    for (auto& lane : std::span(x.lanes).subspan(1)) lane = [m = models_] { return make_modelled_executor(m); };
    // The lane's executor owns the memberships, so that they end with it; the other members must detect that end.
    auto held = std::make_shared<memberships>(join_fabric(x, r, communicators(), join_of(groups_)));
    x.lanes[static_cast<size_t>(plan::lane::fabric)] = [m = models_, held] {
      return make_modelled_fabric_executor(m, std::move(*held));
    };
  }

  void ask(run_plan what, std::shared_ptr<std::optional<run_outcome>> answer) {
    // Passes all data to the actor as arguments: for an actor without arguments, CAF dereferences a null pointer to an
    // empty tuple.
    const auto asker = [](caf::event_based_actor* self, const run_plan& order, const supervisor_actor& to,
                          const std::shared_ptr<std::optional<run_outcome>>& into) {
      self->set_error_handler([](caf::error&) {});
      self->request(to, caf::infinite, order)
          .then([into](run_outcome& o) { *into = std::move(o); },
                [into, self](caf::error& e) {
                  run_outcome lost;
                  lost.failure = std::make_shared<const core::error>(
                      core::error{core::error_kind::peer_lost, "supervisor ended: " + self->system().render(e)});
                  *into = std::move(lost);
                });
    };
    askers_.push_back(system_.spawn(asker, std::move(what), company_->supervisor, std::move(answer)));
  }

  // Causes the injected faults that are kills, freezes or delays and are due now; called between two deliveries.
  // Executors cause the other faults.
  void strike() {
    for (; seen_events_ < models_->log.size(); ++seen_events_)
      for (auto& f : models_->faults) f.due = f.due || begins(f.what, models_->log[seen_events_]);
    for (auto& f : models_->faults)
      if (!f.struck() && is_due(f) && cause(f.what)) f.struck_ns = schedule_.now_ns();
    if (models_->faults.front().struck() && !seen_struck_) {
      seen_struck_ = true;
      struck_at_s_ = double(schedule_.now_ns() - run_began_ns_) / 1e9;
    }
  }

  // True if the event is the start of the instruction with which the fault happens.
  [[nodiscard]] bool begins(const sim_fault& f, const sim_event& e) const {
    if (f.moment != sim_moment::instruction || e.end || e.rank != f.rank || (f.run != any_run && f.run != e.run))
      return false;
    const auto& order = plans_[static_cast<size_t>(which_)][f.rank]->lanes[static_cast<size_t>(f.lane)];
    return f.position < order.size() && order[f.position] == e.id;
  }
  [[nodiscard]] bool is_due(const armed_fault& f) const {
    switch (f.what.moment) {
      case sim_moment::events:
        return models_->log.size() >= f.what.after_events;
      case sim_moment::run:
        return runs_ >= f.what.run;
      case sim_moment::time:
        return schedule_.now_ns() - first_began_ns_ >= f.what.at_ns;
      case sim_moment::instruction:
        return f.due;
    }
    return false;
  }

  // Causes a kill, freeze or delay; returns false for a fault of another kind, and if there was nothing to delay.
  bool cause(const sim_fault& f) {
    const auto kill = [](const auto& handle) {
      caf::anon_send_exit(handle, caf::exit_reason::kill);
      return true;
    };
    switch (f.kind) {
      case sim_fault_kind::kill_rank:
        return kill(company_->ranks[place_of_[f.rank]]->rank);
      case sim_fault_kind::kill_lane:
        return kill(struck_lane(f));
      case sim_fault_kind::kill_agent:
        return kill(company_->agent);
      case sim_fault_kind::kill_supervisor:
        return kill(company_->supervisor);
      case sim_fault_kind::kill_loader:
        return kill(company_->loader);
      case sim_fault_kind::late_message:
        return schedule_.hold_any(f.delay);
      case sim_fault_kind::cut_link:
        for (const uint32_t c : f.communicators) groups_[c]->hold(end_of(f.delay));
        return true;
      case sim_fault_kind::freeze_lane:
      case sim_fault_kind::freeze_rank:
      case sim_fault_kind::freeze_watcher:
      case sim_fault_kind::freeze_loader:
      case sim_fault_kind::freeze_disk:
      case sim_fault_kind::freeze_process:
        freeze(f);
        return true;
      default:
        return false;
    }
  }

  static bool is_for_ever(std::chrono::nanoseconds delay) { return delay == std::chrono::nanoseconds::max(); }
  /// Returns the virtual time, in ns, at which something ends that begins now; the largest for what lasts for ever.
  [[nodiscard]] int64_t end_of(std::chrono::nanoseconds delay) const {
    return is_for_ever(delay) ? INT64_MAX : schedule_.now_ns() + delay.count();
  }

  void freeze(const sim_fault& f) {
    const auto& rank = *company_->ranks[place_of_[f.rank]];
    if (f.kind == sim_fault_kind::freeze_lane) schedule_.freeze(struck_lane(f).id(), f.delay);
    if (f.kind == sim_fault_kind::freeze_rank) schedule_.freeze(rank.rank.id(), f.delay);
    if (f.kind == sim_fault_kind::freeze_rank && f.with_lanes)
      for (const auto& lane : rank.lanes)
        if (lane) schedule_.freeze(lane.id(), f.delay);
    if (f.kind == sim_fault_kind::freeze_watcher) schedule_.freeze(rank.rank.id(), f.delay, true);
    if (f.kind == sim_fault_kind::freeze_loader) schedule_.freeze(company_->loader.id(), f.delay);
    if (f.kind == sim_fault_kind::freeze_disk) models_->freeze_disk(f.delay);
    if (f.kind == sim_fault_kind::freeze_process) schedule_.stop(f.delay);
  }

  // Returns the longest time for which all faults together can keep a run from going on.
  [[nodiscard]] int64_t delays_ns() const {
    int64_t sum = 0;
    for (const auto& f : models_->faults)
      if (!is_for_ever(f.what.delay)) sum += f.what.delay.count();
    return sum;
  }

  const std::vector<shared_rank_plans>& plans_;
  const sim_options& options_;
  uint32_t num_ranks_ = 1;
  std::vector<uint32_t> acting_;                 // ranks that have actors
  std::vector<uint32_t> acted_for_;              // [place in acting_]: number of ranks that its actors act for
  vote_memory votes_;                            // memory of the votes of all ranks; empty: each run has its own
  std::vector<size_t> place_of_;                 // [rank]: its place in acting_ and in the company
  std::vector<shared_rank_plans> acting_plans_;  // plans of acting_, by plan_choice
  sim_config config_;
  caf::actor_system system_{config_};
  sim_scheduler schedule_{system_, options_.seed, options_.latency_max, options_.even_messages};
  std::shared_ptr<modelled_world> models_ = std::make_shared<modelled_world>();
  // [communicator]: group that simulates the communicator's collectives
  std::vector<std::shared_ptr<fabric::modelled_group>> groups_;
  std::shared_ptr<company> company_;
  std::vector<caf::actor> askers_;
  patience patience_;
  std::shared_ptr<pulse_board> pulses_;
  std::vector<std::string> told_;
  bool stopped_ = false;
  uint64_t runs_ = 0;
  std::vector<uint64_t> collectives_;  // number of collectives of all runs, by communicator
  // [communicator]: prices of the collectives of the current run by their sequence, and the number of collectives
  // before it
  std::vector<std::vector<int64_t>> prices_ns_;
  std::vector<uint64_t> priced_from_;
  std::vector<int64_t> fabric_free_ns_;  // [rank]: virtual time at which its last collective with a price has ended
  int64_t run_began_ns_ = 0, first_began_ns_ = 0;
  plan::plan_choice which_ = plan::plan_choice::train;  // kind of the current run
  size_t seen_events_ = 0;                              // number of entries of the log that strike() has seen
  bool seen_struck_ = false;
  double struck_at_s_ = 0;
};

/// Returns the delay of a fault, by the random number `any`: longer than `stall_after`, except for a late message. The
/// freeze of a lane or rank that could work is at most 2.4 times as long, because longer ones may count as a stall; a
/// disk, a loader, a watcher and a whole process may be frozen for any time.
std::chrono::nanoseconds delay_of(const sim_fault& f, std::chrono::nanoseconds stall_after, uint64_t any) {
  if (f.kind == sim_fault_kind::late_message) return stall_after * static_cast<int64_t>(1 + any % 4) / 10;
  const bool works =
      (f.kind == sim_fault_kind::freeze_lane && !asks_disk(f.lane)) || f.kind == sim_fault_kind::freeze_rank;
  return stall_after * static_cast<int64_t>(11 + any % (works ? 14 : 200)) / 10;
}

tl::unexpected<core::error> no_world(const std::string& what) {
  return core::refused("a simulated run: wanted " + what);
}

/// Checks that the plans of all ranks exist, but for those that others act for, that each belongs to the rank at whose
/// place it is, and that all belong to one job.
core::result<void> check_plans(const std::vector<shared_rank_plans>& plans,
                               const std::vector<uint32_t>& acted_by = {}) {
  if (plans.size() > plan::num_plan_choices)
    return no_world(fmt::format("plans of {} kinds at most, got {}", plan::num_plan_choices, plans.size()));
  const plan::rank_plan* first = nullptr;
  for (size_t which = 0; which < plans.size(); ++which)
    for (size_t r = 0; r < plans[which].size(); ++r) {
      const plan::rank_plan* p = plans[which][r].get();
      if (p == nullptr && r < acted_by.size() && acted_by[r] != r) continue;
      const std::string at = fmt::format("kind {}, rank {}: ", which, r);
      if (p == nullptr || p->layout == nullptr) return no_world("plans with their layouts, " + at + "got none");
      if (first == nullptr) first = p;
      if (p->rank != r || plans[which].size() != p->options().ranks() ||
          p->options().ranks() != first->options().ranks())
        return no_world(fmt::format("the plans of all ranks of one job, in their order, {}got that of rank {} of {}",
                                    at, p->rank, p->options().ranks()));
    }
  return {};
}

core::result<void> check_order(const std::vector<shared_rank_plans>& plans,
                               const std::vector<plan::plan_choice>& order) {
  if (order.empty()) return no_world("at least one order, got none");
  for (const auto which : order)
    if (static_cast<size_t>(which) >= std::min(plans.size(), plan::num_plan_choices) ||
        plans[static_cast<size_t>(which)].empty())
      return no_world(fmt::format("orders of kinds that have plans, got kind {}", static_cast<size_t>(which)));
  return {};
}

core::result<void> check_costs(const plan::cost_model& c) {
  for (const double rate : {c.flops_per_s, c.copy_bytes_per_s, c.disk_bytes_per_s, c.disk_read_bytes_per_s})
    if (!(rate > 0)) return no_world("costs with rates above 0, got " + core::number_text(rate));
  for (const double seconds : {c.disk_latency_s, c.latency_s})
    if (!(std::isfinite(seconds) && seconds >= 0))
      return no_world("costs with latencies of at least 0 s, got " + core::number_text(seconds));
  if (c.device_bytes_per_s != 0 && !(c.device_bytes_per_s > 0 && c.link_bytes_per_s > 0))
    return no_world("costs with rates above 0 of the device and of its link, got " +
                    core::number_text(c.device_bytes_per_s) + " and " + core::number_text(c.link_bytes_per_s));
  return {};
}

core::result<void> check_fault(const sim_fault& f, uint32_t ranks) {
  if (f.delay.count() < 0 || f.at_ns < 0) return no_world("faults with times of at least 0 ns");
  if (f.rank >= ranks || static_cast<uint32_t>(f.lane) >= plan::num_lanes || !(std::isfinite(f.factor) && f.factor > 0))
    return no_world(fmt::format("a fault of one of {} ranks, with a factor above 0, got rank {} and {}", ranks, f.rank,
                                core::number_text(f.factor)));
  return {};
}

core::result<void> check_link(const fabric::linear_link& l) {
  if (!(l.bytes_per_second > 0) || !(std::isfinite(l.latency_us) && l.latency_us >= 0))
    return no_world("a link of more than 0 bytes a second and a latency of at least 0 us, got " +
                    core::number_text(l.bytes_per_second) + " and " + core::number_text(l.latency_us));
  return {};
}

/// Checks that ranks which act for others can do so (sim_options::acted_by).
core::result<void> check_acting(const sim_options& o, uint32_t ranks, const std::vector<plan::communicator>& all) {
  if (o.acted_by.empty()) return {};
  const auto acts = [&](uint32_t r) { return r < o.acted_by.size() && o.acted_by[r] == r; };
  if (o.acted_by.size() != ranks || !std::ranges::all_of(o.acted_by, acts))
    return no_world(fmt::format("for each of {} ranks one that acts for it, and that acts for itself", ranks));
  if (!o.even_messages || o.noise != 0) return no_world("even messages and no noise where ranks act for others");
  for (const auto& c : all) {
    const auto is_member = [&](uint32_t r) { return std::ranges::binary_search(c.members, r); };
    if (std::ranges::none_of(c.members, acts)) continue;
    for (const uint32_t r : c.members)
      if (!is_member(o.acted_by[r]))
        return no_world(fmt::format("that the rank which acts for rank {} is a member of \"{}\", too, got rank {}", r,
                                    c.name, o.acted_by[r]));
  }
  const auto check = [&](const sim_fault& f) -> core::result<void> {
    if (f.kind == sim_fault_kind::none) return {};
    if (!acts(f.rank) || f.kind == sim_fault_kind::late_message || f.kind == sim_fault_kind::bad_vote ||
        (f.moment == sim_moment::events && f.after_events > 0))
      return no_world("faults of ranks that act for themselves, at moments that all ranks share, got " + f.describe());
    return {};
  };
  TROUPE_TRY(check(o.fault));
  for (const auto& f : o.further_faults) TROUPE_TRY(check(f));
  return {};
}

core::result<void> check_options(const sim_options& o, uint32_t ranks, size_t communicators) {
  TROUPE_TRY(check_costs(o.costs));
  if (!(std::isfinite(o.noise) && o.noise >= 0))
    return no_world("a noise of at least 0, got " + core::number_text(o.noise));
  TROUPE_TRY(check_link(o.link));
  for (const auto& l : o.links) TROUPE_TRY(check_link(l));
  if (!o.links.empty() && o.links.size() != communicators)
    return no_world(fmt::format("a link for each of {} communicators, got {}", communicators, o.links.size()));
  if (!o.curves.empty() && o.curves.size() != communicators)
    return no_world(fmt::format("times of the collectives of each of {} communicators, got those of {}", communicators,
                                o.curves.size()));
  if (!o.predicted_collectives.empty() && o.predicted_collectives.size() != communicators)
    return no_world(fmt::format("for each of {} communicators whether its collectives take predicted times, got {}",
                                communicators, o.predicted_collectives.size()));
  if (o.latency_max.count() < 0 || o.stall_after.count() <= 0 || o.work_min.count() < 0)
    return no_world("times of at least 0 ns, and a limit of silence above 0 ns");
  if (o.window == 0) return no_world("a window of at least one instruction, got 0");
  TROUPE_TRY(check_fault(o.fault, ranks));
  for (const auto& f : o.further_faults) TROUPE_TRY(check_fault(f, ranks));
  return {};
}

}  // namespace

core::result<sim_result> simulate(const std::vector<shared_rank_plans>& plans,
                                  const std::vector<plan::plan_choice>& order, const sim_options& options) {
  TROUPE_TRY(check_plans(plans, options.acted_by));
  TROUPE_TRY(check_order(plans, order));
  const auto& first = *std::ranges::find_if(plans, [](const shared_rank_plans& x) { return !x.empty(); });
  const auto some = std::ranges::find_if(first, [](const auto& p) { return p != nullptr; });
  if (some == first.end()) return no_world("plans of the ranks that act for themselves, got none");
  const auto& communicators = (*some)->layout->communicators;
  TROUPE_TRY(check_acting(options, static_cast<uint32_t>(first.size()), communicators));
  TROUPE_TRY(check_options(options, static_cast<uint32_t>(first.size()), communicators.size()));
  sim_result out;
  world w(plans, options);
  for (const auto which : order) {
    TROUPE_ASSIGN(auto did, w.run(which));
    out.runs.push_back(std::move(did));
    if (const auto& why = out.runs.back().outcome.failure) {
      TROUPE_TRY(w.rest(*why));
      break;
    }
  }
  w.tell(out);
  return out;
}

sim_fault draw_fault(uint64_t seed, const std::vector<shared_rank_plans>& plans,
                     const std::vector<plan::plan_choice>& order, std::chrono::nanoseconds stall_after) {
  std::mt19937_64 random(seed * 2654435761U + 17);
  sim_fault f;
  if (!check_plans(plans) || !check_order(plans, order)) return f;
  const size_t run = random() % order.size();
  f.run = run + 1;
  const auto& ranks = plans[static_cast<size_t>(order[run])];
  f.rank = static_cast<uint32_t>(random() % ranks.size());
  const auto& p = *ranks[f.rank];
  const auto idle = [](const auto& order_of_lane) { return order_of_lane.empty(); };
  if (std::all_of(p.lanes.begin() + 1, p.lanes.end(), idle)) return f;  // this rank has nothing to save
  do f.lane = static_cast<plan::lane>(1 + random() % (plan::num_lanes - 1));
  while (p.lanes[static_cast<size_t>(f.lane)].empty());
  do f.kind = static_cast<sim_fault_kind>(random() % (static_cast<size_t>(sim_fault_kind::silence) + 1));
  while (ranks.size() == 1 && (f.kind == sim_fault_kind::wrong_identity || f.kind == sim_fault_kind::bad_vote));
  const auto& collectives = p.lanes[static_cast<size_t>(plan::lane::fabric)];
  const auto meets_others = [&](uint32_t id) {
    return p.layout->communicators[p.instructions[id].communicator].members.size() > 1;
  };
  if (f.kind == sim_fault_kind::wrong_identity || f.kind == sim_fault_kind::bad_vote) f.lane = plan::lane::fabric;
  if (p.lanes[static_cast<size_t>(f.lane)].empty()) f.kind = sim_fault_kind::none;
  if (f.kind == sim_fault_kind::bad_vote && (order[run] == plan::plan_choice::generate ||
                                             std::none_of(collectives.begin(), collectives.end(), [&](uint32_t id) {
                                               return p.instructions[id].kind == plan::kind::vote;
                                             })))
    f.kind = sim_fault_kind::none;
  f.position = static_cast<uint32_t>(random() % std::max<size_t>(1, p.lanes[static_cast<size_t>(f.lane)].size()));
  if (f.kind == sim_fault_kind::wrong_identity) {  // another member must exist to detect this fault
    if (std::ranges::none_of(collectives, meets_others)) f.kind = sim_fault_kind::none;
    while (f.kind != sim_fault_kind::none && !meets_others(collectives[f.position]))
      f.position = (f.position + 1) % static_cast<uint32_t>(collectives.size());
  }
  uint64_t events = 0;
  for (const auto which : order)
    for (const auto& r : plans[static_cast<size_t>(which)]) events += 2 * r->instructions.size();
  f.after_events = random() % events;
  f.factor = double(2 + random() % 20);
  f.delay = delay_of(f, stall_after, random());
  return f;
}

}  // namespace troupe::actors
