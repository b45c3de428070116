#include "sim/job_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/cells.hpp"
#include "core/text.hpp"

namespace troupe::sim {
namespace {

[[noreturn]] void refuse_question(std::string text) {
  throw world_error({core::error_kind::bad_input, "a simulated job: " + std::move(text)});
}

std::string replay_of(const job_record& r) {
  std::string out = fmt::format("\n  seed {}", r.seed);
  if (!r.replay.empty()) out += ", replay: " + r.replay;
  return out;
}

/// Returns the terms as lines, each of which begins with a line end.
std::string terms_of(const job_record& r) {
  std::string out;
  for (const term_record& t : r.terms) {
    out += fmt::format("\n  term {}: degree {}, processes", t.number, t.data);
    for (const uint32_t p : t.processes) out += fmt::format(" {}", p);
    out += fmt::format(", from {} at step {}, to step {}", name_of(t.from), t.steps_before + 1, t.steps_after);
    if (!t.cause.empty()) out += ": " + t.cause;
  }
  return out;
}

bool is_word(char c) { return core::is_ascii_word(c); }

/// Returns the position of whole words in a text, or npos.
size_t find_words(std::string_view text, std::string_view words) {
  for (size_t at = text.find(words); at != std::string_view::npos; at = text.find(words, at + 1)) {
    const size_t end = at + words.size();
    const bool begins = at == 0 || !is_word(text[at - 1]) || !is_word(words.front());
    const bool ends = end == text.size() || !is_word(text[end]) || !is_word(words.back());
    if (begins && ends) return at;
  }
  return std::string_view::npos;
}

/// Returns the first line of the supervisor that names `who` as lost or as a cause, or an empty text. A line about a
/// host that has joined names nobody in this sense.
std::string line_that_names(std::string_view said, std::string_view who) {
  while (!said.empty()) {
    const std::string_view line = core::take_cell(said, '\n');
    if (!line.ends_with(" has joined") && find_words(line, who) != std::string_view::npos) return std::string(line);
  }
  return {};
}

std::string line_around(std::string_view text, size_t at) {
  const size_t before = text.rfind('\n', at), begin = before == std::string_view::npos ? 0 : before + 1;
  return std::string(text.substr(begin, text.find('\n', at) - begin));
}

}  // namespace

const job_record& job_run::sound() const {
  const job_record& r = *all_;
  if (!r.wrong.empty())
    throw world_error({core::error_kind::bug, "a simulated job: " + r.wrong + terms_of(r) + replay_of(r)});
  if (!r.code)
    throw world_error({core::error_kind::bug,
                       fmt::format("a simulated job did not end; {} of {} steps were done", r.steps_done, r.steps) +
                           terms_of(r) + replay_of(r)});
  return r;
}

const std::vector<term_record>& job_run::terms() const { return sound().terms; }

quantity job_run::resumed_at() const {
  const job_record& r = sound();
  if (r.terms.size() < 2)
    refuse_question("resumed_at: wanted a job of two terms at least, got one that was never resumed" + terms_of(r));
  return resumed_at(r.terms.size());
}

quantity job_run::resumed_at(size_t term) const {
  const job_record& r = sound();
  if (term == 0 || term > r.terms.size())
    refuse_question(fmt::format("resumed_at: wanted one of the terms 1 to {}, got {}", r.terms.size(), term) +
                    terms_of(r));
  const term_record& t = r.terms[term - 1];
  return {double(t.steps_before + 1), fmt::format("is the first step of term {} of {}, which goes on from {}", term,
                                                  r.terms.size(), name_of(t.from)) +
                                          replay_of(r) + terms_of(r)};
}

quantity job_run::lost_steps() const {
  const job_record& r = sound();
  return {double(r.steps_again), "steps were done again" + replay_of(r) + terms_of(r)};
}

quantity job_run::degree() const {
  const job_record& r = sound();
  if (r.terms.empty()) refuse_question("degree: the job ended before its first term");
  return {double(r.terms.back().data), "data ranks in the last term" + replay_of(r) + terms_of(r)};
}

verdict job_run::named(std::string_view who) const {
  const job_record& r = sound();
  if (who.empty()) refuse_question("named: wanted words such as 'rank 1', got none");
  if (std::string line = line_that_names(r.said, who); !line.empty()) return {true, std::move(line)};
  for (const term_record& t : r.terms)
    if (find_words(t.cause, who) != std::string::npos) return {true, fmt::format("term {}: {}", t.number, t.cause)};
  if (find_words(r.cause, who) != std::string::npos) return {true, r.cause};
  return {false, fmt::format("nothing names '{}'; the supervisor said:\n{}", who, r.said) + r.cause + replay_of(r) +
                     terms_of(r)};
}

verdict job_run::ended_well() const {
  const job_record& r = sound();
  if (*r.code == 0 && r.steps_done == r.steps)
    return {true, fmt::format("{} steps in {} terms ended well", r.steps, r.terms.size())};
  return {false, fmt::format("the job ended with code {} after {} of {} steps: ", *r.code, r.steps_done, r.steps) +
                     r.cause + "\n" + r.said + replay_of(r) + terms_of(r)};
}

verdict job_run::failed_with(std::string_view words) const {
  const job_record& r = sound();
  if (*r.code == 0)
    return {false,
            fmt::format("wanted a failure with '{}', but the job ended well", words) + replay_of(r) + terms_of(r)};
  const std::string all = r.said + r.cause;
  if (const size_t at = all.find(words); at != std::string::npos) return {true, line_around(all, at)};
  return {false, fmt::format("wanted a failure with '{}', but the job ended with code {}: ", words, *r.code) + all +
                     replay_of(r) + terms_of(r)};
}

verdict job_run::faults_happened() const {
  const job_record& r = sound();
  for (const strike& f : r.faults)
    if (!f.happened)
      return {false, "the job ended before this fault happened: " + f.fault + replay_of(r) + terms_of(r)};
  return {true, fmt::format("{} faults happened", r.faults.size())};
}

}  // namespace troupe::sim
