// Assembles the actors of one process. Owns the decision which of them get a thread of their own.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "actors/lane.hpp"
#include "actors/loader.hpp"
#include "actors/meetings.hpp"
#include "actors/rank.hpp"
#include "actors/telemetry.hpp"

namespace troupe::actors {

/// The parts of one rank. The caller makes the executors: real ones or modelled ones.
struct rank_parts {
  rank_setup setup;
  /// Functions that make the executors, by seat, as many as the programs have seats (num_seats); the function of the
  /// control lane stays empty.
  std::vector<std::function<std::unique_ptr<executor>()>> lanes =
      std::vector<std::function<std::unique_ptr<executor>()>>(plan::num_lanes);
  std::shared_ptr<rank_links> links = std::make_shared<rank_links>();
};

/// Sets the parts up for `rank`, which joins its communicators among `all`: `join` (communicator, member, waker)
/// returns a membership. Completions wake the collective lane, and the detection of stalls reads the missing ranks from
/// the memberships. Returns the memberships, which the lane's executor must own, so that they end with it.
template <class Join>
memberships join_fabric(rank_parts& x, uint32_t rank, const std::vector<plan::communicator>& all, Join join) {
  x.setup.rank = rank;
  memberships out(all.size());
  std::vector<std::pair<std::weak_ptr<fabric::communicator>, std::vector<uint32_t>>> known(all.size());
  for (uint32_t c = 0; c < all.size(); ++c) {
    const auto& ranks = all[c].members;
    const auto mine = std::ranges::lower_bound(ranks, rank);
    if (mine == ranks.end() || *mine != rank) continue;
    const auto wake_lane = [c, links = std::weak_ptr(x.links)](uint64_t sequence) {
      const uint64_t number = meeting_id{c, sequence}.number();
      if (const auto l = links.lock()) post(l->lanes[static_cast<size_t>(plan::lane::fabric)], wake{number});
    };
    out[c] = join(c, static_cast<uint32_t>(mine - ranks.begin()), wake_lane);
    known[c] = {out[c], ranks};
  }
  x.setup.missing = [known = std::move(known)](const meeting_id& m) {
    const auto& [weak, ranks] = known[m.communicator];
    const auto member = weak.lock();
    if (!member) return std::vector<uint32_t>{};
    auto who = member->missing(m.sequence);
    for (auto& r : who) r = ranks[r];
    return who;
  };
  return out;
}

/// Returns a `join` function for groups of fabric/ of one kind, one group for each communicator. The groups must
/// outlive the function.
template <class Group>
auto join_of(const std::vector<std::shared_ptr<Group>>& groups) {
  return [&groups](uint32_t c, uint32_t member, const fabric::waker& wake) { return groups[c]->join(member, wake); };
}

/// Handles of all actors, unchanged once assembled. Destroying this object releases the handles; `dismiss` ends the
/// actors.
struct company {
  supervisor_actor supervisor;
  node_agent_actor agent;
  loader_actor loader;
  telemetry_actor telemetry;
  std::vector<std::shared_ptr<rank_links>> ranks;  ///< ranks of this process, in the order of their numbers
  std::vector<uint32_t> numbers;                   ///< [index in `ranks`]: number of the rank in the job
};

/// Threads of lanes and telemetry. `own`: each actor has a thread of its own, except that the stages of a rank share
/// one. `scheduler`: they run on the system's scheduler like all other actors (simulation).
enum class lane_threads : uint8_t { own, scheduler };

/// The source of the telemetry actor: `setup`, from which a new actor is made, or `existing`, an actor that the company
/// shares.
struct telemetry_source {
  telemetry_setup setup{};
  telemetry_actor existing{};
};

/// Spawns loader, telemetry, supervisor, node agent, ranks and lanes. Errors: limit if the system refuses a thread; all
/// actors have then ended.
core::result<std::shared_ptr<company>> assemble(caf::actor_system& system, std::vector<rank_parts> ranks,
                                                loader_setup loader, telemetry_source telemetry, lane_threads threads);

/// Returns the number of threads that the actors of a process with `ranks` ranks own.
constexpr size_t threads_of(size_t ranks) { return ranks * (plan::num_lanes - 1) + 1; }

/// Calls `visit` with the handle of every actor of the company.
template <class Visitor>
void for_each_actor(const company& c, Visitor&& visit) {
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
/// the system's end waits for the actors' threads. The handles stay valid until then, since lanes that still run read
/// them.
void dismiss(const company& c);

/// How long actors may take to end in a process in which memory has run out. Others have no limit.
inline constexpr int64_t dismissal_ns_max = 5'000'000'000;

/// Kills every actor of the company and waits until all have ended. Must not run on a thread of these actors. Throws
/// std::runtime_error if an allocation has failed in an actor or an exception is being handled, and some actor has not
/// ended after dismissal_ns_max: it cannot be ended, so the process has to end.
void dismiss_and_wait(caf::actor_system& system, const company& c);

}  // namespace troupe::actors
