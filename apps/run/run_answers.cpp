#include "apps/run/run_answers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "apps/base/people.hpp"
#include "core/text.hpp"

namespace troupe::apps {
namespace {

/// Returns as JSON what each rank is doing (session::diagnose), and the process that each rank belongs to.
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

std::string refused(const std::string& why) { return fmt::format("{{\"error\":{}}}", core::json_string(why)); }

/// Returns the number of processes on machine `host` that have ranks.
size_t works_of(const std::string& host, const cluster::roster& people) {
  return static_cast<size_t>(
      std::ranges::count_if(people.places, [&](const auto& p) { return p.host == host && p.count > 0; }));
}

/// Returns the reason why machine `host` cannot be replaced; empty if it can be.
std::string objection_to_replacing(const std::string& host, const cluster::roster& people, const run_state& state) {
  const size_t works = works_of(host, people);
  size_t waits = 0;
  std::string hosts;
  for (const auto& p : people.places) {
    waits += p.host != host && (p.state == "spare" || p.state == "keeper");
    if (!p.host.empty() && hosts.find(p.host) == std::string::npos) hosts += (hosts.empty() ? "" : ", ") + p.host;
  }
  if (hosts.empty()) return "wanted a job on several hosts (cluster.hosts), got one on this machine";
  if (std::ranges::find(people.places, host, &cluster::place_row::host) == people.places.end())
    return fmt::format("wanted one of the job's hosts, {}, got '{}'", hosts, core::shown(host));
  if (works == 0) return fmt::format("wanted a host that has ranks, got {}, which has none", host);
  if (const auto* const leads = place_of_rank(people, 0); leads != nullptr && leads->host == host)
    return fmt::format("wanted another host than that of rank 0, which leads the run, got {}", host);
  const auto promised = state.promised(people.term, host);
  waits -= std::min(waits, promised.processes);
  if (waits < works)
    return fmt::format(
        "wanted {} spare process{} on other hosts{}, got {}: give cluster.hosts one with spare: true, and start its "
        "agent",
        works, works == 1 ? "" : "es", promised.hosts.empty() ? "" : " besides those that replace " + promised.hosts,
        waits);
  return {};
}

/// Requests that a spare machine replaces machine `host`; the answer is sent once another term has begun.
pending_answer replace(const std::string& host, run_state& state, cluster::process* process) {
  const auto before = process == nullptr ? cluster::roster() : process->people();
  if (auto why = objection_to_replacing(host, before, state); !why.empty())
    return [text = refused(why)] { return std::optional(text); };
  state.promise_spares(before.term, host, works_of(host, before));
  process->replace(host);
  return [host, process, term = before.term]() -> std::optional<std::string> {
    const auto now = process->people();
    if (now.term == term) return std::nullopt;
    if (works_of(host, now) > 0)
      return refused(fmt::format("host {} is not replaced: the run's log gives the reason", host));
    return fmt::format("{{\"done\":{}}}",
                       core::json_string(fmt::format("host {} has no ranks from term {} on: its agent "
                                                     "may end",
                                                     host, now.term)));
  };
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
    return [&state, told = done("the run is paused: `troupe resume` continues it")] {
      return state.is_paused() ? told() : std::nullopt;
    };
  }
  if (question == "resume") {
    state.pause(false);
    return done("the run continues");
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
  constexpr std::string_view replaces = "replace ";
  if (question.starts_with(replaces)) return replace(question.substr(replaces.size()), state, process);
  return [text = refused("wanted status, diagnose, pause, resume, save, stop or replace HOST, got '" +
                         core::shown(question) + "'")] { return std::optional(text); };
}

}  // namespace troupe::apps
