#include "actors/lane.hpp"

#include <fmt/format.h>

#include <utility>

#include "core/system/float_environment.hpp"

namespace troupe::actors {
namespace {

using lane_self = lane_actor::stateful_pointer<lane_state>;

void fail(lane_self self, const core::error& why) {
  auto& s = self->state;
  if (s.failed) return;
  s.failed = true;
  if (s.hands) s.hands->abort(why);
  // Without the handle of its rank no message is sent; the rank then detects by its monitor that the lane has ended.
  if (s.links->rank) self->send(s.links->rank, run_failed{why.kind, why.text});
}

void finish(lane_self self, uint32_t id) {
  auto& s = self->state;
  s.context->spans[id].end_ns.store(now_ns(self), std::memory_order_relaxed);
  s.context->num_ended.fetch_add(1, std::memory_order_relaxed);
  const uint64_t run = s.context->order.run;
  for (const uint32_t seat : s.context->program->told[id]) self->send(s.links->lanes[seat], instruction_ended{run, id});
  s.order.ended(id);
  const bool all_ended = s.order.all_ended();
  if (all_ended)
    if (auto ok = s.hands->settle(); !ok) return fail(self, ok.error());
  if (s.order.num_ended() - s.reported >= progress_batch || all_ended) {
    s.reported = s.order.num_ended();
    self->send(s.links->rank, lane_progress{run, seat_of(s.mine, s.chunk), s.reported});
  }
}

// If the lane may start instructions before earlier ones have ended (fabric, io), adds the interval from `begin_ns`
// until now to step_context::worked, the times in which the lane itself was busy. Must be called before the run has
// ended, because other threads read `worked` after that.
void note_work(lane_self self, int64_t begin_ns) {
  auto& s = self->state;
  if (plan::starts_ahead(s.mine)) s.context->worked[static_cast<size_t>(s.mine)].push_back({begin_ns, now_ns(self)});
}

// Starts every instruction of the lane that may start now, also those whose last dependency ends during this call. The
// fabric and io lanes start an instruction while earlier ones are pending; every other lane runs one instruction at a
// time, on which the plan's checker relies.
void pump(lane_self self) {
  auto& s = self->state;
  while (!s.failed && !s.context->aborted.load(std::memory_order_relaxed)) {
    if (s.num_pending > 0 && !plan::starts_ahead(s.mine)) return;
    const auto id = s.order.next();
    if (!id) return;
    auto& began = s.context->spans[*id].start_ns;
    began.store(now_ns(self), std::memory_order_relaxed);
    auto did = s.hands->start(s.context->plan().instructions[*id]);
    note_work(self, began.load(std::memory_order_relaxed));
    if (!did) return fail(self, did.error().in(s.context->plan().describe(*id)));
    if (*did == progress::done)
      finish(self, *id);
    else
      ++s.num_pending;
  }
}

}  // namespace

std::string name_of_seat(uint32_t seat, size_t seats) {
  const auto compute = static_cast<uint32_t>(plan::lane::compute);
  const bool extra = seat >= plan::num_lanes;
  std::string out = std::string(plan::name_of(static_cast<plan::lane>(extra ? compute : seat))) + " lane";
  if (extra || (seat == compute && seats > plan::num_lanes))
    out += fmt::format(", chunk {}", extra ? seat + 1 - plan::num_lanes : 0);
  return out;
}

lane_actor::behavior_type lane_impl(lane_self self, plan::lane mine, uint32_t chunk,
                                    std::function<std::unique_ptr<executor>()> make_executor,
                                    std::shared_ptr<rank_links> links) {
  auto& s = self->state;
  s.mine = mine;
  s.chunk = chunk;
  s.links = std::move(links);
  be_robust(self, [](auto* me, const std::string& text) {
    const auto& s = me->state;
    const auto who = name_of_seat(seat_of(s.mine, s.chunk), s.links ? s.links->lanes.size() : plan::num_lanes);
    fail(me, {core::error_kind::bug, who + ": " + text});
  });
  s.hands = make_executor();
  s.hands->attach(
      [self](std::chrono::nanoseconds delay, uint64_t sequence) { self->delayed_send(self, delay, wake{sequence}); });
  return {
      [self](const begin_run& m) {
        core::keep_usual_float_environment();  // sets the floating-point mode, which the thread may lack
        auto& s = self->state;
        s.context = m.context;
        s.reported = s.num_pending = 0;
        if (plan::starts_ahead(s.mine))
          s.context->worked[static_cast<size_t>(s.mine)].reserve(
              2 * m.context->plan().lanes[static_cast<size_t>(s.mine)].size());
        s.order.begin(m.context->program, s.mine, s.chunk);
        s.order.extend(m.window);
        s.hands->begin(m.context);
        // Handles messages that arrived before this lane began the run. Messages of a later run are stored again: a run
        // ends without waiting for a lane that has no instructions in it, so another lane may be a run ahead.
        for (const auto& e : std::exchange(s.early, {})) {
          if (e.run == m.context->order.run) s.order.ended(e.id);
          if (e.run > m.context->order.run) s.early.push_back(e);
        }
        pump(self);
      },
      [self](const extend_window& m) {
        auto& s = self->state;
        if (!s.context || m.run != s.context->order.run) return;
        s.order.extend(m.window);
        pump(self);
      },
      [self](const instruction_ended& m) {
        auto& s = self->state;
        const uint64_t run = s.context ? s.context->order.run : 0;
        if (m.run > run) s.early.push_back(m);
        if (m.run != run) return;
        s.order.ended(m.id);
        pump(self);
      },
      [self](const wake& m) {
        auto& s = self->state;
        if (s.failed || !s.context) return;
        const int64_t begin = now_ns(self);
        auto ended = s.hands->advance(m.sequence);
        if (s.num_pending > 0) note_work(self, begin);
        if (!ended) return fail(self, ended.error());
        if (!*ended) return;
        --s.num_pending;
        finish(self, **ended);
        pump(self);
      },
      [self](const give_up& m) {
        auto& s = self->state;
        s.failed = true;
        if (s.hands) s.hands->abort({m.kind, m.text});
      },
  };
}

}  // namespace troupe::actors
