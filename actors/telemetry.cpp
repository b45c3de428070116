#include "actors/telemetry.hpp"

#include "checkpoint/atomic_file.hpp"

namespace troupe::actors {
namespace {

std::string whole_trace(const std::string& events, const run_contexts& ranks) {
  std::string head = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  for (const auto& c : ranks) {
    const std::string pid = std::to_string(c->plan().rank);
    head += "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":" + pid + ",\"args\":{\"name\":\"rank " + pid + "\"}},\n";
    for (uint32_t l = 0; l < plan::num_lanes; ++l)
      head += "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":" + pid + ",\"tid\":" + std::to_string(l) +
              ",\"args\":{\"name\":\"" + std::string(plan::name_of(static_cast<plan::lane>(l))) + "\"}},\n";
  }
  return head + events + "\n]}\n";
}

}  // namespace

telemetry_actor::behavior_type telemetry_impl(telemetry_actor::stateful_pointer<telemetry_state> self,
                                              telemetry_setup setup) {
  self->state.setup = std::move(setup);
  be_robust(self, [](auto*, const std::string&) {});
  return {
      [self](const record_run& m) {
        auto& s = self->state;
        if (s.setup.trace_file.empty() || m.step < s.setup.from_step || m.step >= s.setup.from_step + s.setup.steps)
          return;
        if (s.zero_ns == 0) s.zero_ns = m.contexts->front()->spans.front().start_ns.load();
        if (!s.events.empty()) s.events += ",\n";
        s.events += trace_events(*m.contexts, m.step, s.zero_ns);
        auto wrote = checkpoint::write_file_atomically(s.setup.trace_file, whole_trace(s.events, *m.contexts));
        if (!wrote && !s.complained && s.setup.complain) {
          s.complained = true;
          s.setup.complain(wrote.error());
        }
      },
  };
}

}  // namespace troupe::actors
