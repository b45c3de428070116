#include "apps/run/run_sentences.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>

#include "apps/base/counted_text.hpp"
#include "apps/base/terminal.hpp"
#include "core/model_table.hpp"
#include "core/sample_types.hpp"
#include "core/system/instruction_path.hpp"
#include "core/text.hpp"
#include "data/chat/chat_format.hpp"
#include "job/feasible_degree.hpp"
#include "job/model/adapters.hpp"
#include "plan/stage_place.hpp"
#include "plan/stages.hpp"

namespace troupe::apps {
namespace {

/// Shows the beginning of the first conversation, so that a wrong template, or wrong answers, are noticed.
void show_first_sample(const actors::session& s) {
  constexpr size_t most_bytes = 1200;
  const auto parts = s.first_sample();
  if (parts.empty()) return;
  const bool dims = rewrites_lines(STDOUT_FILENO);
  counted_writer out(dims);
  size_t left = most_bytes;
  for (const auto& [text, counts] : parts) {
    out.add(std::string_view(text).substr(0, left), counts);
    left -= std::min(left, text.size());
  }
  std::printf("first sample (%s):\n%s%s\n", dims ? "what is dimmed does not count" : "what counts is in [[ ]]",
              out.text().c_str(), left == 0 ? " ..." : "");
}

/// Returns a line about the model's family, the chat template and the tokens that count; empty if all sources are
/// texts.
std::string samples_line(const actors::session& s, const config::data_section& d) {
  const bool has_template = config::has_form(d, "chat", "instruct");
  if (!has_template && !config::has_form(d, "labelled")) return {};
  std::string out = fmt::format("{} model", s.model_type());
  if (!has_template) return out + "; the tokens with a label count";
  if (d.chat_template == data::joined_template)
    out += "; no chat template: completions follow their prompts";
  else if (d.chat_template.empty())
    out += fmt::format("; chat template of {}", d.tokenizer);
  else
    out += fmt::format("; chat template {}", d.chat_template);
  const auto part = core::loss_part_from(d.loss_on).value_or(core::loss_part::assistant);
  const char* const counted = part == core::loss_part::all    ? "all tokens count"
                              : part == core::loss_part::last ? "the last answer of a conversation counts"
                                                              : "the answers count";
  return fmt::format("{}; {}", out, counted);
}

/// Returns a line about parameters that groups freeze; empty if there are none, and for a model with adapters, whose
/// sentence says it.
std::string frozen_line(const core::model_table& table) {
  uint64_t trained = 0, all = 0;
  const core::parameter_info* first = nullptr;  // the first parameter that is not trained
  for (const core::parameter_info& p : table.parameters) {
    if (p.is_copy() || p.of_teacher) continue;
    if (p.of_adapter) return {};
    all += p.numel();
    trained += p.trainable ? p.numel() : 0;
    if (!p.trainable && first == nullptr) first = &p;
  }
  if (first == nullptr) return {};
  return fmt::format("{} of {} parameters are trained; the others, such as {}, stay as they are", trained, all,
                     first->name);
}

}  // namespace

output_style style_of(const train_arguments& a) {
  if (a.form == output_form::json) return output_style::json;
  if (a.verbosity == verbosity::quiet) return output_style::quiet;
  return rewrites_lines(STDOUT_FILENO) ? output_style::bar : output_style::lines;
}

std::string size_line(const actors::session& s) {
  const auto& first = s.training_plan(0);
  const auto& l = *first.layout;
  const uint64_t parameters = s.table().numel();
  const auto memory = s.memory();
  if (plan::pipeline_ranks(l) == 1)
    return fmt::format(
        "{} parameters, ZeRO-{} over {} ranks, {} instructions a step and rank, {} resident on rank 0, {}\n",
        parameters, first.options().stage, first.options().ranks(), first.instructions.size(),
        core::human_bytes(memory[0].resident.total()), core::instruction_path());
  std::vector<size_t> units(plan::num_stages(l), 0);
  for (const uint32_t stage : l.stage_of_unit) ++units[stage];
  size_t instructions = 0;
  uint64_t most = 0;
  for (uint32_t r = 0; r < first.options().ranks(); ++r) {
    instructions = std::max(instructions, s.training_plan(r).instructions.size());
    most = std::max(most, memory[r].resident.total());
  }
  return fmt::format(
      "{} parameters, {}, ZeRO-{}, stages of {} units, at most {} instructions a step and rank, at most {} resident on "
      "a rank, {}\n",
      parameters, first.options().mesh.text(), first.options().stage, fmt::join(units, ", "), instructions,
      core::human_bytes(most), core::instruction_path());
}

void announce(const actors::session& s, const config::job_config& c, const run_start& start, output_style style) {
  const bool for_people = style == output_style::bar || style == output_style::lines;
  const auto& from = start.load.path;
  const auto done = static_cast<unsigned long long>(s.steps_done());
  if (for_people) std::printf("%s", size_line(s).c_str());
  if (const auto adapters = job::adapters_sentence(s.table()); for_people && !adapters.empty())
    std::printf("%s\n", adapters.c_str());
  if (const auto frozen = frozen_line(s.table()); for_people && !frozen.empty()) std::printf("%s\n", frozen.c_str());
  if (const auto samples = samples_line(s, c.data); for_people && !samples.empty())
    std::printf("%s\n", samples.c_str());
  for (const auto& source : s.read_sources()) log_line(style, "data " + source);
  if (for_people) show_first_sample(s);
  if (for_people && from.empty() && !c.model.path.empty())
    std::printf("weights from %s\n", core::printable_line(c.model.path.string()).c_str());
  if (for_people && !from.empty())
    std::printf("resumes after step %llu, from %s\n", done, core::printable_line(from.string()).c_str());
  if (s.steps_done() >= c.steps)
    std::fprintf(
        stderr,
        "troupe: warning: nothing is left to train: %s is of step %llu, the run has %llu; more --steps continue it, "
        "--fresh begins anew\n",
        from.c_str(), done, static_cast<unsigned long long>(c.steps));
  std::fflush(stdout);
}

void say_end(const end_summary& e, const train_arguments& a, const char* unit) {
  const auto steps = static_cast<unsigned long long>(e.steps);
  if (a.form == output_form::json) {
    std::printf("%s", end_json(e).c_str());
    return;
  }
  if (a.verbosity == verbosity::verbose) std::printf("%s", end_details(e).c_str());
  if (a.verbosity != verbosity::quiet) std::printf("%s", end_text(e).c_str());
  if (e.has_validation)
    std::printf("validation loss %.2f %s after %llu steps, %.0f s\n",
                std::isnan(e.validation_loss) ? std::fabs(e.validation_loss) : e.validation_loss, unit, steps,
                e.seconds);
  else if (e.trained == 0)
    std::printf("done after %llu steps, all of them before this run\n", steps);
  else
    std::printf("%s after %llu steps, %.0f s, last loss %.4f %s\n",
                e.stopped   ? "stopped"
                : e.unsaved ? "ended"
                            : "done",
                steps, e.seconds, std::isnan(e.last_loss) ? std::fabs(e.last_loss) : e.last_loss, unit);
}

std::string recovery_sentence(const actors::recovery_counts& r, uint64_t steps, const config::parallel_section& p,
                              bool took_over) {
  return fmt::format("{}; {}{} step{} done again, {:.1f} s lost",
                     job::as_sentence(r.degrees, steps, job::ranks_of_replica(p)), took_over ? "at least " : "",
                     r.steps_again, r.steps_again == 1 ? "" : "s", r.lost_s);
}

std::string network_sentence(const actors::network_count& n, const std::vector<config::cluster_host>& hosts) {
  if (n.steps == 0 || n.entered_bytes.empty()) return {};
  std::string out = "over the network in a step:";
  for (const auto& [machine, bytes] : n.entered_bytes)
    out += fmt::format("{} {} takes {}", out.back() == ':' ? "" : ",", hosts.at(machine).name,
                       core::human_bytes(bytes / n.steps));
  return out;
}

}  // namespace troupe::apps
