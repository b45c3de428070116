#include "actors/rank.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <span>
#include <utility>

#include "core/text.hpp"
#include "plan/stage_place.hpp"

namespace troupe::actors {
namespace {

using rank_self = rank_actor::stateful_pointer<rank_state>;

// Returns "rank 2", or "rank 2 (stages 0 and 2)" if the model is cut into pipeline stages and a run has begun.
std::string own_name(const rank_state& s) {
  const auto stages = s.context ? plan::stages_text(*s.context->plan().layout, s.setup.rank) : std::string();
  return fmt::format("rank {}{}", s.setup.rank, stages.empty() ? "" : " (" + stages + ")");
}

// Returns the lane actors: all but seat 0, that of the control lane, which the rank actor runs itself.
std::span<const lane_actor> lanes_of(const rank_state& s) { return std::span(s.links->lanes).subspan(1); }

void report_failure(rank_self self, core::error_kind kind, const std::string& text) {
  auto& s = self->state;
  if (s.failed) return;
  s.failed = true;
  if (s.context) s.context->aborted = true;
  self->send(s.agent, run_failed{kind, own_name(s) + ": " + text});
}

// If another rank was lost during a run, tells the user what this rank's lanes were doing or waiting for. Called for
// failures of the rank's own lanes, too, which may detect the loss before the supervisor reports it.
void say_what_is_lost(rank_self self, core::error_kind kind, const std::string& text) {
  const auto& s = self->state;
  if (kind == core::error_kind::peer_lost && s.running && !s.failed && s.setup.tell)
    s.setup.tell(own_name(s) + ": " + text + ": " + explain_stall(*s.context, s.setup.missing));
}

void stop_lanes(rank_self self, const give_up& m) {
  auto& s = self->state;
  s.failed = true;
  if (s.context) s.context->aborted = true;
  for (const auto& lane : lanes_of(s)) self->send(lane, m);
}

void end_when_complete(rank_self self) {
  auto& s = self->state;
  if (!s.running || !s.control.all_ended()) return;
  const auto& orders = s.context->program->orders;
  for (uint32_t l = 1; l < orders.size(); ++l)
    if (s.ended[l] < orders[l].size()) return;
  s.running = false;
  (void)s.context->decide();  // computes the vote's result before the next run overwrites the votes
  if (s.setup.ended) s.setup.ended(*s.context);
  self->send(s.agent, rank_ended{s.setup.rank, s.context});
  if (const auto longest = longest_work(*s.context)) s.longest_work = std::max(s.longest_work, *longest);
}

void load_ended(rank_self self, uint32_t id, std::shared_ptr<const data::batch> batch) {
  auto& s = self->state;
  s.context->batches[s.context->plan().instructions[id].micro] = std::move(batch);
  s.context->spans[id].end_ns.store(now_ns(self), std::memory_order_relaxed);
  s.context->num_ended.fetch_add(1, std::memory_order_relaxed);
  s.control.ended(id);
  for (const uint32_t seat : s.context->program->told[id])
    self->send(s.links->lanes[seat], instruction_ended{s.context->order.run, id});
}

// Returns the request for the micro-batch of instruction `load`. In an evaluation, micro-batches are numbered over all
// runs, in place of steps.
next_batch batch_wanted(const rank_state& s, uint32_t load) {
  const auto& order = s.context->order;
  const uint32_t micro = s.context->plan().instructions[load].micro;
  const uint32_t data = s.context->plan().options().mesh.samples_at(s.setup.rank);
  if (s.which == plan::plan_choice::evaluate) return {order.run, order.step + micro, 0, data, s.which};
  return {order.run, order.step, micro, data, s.which};
}

// Runs the control lane: each `load` requests its micro-batch from the loader, or uses the batch that the order
// contains. Micro-batches that the order omits are not loaded.
void run_control(rank_self self) {
  auto& s = self->state;
  while (auto id = s.control.next()) {
    const uint32_t load = *id;
    const auto& order = s.context->order;
    s.context->spans[load].start_ns.store(now_ns(self), std::memory_order_relaxed);
    const uint32_t micro = s.context->plan().instructions[load].micro;
    if (!order.given.empty() || micro >= s.context->micros()) {
      const uint32_t position = s.context->plan().options().mesh.samples_at(s.setup.rank);
      load_ended(self, load, order.given_for(micro, position, s.context->micros()));
      continue;
    }
    const uint64_t run = order.run;
    // Requests without a time limit: a loader that waits for a slow disk is working, and the request to a dead one ends
    // with an error.
    self->request(s.loader, caf::infinite, batch_wanted(s, load))
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

// Sends this actor a delayed look_around, unless one is on its way: there is at most one, however many runs begin
// meanwhile. A look_around that was sent in an earlier run checks nothing when it arrives, and only sends the next one.
void watch(rank_self self) {
  auto& s = self->state;
  if (std::exchange(s.looks, true)) return;
  const auto every = s.setup.patience.stall_after / looks_per_stall;
  s.look_due_ns = now_ns(self) + every.count();
  self->delayed_send(self, every, look_around{s.context->order.run});
}

// Sets the functions by which the pulse board reads the rank's progress and the description of its lanes. They refer to
// the run weakly: without a run the pulse is empty.
void show_pulse(const rank_state& s) {
  if (s.setup.pulses == nullptr) return;
  s.setup.pulses->show(s.setup.rank,
                       [weak = std::weak_ptr(s.context), missing = s.setup.missing, longest = s.longest_work] {
                         const auto known = weak.lock();
                         return known ? pulse_of(*known, missing, longest) : pulse{};
                       });
  s.setup.pulses->explain(s.setup.rank, [weak = std::weak_ptr(s.context), missing = s.setup.missing] {
    const auto known = weak.lock();
    return known ? explain_stall(*known, missing) : std::string();
  });
}

void look(rank_self self) {
  auto& s = self->state;
  const int64_t now = now_ns(self);
  auto pulses =
      s.setup.pulses ? s.setup.pulses->look() : std::vector{pulse_of(*s.context, s.setup.missing, s.longest_work)};
  const uint64_t run = s.context->order.run;
  const bool culprit_is_elsewhere = std::ranges::any_of(pulses, [run, mine = activity_of(*s.context, s.setup.missing)](
                                                                    const pulse& x) { return x.doing_in(run) > mine; });
  const auto found = s.clock.look(now, s.look_due_ns, run, std::move(pulses), s.setup.patience);
  if (found != silence_clock::finding::stalled) s.looks_left = looks_per_stall;
  if (found == silence_clock::finding::fine) return;
  // If another rank computes, or waits for a disk or the loader, that rank is closer to the cause of the stall and
  // should report it; this rank reports only after it has let a limited number of looks pass.
  if (found == silence_clock::finding::stalled && culprit_is_elsewhere && s.looks_left-- > 0) return;
  const std::string text = core::text_of("nothing has ended for %.1f s: ", double(s.clock.quiet(now).count()) / 1e9) +
                           explain_stall(*s.context, s.setup.missing);
  if (found == silence_clock::finding::stalled) return report_failure(self, core::error_kind::stalled, text);
  // Only a rank whose own request causes the wait reports it; all other ranks wait for that rank.
  if (s.setup.tell && activity_of(*s.context, s.setup.missing) == activity::asking)
    s.setup.tell(own_name(s) + ": " + text + "; the run waits");
}

}  // namespace

rank_actor::behavior_type rank_impl(rank_self self, rank_setup setup, std::shared_ptr<rank_links> links,
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
    const auto& lanes = s.links->lanes;
    for (uint32_t l = 1; l < lanes.size(); ++l)
      if (lanes[l].address() == d.source)
        report_failure(self, core::error_kind::peer_lost,
                       name_of_seat(l, lanes.size()) + " ended: " + self->system().render(d.reason));
  });
  for (const auto& lane : lanes_of(s)) self->monitor(lane);
  self->monitor(s.agent);
  return {
      [self](const run_plan& m) {
        auto& s = self->state;
        if (s.failed) return;
        s.which = m.which;
        const auto& program = (*s.setup.programs)[static_cast<size_t>(m.which)];
        s.context = std::make_shared<step_context>(program, *m.order, s.setup.rules, s.setup.votes);
        s.running = true;
        s.clock.begin(now_ns(self));
        show_pulse(s);
        s.control.begin(program, plan::lane::control);
        s.control.extend(s.control.size());
        assert(program->orders.size() == s.links->lanes.size());
        s.ended.assign(s.links->lanes.size(), 0);
        s.window.assign(s.links->lanes.size(), s.setup.window);
        for (const auto& lane : lanes_of(s)) self->send(lane, begin_run{s.context, s.setup.window});
        run_control(self);
        watch(self);
      },
      [self](const lane_progress& m) {
        auto& s = self->state;
        if (!s.running || m.run != s.context->order.run) return;
        s.ended[m.seat] = m.num_ended;
        const auto size = static_cast<uint32_t>(s.context->program->orders[m.seat].size());
        if (s.window[m.seat] < size) {
          s.window[m.seat] = std::min(size, m.num_ended + s.setup.window);
          self->send(s.links->lanes[m.seat], extend_window{m.run, s.window[m.seat]});
        }
        end_when_complete(self);
      },
      [self](const run_failed& m) {
        say_what_is_lost(self, m.kind, m.text);
        report_failure(self, m.kind, m.text);
      },
      [self](const give_up& m) {
        say_what_is_lost(self, m.kind, m.text);
        stop_lanes(self, m);
      },
      [self](const look_around& m) {
        auto& s = self->state;
        s.looks = false;
        if (!s.running || s.failed) return;
        if (m.run == s.context->order.run) look(self);
        watch(self);
      },
  };
}

}  // namespace troupe::actors
