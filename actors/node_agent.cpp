#include "actors/node_agent.hpp"

#include <utility>

namespace troupe::actors {

node_agent_actor::behavior_type node_agent_impl(node_agent_actor::stateful_pointer<node_agent_state> self,
                                                supervisor_actor supervisor,
                                                std::function<std::vector<rank_actor>()> ranks) {
  self->state.supervisor = std::move(supervisor);
  be_robust(self, [](auto* me, const std::string& text) {
    me->send(me->state.supervisor, run_failed{core::error_kind::bug, "node agent: " + text});
  });
  self->set_down_handler([self](caf::down_msg& d) {
    auto& s = self->state;
    if (s.supervisor.address() == d.source) {
      const give_up m{core::error_kind::stopped, "supervisor ended: " + self->system().render(d.reason)};
      for (const auto& r : s.ranks) self->send(r, m);
    }
    for (size_t r = 0; r < s.ranks.size(); ++r)
      if (s.ranks[r].address() == d.source)
        self->send(s.supervisor, run_failed{core::error_kind::peer_lost, "rank " + std::to_string(r) + " ended: " +
                                                                             self->system().render(d.reason)});
  });
  self->monitor(self->state.supervisor);
  return {
      [self, ranks = std::move(ranks)](const run_plan& m) {
        auto& s = self->state;
        if (s.ranks.empty()) {
          s.ranks = ranks();
          for (const auto& r : s.ranks) self->monitor(r);
        }
        s.run = m.order->run;
        s.reports = std::make_shared<rank_reports>(s.ranks.size());
        s.running = s.ranks.size();
        for (const auto& r : s.ranks) self->send(r, m);
      },
      [self](const rank_ended& m) {
        auto& s = self->state;
        if (m.context->order.run != s.run) return;
        (*s.reports)[m.rank] = report_of(*m.context);
        if (--s.running == 0) self->send(s.supervisor, node_ended{s.run, std::move(s.reports)});
      },
      [self](const run_failed& m) { self->send(self->state.supervisor, m); },
      [self](const give_up& m) {
        for (const auto& r : self->state.ranks) self->send(r, m);
      },
  };
}

}  // namespace troupe::actors
