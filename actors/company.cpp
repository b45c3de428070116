#include "actors/company.hpp"

#include "actors/node_agent.hpp"
#include "actors/supervisor.hpp"

namespace troupe::actors {

std::shared_ptr<company> assemble(caf::actor_system& system, std::vector<rank_parts> ranks, loader_setup loader,
                                  telemetry_setup telemetry, bool threads) {
  auto c = std::make_shared<company>();
  // Actors ask for each other at their first message: by then all are spawned. Weak, so that no cycle keeps them.
  std::weak_ptr<company> later = c;
  c->loader = system.spawn(loader_impl, std::move(loader));
  // It waits for files: no worker of the scheduler does.
  c->telemetry = threads ? system.spawn<caf::detached>(telemetry_impl, std::move(telemetry))
                         : system.spawn(telemetry_impl, std::move(telemetry));
  c->supervisor = system.spawn(supervisor_impl, [later] {
    const auto all = later.lock();
    return all ? all->agent : node_agent_actor{};
  });
  c->agent = system.spawn(node_agent_impl, c->supervisor, [later] {
    std::vector<rank_actor> out;
    if (const auto all = later.lock())
      for (const auto& r : all->ranks) out.push_back(r->rank);
    return out;
  });
  for (auto& r : ranks) {
    for (uint32_t l = 1; l < plan::num_lanes; ++l) {
      const auto which = static_cast<plan::lane>(l);
      r.links->lanes[l] = threads ? system.spawn<caf::detached>(lane_impl, which, std::move(r.lanes[l]), r.links)
                                  : system.spawn(lane_impl, which, std::move(r.lanes[l]), r.links);
    }
    r.links->rank = system.spawn(rank_impl, std::move(r.setup), r.links, c->agent, c->loader);
    c->ranks.push_back(r.links);
  }
  return c;
}

void dismiss(const company& c) {
  for_each_actor(c, [](const auto& handle) { caf::anon_send_exit(handle, caf::exit_reason::kill); });
}

}  // namespace troupe::actors
