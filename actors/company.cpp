#include "actors/company.hpp"

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "actors/host_thread.hpp"
#include "actors/messages.hpp"
#include "actors/rank_report.hpp"
#include "actors/stage_thread.hpp"
#include "actors/supervisor.hpp"
#include "core/clock.hpp"

namespace troupe::actors {
namespace {

struct numbered_rank {  ///< a rank of this process: its number in the job, and its actor
  uint32_t number = 0;
  rank_actor actor;
};

/// The node agent, one actor per process: forwards the supervisor's orders to the ranks of this process, reports to the
/// supervisor when all of them have ended a run, and detects when one of them dies. Decides nothing.
struct node_agent_state {
  node_agent_state() = default;  // not an aggregate: CAF would try to initialise its first member with the actor
  static inline const char* name = "node_agent";

  supervisor_actor supervisor;
  std::vector<numbered_rank> ranks;
  /// Results of the ranks of this process that have ended the current run, for the supervisor
  std::shared_ptr<rank_reports> reports;
  size_t running = 0;  ///< number of ranks that have not ended the current run
  uint64_t run = 0;
};

/// Makes the behavior of a node agent. `ranks` returns the handles of this process's ranks; it is called at the first
/// message, when all ranks are spawned.
node_agent_actor::behavior_type node_agent_impl(node_agent_actor::stateful_pointer<node_agent_state> self,
                                                supervisor_actor supervisor,
                                                std::function<std::vector<numbered_rank>()> ranks) {
  self->state.supervisor = std::move(supervisor);
  be_robust(self, [](auto* me, const std::string& text) {
    me->send(me->state.supervisor, run_failed{core::error_kind::bug, "node agent: " + text});
  });
  self->set_down_handler([self](caf::down_msg& d) {
    auto& s = self->state;
    if (s.supervisor.address() == d.source) {
      const give_up m{core::error_kind::stopped, "supervisor ended: " + self->system().render(d.reason)};
      for (const auto& r : s.ranks) self->send(r.actor, m);
    }
    for (const auto& r : s.ranks)
      if (r.actor.address() == d.source)
        self->send(s.supervisor, run_failed{core::error_kind::peer_lost, fmt::format("rank {} ended: {}", r.number,
                                                                                     self->system().render(d.reason))});
  });
  self->monitor(self->state.supervisor);
  return {
      [self, ranks = std::move(ranks)](const run_plan& m) {
        auto& s = self->state;
        if (s.ranks.empty()) {
          s.ranks = ranks();
          for (const auto& r : s.ranks) self->monitor(r.actor);
        }
        s.run = m.order->run;
        s.reports = std::make_shared<rank_reports>();
        s.running = s.ranks.size();
        for (const auto& r : s.ranks) self->send(r.actor, m);
      },
      [self](const rank_ended& m) {
        auto& s = self->state;
        if (m.context->order.run != s.run) return;
        s.reports->push_back(report_of(*m.context));
        if (--s.running > 0) return;
        std::ranges::sort(*s.reports, {}, &rank_report::rank);
        self->send(s.supervisor, node_ended{s.run, std::move(s.reports)});
      },
      [self](const run_failed& m) { self->send(self->state.supervisor, m); },
      [self](const give_up& m) {
        for (const auto& r : self->state.ranks) self->send(r.actor, m);
      },
  };
}

using maker = std::function<std::unique_ptr<executor>()>;

/// Spawns an actor with a thread of its own. CAF 0.17 counts the actor and the thread before it starts the thread, and
/// does not reduce the counts if the system refuses the thread; the actor system's end would then wait for ever, so
/// this function reduces them. The refused actor is never freed, so `assemble` frees its arguments.
template <class... Ts>
auto spawn_on_thread(caf::actor_system& system, Ts&&... xs) {
  try {
    return system.spawn<caf::detached>(std::forward<Ts>(xs)...);
  } catch (const std::system_error&) {
    system.dec_detached_threads();
    system.registry().dec_running();
    throw;
  }
}

/// Spawns the lane actors of a rank. If the rank computes several chunks (stages of a pipelined model), its compute
/// lane consists of one actor for each chunk, and these actors share one thread. `own`: true if lanes have threads of
/// their own.
void spawn_lanes(caf::actor_system& system, rank_parts& r, std::vector<std::shared_ptr<maker>>& makers, bool own) {
  auto& made = r.links->lanes;
  made.resize(r.lanes.size());
  std::optional<stage_thread> shared;
  if (own && made.size() > plan::num_lanes) shared.emplace(system);
  for (uint32_t seat = 1; seat < made.size(); ++seat) {
    const uint32_t chunk = seat < plan::num_lanes ? 0 : seat - plan::num_lanes + 1;
    const auto which = chunk > 0 ? plan::lane::compute : static_cast<plan::lane>(seat);
    const maker make = [mine = makers.emplace_back(std::make_shared<maker>(std::move(r.lanes[seat])))] {
      return (*mine)();
    };
    if (shared && which == plan::lane::compute)
      made[seat] = shared->spawn(chunk, make, r.links);
    else
      made[seat] = own ? spawn_on_thread(system, lane_impl, which, chunk, make, r.links)
                       : system.spawn(lane_impl, which, chunk, make, r.links);
  }
}

void spawn_all(const std::shared_ptr<company>& made, caf::actor_system& system, std::vector<rank_parts>& ranks,
               std::vector<std::shared_ptr<maker>>& makers, loader_setup loader, telemetry_source telemetry,
               lane_threads threads) {
  auto& c = *made;
  const bool own = threads == lane_threads::own;
  // The functions below return the handles of other actors when an actor receives its first message; all actors are
  // spawned by then. `later` is a weak pointer, because the company refers to the actors that own these functions.
  const std::weak_ptr<company> later = made;
  c.loader = system.spawn(loader_impl, std::move(loader));
  // The telemetry actor waits for files, which must not block a worker of the scheduler, so it gets a thread of its
  // own.
  if (telemetry.existing)
    c.telemetry = telemetry.existing;
  else
    c.telemetry = own ? spawn_on_thread(system, telemetry_impl, std::move(telemetry.setup))
                      : system.spawn(telemetry_impl, std::move(telemetry.setup));
  c.supervisor = system.spawn(supervisor_impl, [later] {
    const auto all = later.lock();
    return all ? all->agent : node_agent_actor{};
  });
  c.agent = system.spawn(node_agent_impl, c.supervisor, [later] {
    std::vector<numbered_rank> out;
    if (const auto all = later.lock())
      for (size_t i = 0; i < all->ranks.size(); ++i) out.push_back({all->numbers[i], all->ranks[i]->rank});
    return out;
  });
  for (auto& r : ranks) {
    c.ranks.push_back(r.links);
    c.numbers.push_back(r.setup.rank);
    spawn_lanes(system, r, makers, own);
    r.links->rank = system.spawn(rank_impl, std::move(r.setup), r.links, c.agent, c.loader);
  }
}

}  // namespace

core::result<std::shared_ptr<company>> assemble(caf::actor_system& system, std::vector<rank_parts> ranks,
                                                loader_setup loader, telemetry_source telemetry, lane_threads threads) {
  const host_thread here;
  const bool is_shared = static_cast<bool>(telemetry.existing);
  auto c = std::make_shared<company>();
  std::vector<std::shared_ptr<maker>> makers;
  try {
    spawn_all(c, system, ranks, makers, std::move(loader), std::move(telemetry), threads);
  } catch (const std::system_error& e) {
    if (is_shared) c->telemetry = telemetry_actor();
    dismiss_and_wait(system, *c);
    for (const auto& m : makers) *m = nullptr;
    for (const auto& r : ranks) *r.links = {};
    return core::fail(core::error_kind::limit,
                      fmt::format("threads: wanted {} for the lanes of {} ranks, the system refused one: {}",
                                  threads_of(ranks.size()), ranks.size(), e.what()));
  }
  return c;
}

void dismiss(const company& c) {
  for_each_actor(c, [](const auto& handle) { caf::anon_send_exit(handle, caf::exit_reason::kill); });
}

// Decides by CAF's flag is_cleaned_up whether an actor has ended, because an actor that lacks memory at its end may
// send no down_msg (CAF 0.17 does not send it again). A down_msg that arrives only shortens a wait of look_interval.
void dismiss_and_wait(caf::actor_system& system, const company& c) {
  constexpr std::chrono::milliseconds look_interval{50};
  const int64_t begin_ns = core::now_ns();
  const host_caller self(system);
  std::vector<caf::strong_actor_ptr> alive;
  for_each_actor(c, [&](const auto& handle) {
    self->monitor(handle);
    alive.push_back(caf::actor_cast<caf::strong_actor_ptr>(handle));
  });
  dismiss(c);
  const auto has_ended = [](const caf::strong_actor_ptr& x) {
    return x->get()->getf(caf::abstract_actor::is_cleaned_up_flag);
  };
  for (std::erase_if(alive, has_ended); !alive.empty(); std::erase_if(alive, has_ended)) {
    self->receive([](const caf::down_msg&) {}, caf::after(look_interval) >> [] {});
    const bool is_broken = allocation_has_failed || std::uncaught_exceptions() > 0;
    if (is_broken && core::now_ns() - begin_ns > dismissal_ns_max)
      throw std::runtime_error("memory ran out in the actor system, and an actor of this process cannot be ended");
  }
}

}  // namespace troupe::actors
