#include "actors/company.hpp"

#include <system_error>

#include "actors/host_thread.hpp"
#include "actors/node_agent.hpp"
#include "actors/supervisor.hpp"

namespace troupe::actors {
namespace {

using maker = std::function<std::unique_ptr<executor>()>;

/// CAF 0.17 counts an actor and its thread before it starts the thread. If the thread is refused, the counts are not
/// taken back, the system's end waits for both for ever, and the actor is never freed: `assemble` empties its
/// arguments.
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

void spawn_all(const std::shared_ptr<company>& made, caf::actor_system& system, std::vector<rank_parts>& ranks,
               std::vector<std::shared_ptr<maker>>& makers, loader_setup loader, telemetry_setup telemetry,
               lane_threads threads) {
  auto& c = *made;
  const bool own = threads == lane_threads::own;
  // Actors ask for each other's handles at their first message: by then all are spawned. Weak, to avoid a cycle.
  const std::weak_ptr<company> later = made;
  c.loader = system.spawn(loader_impl, std::move(loader));
  // It waits for files: no worker of the scheduler does.
  c.telemetry = own ? spawn_on_thread(system, telemetry_impl, std::move(telemetry))
                    : system.spawn(telemetry_impl, std::move(telemetry));
  c.supervisor = system.spawn(supervisor_impl, [later] {
    const auto all = later.lock();
    return all ? all->agent : node_agent_actor{};
  });
  c.agent = system.spawn(node_agent_impl, c.supervisor, [later] {
    std::vector<rank_actor> out;
    if (const auto all = later.lock())
      for (const auto& r : all->ranks) out.push_back(r->rank);
    return out;
  });
  for (auto& r : ranks) {
    c.ranks.push_back(r.links);
    r.links->lanes.resize(r.lanes.size());
    for (seat l = 1; l < r.lanes.size(); ++l) {
      const maker make = [mine = makers.emplace_back(std::make_shared<maker>(std::move(r.lanes[l])))] {
        return (*mine)();
      };
      r.links->lanes[l] =
          own ? spawn_on_thread(system, lane_impl, l, make, r.links) : system.spawn(lane_impl, l, make, r.links);
    }
    r.links->rank = system.spawn(rank_impl, std::move(r.setup), r.links, c.agent, c.loader);
  }
}

}  // namespace

core::result<std::shared_ptr<company>> assemble(caf::actor_system& system, std::vector<rank_parts> ranks,
                                                loader_setup loader, telemetry_setup telemetry, lane_threads threads) {
  const host_thread here;
  auto c = std::make_shared<company>();
  std::vector<std::shared_ptr<maker>> makers;
  try {
    spawn_all(c, system, ranks, makers, std::move(loader), std::move(telemetry), threads);
  } catch (const std::system_error& e) {
    dismiss_and_wait(system, *c);
    for (const auto& m : makers) *m = nullptr;
    for (const auto& r : ranks) *r.links = {};
    size_t wanted = 1;
    for (const auto& r : ranks) wanted += r.lanes.size() - 1;
    return core::fail(core::error_kind::limit, "threads: wanted " + std::to_string(wanted) +
                                                   " for the lanes of " + std::to_string(ranks.size()) +
                                                   " ranks, the system refused one: " + e.what());
  }
  return c;
}

size_t threads_of(const plan::plan_options& job) {
  const size_t stages = std::max<size_t>(1, job.pipeline.first_unit.size());  // one of each for every whole pipeline
  const size_t pipelines = job.ranks() / job.mesh.degree(core::axis::pipeline);
  constexpr size_t others = plan::num_lanes - 2;  // of a rank, without control and compute
  return pipelines * stages + job.ranks() * others + 1;
}

void dismiss(const company& c) {
  for_each_actor(c, [](const auto& handle) { caf::anon_send_exit(handle, caf::exit_reason::kill); });
}

void dismiss_and_wait(caf::actor_system& system, const company& c) {
  const host_caller self(system);
  size_t alive = 0;
  for_each_actor(c, [&](const auto& handle) {
    self->monitor(handle);
    ++alive;
  });
  dismiss(c);
  for (size_t i = 0; i < alive; ++i) self->receive([](const caf::down_msg&) {});
}

}  // namespace troupe::actors
