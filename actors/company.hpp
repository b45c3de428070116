// Spawns all actors of one process, which together are called its company. Owns which of them get a thread of their
// own.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "actors/lane.hpp"
#include "actors/loader.hpp"
#include "actors/memberships.hpp"
#include "actors/rank.hpp"
#include "actors/telemetry.hpp"

namespace troupe::actors {

/// Input of assemble() for one rank: its setup, functions that make the executors of its lanes (real ones, or modelled
/// ones in a simulation), and the object that receives the handles of its actors.
struct rank_parts {
  rank_setup setup;
  /// [seat, the number of a lane actor within its rank]: function that makes the executor of that lane actor. Must have
  /// num_seats() elements; the control lane's element stays empty, because the rank actor runs that lane.
  std::vector<std::function<std::unique_ptr<executor>()>> lanes =
      std::vector<std::function<std::unique_ptr<executor>()>>(plan::num_lanes);
  std::shared_ptr<rank_links> links = std::make_shared<rank_links>();
};

/// Sets `x` up for `rank` and joins the rank to those communicators of `all` that list it as a member: `join`
/// (communicator, member, waker) returns a membership. When a collective completes, a message wakes the rank's fabric
/// lane; the detection of stalls asks the memberships which ranks are missing. Returns the memberships, which the
/// fabric lane's executor must own, so that they end with it.
memberships join_fabric(rank_parts& x, uint32_t rank, const std::vector<plan::communicator>& all, auto join) {
  x.setup.rank = rank;
  memberships out(all.size());
  std::vector<std::pair<std::weak_ptr<fabric::communicator>, std::vector<uint32_t>>> known(all.size());
  for (uint32_t c = 0; c < all.size(); ++c) {
    const auto& ranks = all[c].members;
    const auto mine = std::ranges::lower_bound(ranks, rank);
    if (mine == ranks.end() || *mine != rank) continue;
    const auto wake_lane = [c, links = std::weak_ptr(x.links)](uint64_t sequence) {
      const uint64_t number = collective_id{c, sequence}.number();
      if (const auto l = links.lock()) post(l->lanes[static_cast<size_t>(plan::lane::fabric)], wake{number});
    };
    out[c] = join(c, static_cast<uint32_t>(mine - ranks.begin()), wake_lane);
    known[c] = {out[c], ranks};
  }
  x.setup.missing = [known = std::move(known)](const collective_id& m) {
    const auto& [weak, ranks] = known[m.communicator];
    const auto member = weak.lock();
    if (!member) return std::vector<uint32_t>{};
    auto who = member->missing(m.sequence);
    for (auto& r : who) r = ranks[r];
    return who;
  };
  return out;
}

/// Returns the `join` argument of join_fabric() for `groups`: groups of fabric/ of one kind, one for each communicator.
/// The groups must outlive the function.
template <class Group>
auto join_of(const std::vector<std::shared_ptr<Group>>& groups) {
  return [&groups](uint32_t c, uint32_t member, const fabric::waker& wake) { return groups[c]->join(member, wake); };
}

/// Handles of all actors of one process, unchanged once assembled. Destroying this object only releases the handles;
/// dismiss() ends the actors.
struct company {
  supervisor_actor supervisor;
  node_agent_actor agent;
  loader_actor loader;
  telemetry_actor telemetry;
  std::vector<std::shared_ptr<rank_links>> ranks;  ///< handles of the actors of each rank of this process, by rank
  std::vector<uint32_t> numbers;                   ///< [index in `ranks`]: number of the rank in the job
};

/// Selects the threads of the lane actors and of the telemetry actor. `own`: each of them has a thread of its own, but
/// the compute-lane actors of one rank (its pipeline stages) share one. `scheduler`: they run on the actor system's
/// scheduler like all other actors, as in a simulation.
enum class lane_threads : uint8_t { own, scheduler };

/// The telemetry actor of a company: `existing`, which an earlier company of the same run has made, or, if that is
/// empty, a new actor made from `setup`.
struct telemetry_source {
  telemetry_setup setup{};
  telemetry_actor existing{};
};

/// Spawns the actors of a company: loader, telemetry, supervisor, node agent, and for each rank the rank actor and its
/// lanes. Errors: limit if the system refuses a thread; all spawned actors have then ended.
core::result<std::shared_ptr<company>> assemble(caf::actor_system& system, std::vector<rank_parts> ranks,
                                                loader_setup loader, telemetry_source telemetry, lane_threads threads);

/// Returns the number of threads that the actors of a process with `ranks` ranks own: one for each lane but control,
/// and one for telemetry.
constexpr size_t threads_of(size_t ranks) { return ranks * (plan::num_lanes - 1) + 1; }

/// Calls `visit` with the handle of every actor of the company.
void for_each_actor(const company& c, auto&& visit) {
  const auto there = [&](const auto& handle) {
    if (handle) visit(handle);
  };
  for (const auto& r : c.ranks) {
    there(r->rank);
    for (const auto& lane : r->lanes) there(lane);
  }
  there(c.agent);
  there(c.supervisor);
  there(c.telemetry);
  there(c.loader);
}

/// Kills every actor of the company, at once or after its current message. Call before the actor system ends, because
/// its end waits for the actors' threads. The handles stay valid until the actor system has ended, since lanes that
/// still run read them.
void dismiss(const company& c);

/// Longest time in nanoseconds that dismiss_and_wait() waits for actors to end if memory has run out in the process;
/// without that failure the wait has no limit.
inline constexpr int64_t dismissal_ns_max = 5'000'000'000;

/// Kills every actor of the company and waits until all have ended. Must not run on a thread of these actors. Throws
/// std::runtime_error if an allocation has failed in an actor or an exception is being handled, and some actor has not
/// ended after dismissal_ns_max: it cannot be ended, so the process has to end.
void dismiss_and_wait(caf::actor_system& system, const company& c);

}  // namespace troupe::actors
