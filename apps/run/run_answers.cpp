#include "apps/run/run_answers.hpp"

#include <fmt/format.h>

#include <utility>

#include "apps/base/people.hpp"
#include "core/text.hpp"

namespace troupe::apps {
namespace {

/// What ranks are in, as JSON.
std::string diagnosis(const actors::session& s, const cluster::roster& people) {
  std::string out;
  for (const auto& d : s.diagnose()) {
    const auto* const at = place_of_rank(people, d.rank);
    const std::string where =
        at == nullptr ? "" : fmt::format("\"where\":{},\"term\":{},", core::json_string(place_text(*at)), people.term);
    out += fmt::format("{}{{\"rank\":{},{}\"doing\":{},\"lanes\":{}}}", out.empty() ? "" : ",", d.rank, where,
                       core::json_string(d.doing), core::json_string(d.lanes));
  }
  return "{\"ranks\":[" + out + "]}";
}

}  // namespace

pending_answer answer_of(const std::string& question, run_state& state, const actors::session& session,
                         cluster::process* process) {
  const auto people = [process] { return process == nullptr ? cluster::roster() : process->people(); };
  const auto done = [](const std::string& text) {
    return [answer = fmt::format("{{\"done\":{}}}", core::json_string(text))] { return std::optional(answer); };
  };
  if (question == "status") return [=, &state] { return std::optional(state.status(people())); };
  if (question == "diagnose") return [=, &session] { return std::optional(diagnosis(session, people())); };
  if (question == "pause") {
    state.pause(true);
    return [&state, told = done("the run waits: `troupe resume` lets it go on")] {
      return state.is_paused() ? told() : std::nullopt;
    };
  }
  if (question == "resume") {
    state.pause(false);
    return done("the run goes on");
  }
  if (question == "stop") {
    state.stop();
    return done("the run ends after its step");
  }
  if (question == "save")
    return [&state, number = state.save()]() -> std::optional<std::string> {
      const auto end = state.saved(number);
      if (!end) return std::nullopt;
      const bool good = end->failure.empty();
      return fmt::format("{{\"{}\":{}}}", good ? "done" : "error",
                         core::json_string(good ? end->folder : end->failure));
    };
  return [text = fmt::format("{{\"error\":{}}}",
                             core::json_string("wanted status, diagnose, pause, resume, save or stop, got '" +
                                               core::shown(question) + "'"))] { return std::optional(text); };
}

}  // namespace troupe::apps
