#include "actors/telemetry.hpp"

#include <sstream>

#include "core/clock.hpp"
#include "storage/files/atomic_file.hpp"
#include "telemetry/figures/trace.hpp"

namespace troupe::actors {
namespace {

std::string whole_trace(const std::string& events, const std::vector<telemetry::rank_spans>& ranks) {
  return "{\"displayTimeUnit\":\"ms\"," + telemetry::trace_clocks(ranks) + "\"traceEvents\":[\n" +
         telemetry::trace_names(ranks) + events + "\n]}\n";
}

// Reports once that the run's folder was removed during the run.
void look_home(telemetry_state& s) {
  if (s.setup.home.empty() || s.told_gone) return;
  std::error_code e;
  const bool is_there = std::filesystem::is_directory(s.setup.home, e);
  s.was_home = s.was_home || is_there;
  if (is_there || !s.was_home) return;
  s.told_gone = true;
  if (s.setup.complain)
    s.setup.complain({core::error_kind::io, "telemetry: the run's folder " + s.setup.home.string() +
                                                " was removed; the run continues, and what it records there is lost"});
}

void trace(telemetry_state& s, const record_step& m) {
  const uint64_t step = m.values->step - 1;
  if (s.setup.trace_file.empty() || step < s.setup.from_step || step >= s.setup.from_step + s.setup.steps) return;
  if (s.zero_ns == 0) s.zero_ns = m.spans->front().spans.front().start_ns;
  if (!s.events.empty()) s.events += ",\n";
  s.events += telemetry::trace_events(*m.spans, step, s.zero_ns);
  auto wrote = storage::write_file_atomically(s.setup.trace_file, whole_trace(s.events, *m.spans));
  if (!wrote && !s.complained && !s.told_gone && s.setup.complain) {
    s.complained = true;
    s.setup.complain(wrote.error());
  }
}

// Writes `text` to `file`. Returns false if either is empty or the file could not be written, which is reported.
bool write(const telemetry_state& s, const std::filesystem::path& file, const std::string& text) {
  if (file.empty() || text.empty()) return false;
  auto wrote = storage::write_file_atomically(file, text);
  if (!wrote && s.setup.complain) s.setup.complain(wrote.error());
  return wrote.has_value();
}

// Writes `text` to `file` if the file's folder exists; returns true if the file was written. Without the folder, adds
// the file's name to `missing`.
bool write_if_at_home(const telemetry_state& s, const std::filesystem::path& file, const std::string& text,
                      std::string& missing) {
  std::error_code e;
  if (std::filesystem::is_directory(file.parent_path(), e)) return write(s, file, text);
  if (!file.empty() && !text.empty()) missing += (missing.empty() ? "" : ", ") + file.filename().string();
  return false;
}

void log(const telemetry_state& s, const std::string& text) {
  if (!s.setup.log) return;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) s.setup.log(line);
}

void show_profile(telemetry_state& s) {
  const auto& text = s.setup.recorder->flops_text();
  if (s.profiled || text.empty()) return;
  s.profiled = true;
  if (s.setup.flops_file.empty())
    log(s, text);
  else
    write(s, s.setup.flops_file, text);
}

std::vector<std::string> files_beside(const telemetry_state& s) {
  std::vector<std::string> out;
  const auto folder = s.setup.report_file.parent_path();
  for (const auto& file : {folder / "config.yaml", s.setup.trace_file, s.setup.communication_file}) {
    std::error_code e;
    if (!file.empty() && file.parent_path() == folder && std::filesystem::exists(file, e))
      out.push_back(file.filename().string());
  }
  return out;
}

}  // namespace

telemetry_actor::behavior_type telemetry_impl(telemetry_actor::stateful_pointer<telemetry_state> self,
                                              telemetry_setup setup) {
  self->state.setup = std::move(setup);
  be_robust(self, [](auto* me, const std::string& text) {
    if (const auto& complain = me->state.setup.complain)
      complain({core::error_kind::bug, "telemetry: " + text + "; nothing more is recorded"});
  });
  return {
      [self](const record_step& m) {
        auto& s = self->state;
        look_home(s);
        trace(s, m);
        if (!s.setup.recorder) return;
        s.setup.recorder->step(*m.values, *m.spans);
        show_profile(s);
      },
      [self](const record_validation& m) {
        if (auto& to = self->state.setup.recorder) to->validation(*m.values);
      },
      [self](const record_metrics& m) {
        if (auto& to = self->state.setup.recorder) to->metrics(*m.values);
      },
      [self](const go_back& m) {
        if (auto& to = self->state.setup.recorder) to->go_back(core::unix_seconds(), m.step, m.global_samples);
      },
      [self](const close_records& m) -> caf::result<records_closed> {
        auto& s = self->state;
        auto out = std::make_shared<telemetry::run_records>();
        if (!s.setup.recorder) return records_closed{out};
        *out = s.setup.recorder->close(*m.end, m.num_dropped);
        std::string missing;
        write_if_at_home(s, s.setup.communication_file, out->communication_json, missing);
        write_if_at_home(s, s.setup.profile_file, out->profile, missing);
        if (!s.setup.report_file.empty())
          out->report_written =
              write_if_at_home(s, s.setup.report_file, s.setup.recorder->report(files_beside(s)), missing);
        if (!missing.empty() && s.was_home && s.setup.complain)
          s.setup.complain({core::error_kind::io, "telemetry: not written, as the run's folder " +
                                                      s.setup.home.string() + " was removed: " + missing});
        return records_closed{out};
      },
  };
}

}  // namespace troupe::actors
