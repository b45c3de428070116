#include "actors/supervisor.hpp"

#include <fmt/format.h>

#include <bit>
#include <utility>

#include "core/text.hpp"

namespace troupe::actors {
namespace {

using supervisor_self = supervisor_actor::stateful_pointer<supervisor_state>;

void fail(supervisor_self self, core::error why) {
  auto& s = self->state;
  if (s.failure) return;
  s.failure = std::make_shared<const core::error>(std::move(why));
  // If another rank was lost, the ranks are told so, because each then reports what it was waiting for; any other
  // failure is passed on as `stopped`.
  const bool is_lost = s.failure->kind == core::error_kind::peer_lost;
  if (s.agent)
    self->send(s.agent, give_up{is_lost ? core::error_kind::peer_lost : core::error_kind::stopped, s.failure->text});
  if (!s.running) return;
  s.running = false;
  run_outcome out;
  out.run = s.run;
  out.which = s.which;
  out.failure = s.failure;
  s.asker.deliver(std::move(out));
}

}  // namespace

supervisor_state::~supervisor_state() {
  if (running) asker.deliver(caf::make_error(caf::sec::request_receiver_down));
}

std::optional<core::error> disagreement(const rank_reports& ranks) {
  const auto bits = [](double x) { return std::bit_cast<uint64_t>(x); };
  const verdict& first = ranks.front().decided;
  for (size_t r = 1; r < ranks.size(); ++r) {
    const verdict& v = ranks[r].decided;
    if (bits(v.loss) != bits(first.loss) || bits(v.square_sum) != bits(first.square_sum))
      return core::error{core::error_kind::mismatch,
                         fmt::format("rank {} and rank {} disagree on the step: loss {} and {}", ranks[r].rank,
                                     ranks.front().rank, core::number_text(v.loss), core::number_text(first.loss))};
  }
  return std::nullopt;
}

supervisor_actor::behavior_type supervisor_impl(supervisor_self self, std::function<node_agent_actor()> agent) {
  be_robust(self, [](auto* me, const std::string& text) { fail(me, {core::error_kind::bug, "supervisor: " + text}); });
  self->set_down_handler([self](caf::down_msg& d) {
    fail(self, {core::error_kind::peer_lost, "node agent ended: " + self->system().render(d.reason)});
  });
  return {
      [self, agent = std::move(agent)](const run_plan& m) -> caf::result<run_outcome> {
        auto& s = self->state;
        if (!s.agent) {
          s.agent = agent();
          self->monitor(s.agent);
        }
        if (s.failure || s.running) {
          run_outcome out;
          out.failure = s.failure ? s.failure
                                  : std::make_shared<const core::error>(core::error{
                                        core::error_kind::bug, "a run was ordered while another is under way"});
          return out;
        }
        s.running = true;
        s.which = m.which;
        s.run = m.order->run;
        auto promise = self->make_response_promise<run_outcome>();
        s.asker = promise;
        self->send(s.agent, m);
        return promise;
      },
      [self](const node_ended& m) {
        auto& s = self->state;
        if (!s.running || m.run != s.run) return;
        run_outcome out;
        out.run = m.run;
        out.which = s.which;
        out.ranks = m.ranks;
        if (s.which == plan::plan_choice::train || s.which == plan::plan_choice::train_saving ||
            s.which == plan::plan_choice::evaluate) {
          if (auto why = disagreement(*m.ranks)) return fail(self, *why);
          out.result = m.ranks->front().decided;
        }
        if (mode_of(s.which) == plan::mode::train) out.save_asked = std::exchange(s.save_asked, false);
        s.running = false;
        s.asker.deliver(std::move(out));
      },
      [self](const run_failed& m) {
        fail(self, {m.kind, m.text});
      },
      [self](const give_up& m) {
        fail(self, {m.kind, m.text});
      },
      [self](save_now) { self->state.save_asked = true; },
  };
}

}  // namespace troupe::actors
