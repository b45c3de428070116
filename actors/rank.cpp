#include "actors/rank.hpp"

#include <algorithm>
#include <cassert>
#include <cstdio>

namespace troupe::actors {
namespace {

using self_ptr = rank_actor::stateful_pointer<rank_state>;

void report_failure(self_ptr self, core::error_kind kind, const std::string& text) {
  auto& s = self->state;
  if (s.failed) return;
  s.failed = true;
  if (s.context) s.context->aborted = true;
  self->send(s.agent, run_failed{kind, "rank " + std::to_string(s.setup.rank) + ": " + text});
}

void stop_lanes(self_ptr self, const give_up& m) {
  auto& s = self->state;
  s.failed = true;
  if (s.context) s.context->aborted = true;
  for (uint32_t l = 1; l < plan::num_lanes; ++l) self->send(s.links->lanes[l], m);
}

void end_when_complete(self_ptr self) {
  auto& s = self->state;
  if (!s.running || !s.control.all_ended()) return;
  const auto& lanes = s.context->plan().lanes;
  for (uint32_t l = 1; l < plan::num_lanes; ++l)
    if (s.ended[l] < lanes[l].size()) return;
  s.running = false;
  self->send(s.agent, rank_ended{s.setup.rank, s.context});
}

void load_ended(self_ptr self, uint32_t id, std::shared_ptr<const data::batch> batch) {
  auto& s = self->state;
  s.context->batches[s.context->plan().instructions[id].micro] = std::move(batch);
  s.context->spans[id].end_ns.store(now_ns(self), std::memory_order_relaxed);
  s.context->num_ended.fetch_add(1, std::memory_order_relaxed);
  s.control.ended(id);
  const uint8_t waiting = s.context->program->lanes_waiting[id];
  for (uint32_t l = 1; l < plan::num_lanes; ++l)
    if ((waiting >> l) & 1U) self->send(s.links->lanes[l], instruction_ended{s.context->order.run, id});
}

// The control lane: loads ask the loader, or take what the order brought along.
void run_control(self_ptr self) {
  auto& s = self->state;
  while (auto id = s.control.next()) {
    const uint32_t load = *id;
    const auto& order = s.context->order;
    s.context->spans[load].start_ns.store(now_ns(self), std::memory_order_relaxed);
    if (order.given) {
      load_ended(self, load, order.given);
      continue;
    }
    const uint64_t run = order.run;
    self->request(s.loader, batch_timeout,
                  next_batch{run, order.step, s.context->plan().instructions[load].micro, s.setup.rank, s.which})
        .then(
            [self, load, run](const batch_ready& m) {
              if (m.run != self->state.context->order.run || m.run != run) return;
              load_ended(self, load, m.batch);
              end_when_complete(self);
            },
            [self](caf::error& e) {
              report_failure(self, core::error_kind::peer_lost, "loader: no batch: " + self->system().render(e));
            });
  }
  end_when_complete(self);
}

void watch(self_ptr self) {
  self->delayed_send(self, self->state.setup.stall_after / 4, look_around{self->state.context->order.run});
}

}  // namespace

std::string explain_stall(const step_context& context, const std::function<std::vector<uint32_t>(uint64_t)>& missing) {
  const auto& p = context.plan();
  std::string out;
  for (const auto& order : p.lanes) {
    const auto stuck = std::find_if(order.begin(), order.end(), [&](uint32_t id) {
      return context.spans[id].end_ns.load(std::memory_order_relaxed) == 0;
    });
    if (stuck == order.end()) continue;
    const auto& x = p.instructions[*stuck];
    if (!out.empty()) out += "; ";
    out += std::string(plan::name_of(x.lane)) + " lane ";
    if (context.spans[x.id].start_ns.load(std::memory_order_relaxed) == 0) {
      out += "waits to start " + p.describe(x.id);
      for (uint32_t on : x.after)
        if (context.spans[on].end_ns.load(std::memory_order_relaxed) == 0) {
          out += " until " + p.describe(on) + " has ended";
          break;
        }
      continue;
    }
    out += "is in " + p.describe(x.id);
    if (x.sequence == plan::none) continue;
    const auto who = missing ? missing(context.order.sequence_base + x.sequence) : std::vector<uint32_t>{};
    for (size_t i = 0; i < who.size(); ++i)
      out += (i == 0 ? " and waits for rank " : i + 1 == who.size() ? " and " : ", ") + std::to_string(who[i]);
  }
  return out;
}

rank_actor::behavior_type rank_impl(self_ptr self, rank_setup setup, std::shared_ptr<rank_links> links,
                                    node_agent_actor agent, loader_actor loader) {
  auto& s = self->state;
  s.setup = std::move(setup);
  assert(s.setup.window >= progress_batch);
  s.links = std::move(links);
  s.agent = std::move(agent);
  s.loader = std::move(loader);
  be_robust(self, [](auto* me, const std::string& text) { report_failure(me, core::error_kind::bug, text); });
  self->set_down_handler([self](caf::down_msg& d) {
    auto& s = self->state;
    if (s.agent.address() == d.source)
      return stop_lanes(self, {core::error_kind::stopped, "node agent ended: " + self->system().render(d.reason)});
    for (uint32_t l = 1; l < plan::num_lanes; ++l)
      if (s.links->lanes[l].address() == d.source)
        report_failure(
            self, core::error_kind::peer_lost,
            std::string(plan::name_of(static_cast<plan::lane>(l))) + " lane ended: " + self->system().render(d.reason));
  });
  for (uint32_t l = 1; l < plan::num_lanes; ++l) self->monitor(s.links->lanes[l]);
  self->monitor(s.agent);
  return {
      [self](const run_plan& m) {
        auto& s = self->state;
        if (s.failed) return;
        s.which = m.which;
        const auto& program = s.setup.programs[static_cast<size_t>(m.which)];
        s.context = std::make_shared<step_context>(program, *m.order, s.setup.rules);
        s.running = true;
        s.seen_ended = 0;
        s.quiet_since = self->clock().now();
        s.control.begin(program, plan::lane::control);
        s.control.extend(s.control.size());
        for (uint32_t l = 1; l < plan::num_lanes; ++l) {
          s.ended[l] = 0;
          s.window[l] = s.setup.window;
          self->send(s.links->lanes[l], begin_run{s.context, s.window[l]});
        }
        run_control(self);
        watch(self);
      },
      [self](const lane_progress& m) {
        auto& s = self->state;
        if (!s.running || m.run != s.context->order.run) return;
        s.ended[m.lane] = m.num_ended;
        const auto size = static_cast<uint32_t>(s.context->plan().lanes[m.lane].size());
        if (s.window[m.lane] < size) {
          s.window[m.lane] = std::min(size, m.num_ended + s.setup.window);
          self->send(s.links->lanes[m.lane], extend_window{m.run, s.window[m.lane]});
        }
        end_when_complete(self);
      },
      [self](const run_failed& m) { report_failure(self, m.kind, m.text); },
      [self](const give_up& m) { stop_lanes(self, m); },
      [self](const look_around& m) {
        auto& s = self->state;
        if (!s.running || s.failed || m.run != s.context->order.run) return;
        const auto now = self->clock().now();
        const uint64_t ended = s.context->num_ended.load(std::memory_order_relaxed);
        if (ended != s.seen_ended) {
          s.seen_ended = ended;
          s.quiet_since = now;
        } else if (now - s.quiet_since >= s.setup.stall_after) {
          const double quiet_s = std::chrono::duration<double>(now - s.quiet_since).count();
          char head[64];
          std::snprintf(head, sizeof head, "nothing has ended for %.1f s: ", quiet_s);
          return report_failure(self, core::error_kind::stalled, head + explain_stall(*s.context, s.setup.missing));
        }
        watch(self);
      },
  };
}

}  // namespace troupe::actors
