#include "actors/node_agent.hpp"

#include <algorithm>
#include <utility>

namespace troupe::actors {

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
        self->send(s.supervisor,
                   run_failed{core::error_kind::peer_lost,
                              "rank " + std::to_string(r.number) + " ended: " + self->system().render(d.reason)});
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

}  // namespace troupe::actors
