#include "apps/base/training/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "apps/base/terminal.hpp"
#include "apps/base/training/work_table.hpp"
#include "core/text.hpp"
#include "telemetry/text.hpp"

namespace troupe::apps {
namespace {

using telemetry::json_number;
using telemetry::json_string;
using telemetry::text_of;

// Returns `x` without the sign of a NaN, which has no meaning.
double shown(double x) { return std::isnan(x) ? std::fabs(x) : x; }

uint64_t total_bytes(const actors::rank_memory_report& m) { return m.resident.total() + m.activations_peak_bytes; }

}  // namespace

void log_line(output_style style, const std::string& line) {
  if (style == output_style::quiet) return;
  std::FILE* const to = style == output_style::json ? stderr : stdout;
  // Clears the progress bar first; the next step draws it again below the line.
  std::fprintf(to, "%s%s\n", style == output_style::bar ? "\r\033[K" : "", core::printable_lines(line).c_str());
  std::fflush(to);
}

namespace {

std::string step_json(const actors::step_report& r, bool is_again) {
  return text_of(
      "{\"event\":\"step\",\"step\":%llu,\"loss\":%s,\"lr\":%s,\"grad_norm\":%s,\"loss_scale\":%s,\"tokens_per_s\":%"
      "s,\"step_s\":%s,\"skipped\":%s%s%s}\n",
      static_cast<unsigned long long>(r.step), json_number(r.loss).c_str(), json_number(r.lr).c_str(),
      json_number(r.grad_norm).c_str(), json_number(r.loss_scale).c_str(),
      json_number(double(r.tokens) / r.seconds).c_str(), json_number(r.seconds).c_str(), r.skipped ? "true" : "false",
      r.counted > 0 ? fmt::format(",\"counted_tokens\":{}", r.counted).c_str() : "", is_again ? ",\"again\":true" : "");
}

}  // namespace

std::string slow_link_json(const actors::slow_link_report& x) {
  return text_of(
      "{\"event\":\"slow_link\",\"step\":%llu,\"from\":%s,\"to\":%s,\"bytes_per_s\":%s,\"usual_bytes_per_s\":%s,"
      "\"share\":%s}\n",
      static_cast<unsigned long long>(x.step), json_string(x.from).c_str(), json_string(x.to).c_str(),
      json_number(x.bytes_per_s).c_str(), json_number(x.usual_bytes_per_s).c_str(), json_number(x.share).c_str());
}

progress::progress(output_style style, uint64_t total_steps, double flops_per_token, uint64_t lines_every,
                   std::string loss_unit)
    : style_(style),
      total_(total_steps),
      every_(std::max<uint64_t>(1, lines_every)),
      flops_per_token_(flops_per_token),
      loss_unit_(std::move(loss_unit)) {}

void progress::step(const actors::step_report& r, uint64_t memory_bytes) {
  const double rate = double(r.tokens) / r.seconds;
  tokens_per_s_ = seen_ == 0 ? rate : 0.9 * tokens_per_s_ + 0.1 * rate;
  seconds_ += r.seconds;
  ++seen_;
  counted_ += r.counted;
  if (style_ == output_style::json) {
    std::printf("%s", step_json(r, false).c_str());
    std::fflush(stdout);
    return;
  }
  if (style_ == output_style::quiet) return;
  if (style_ == output_style::lines && r.step % every_ != 0 && r.step != total_ && r.step != 1) return;
  const double left_s = seconds_ / double(seen_) * double(total_ > r.step ? total_ - r.step : 0);
  std::string text =
      text_of("step %llu/%llu  loss %.4f  lr %.2e  norm %.3f  %.0f tok/s", static_cast<unsigned long long>(r.step),
              static_cast<unsigned long long>(total_), shown(r.loss), r.lr, shown(r.grad_norm), tokens_per_s_);
  if (const std::string use = use_text(); !use.empty()) text += "  " + use;
  text += "  " + core::human_bytes(memory_bytes) + "  ETA " + core::clock_text(left_s);
  if (r.counted > 0)
    text += fmt::format("  {:.0f} % count, {} so far", 100.0 * double(r.counted) / double(r.tokens), counted_);
  if (r.skipped) text += text_of("  skipped (loss scale %.0f)", r.loss_scale);
  if (style_ == output_style::lines) {
    std::printf("%s\n", text.c_str());
    std::fflush(stdout);
    return;
  }
  const unsigned columns = terminal_columns(STDOUT_FILENO);
  const size_t room = columns > text.size() + 6 ? columns - text.size() - 4 : 0;
  const auto filled = static_cast<size_t>(double(room) * double(r.step) / double(std::max<uint64_t>(1, total_)));
  std::string bar;
  if (room >= 8) bar.append("[").append(filled, '#').append(room - filled, '.').append("] ");
  rewrite_line(stdout, STDOUT_FILENO, bar + text);
  open_line_ = true;
}

void progress::step_again(const actors::step_report& r) {
  if (style_ != output_style::json) return;
  std::printf("%s", step_json(r, true).c_str());
  std::fflush(stdout);
}

void progress::term(const actors::term_report& t) {
  if (style_ != output_style::json) return;
  std::printf(
      "{\"event\":\"term\",\"term\":%llu,\"data\":%u,\"step\":%llu,\"steps_again\":%llu,\"lost_s\":%s,\"cause\":%s}\n",
      static_cast<unsigned long long>(t.number), t.data, static_cast<unsigned long long>(t.step),
      static_cast<unsigned long long>(t.steps_again), json_number(t.lost_s).c_str(), json_string(t.cause).c_str());
  std::fflush(stdout);
}

void progress::slow_link(const actors::slow_link_report& x) {
  if (style_ != output_style::json) return;
  std::printf("%s", slow_link_json(x).c_str());
  std::fflush(stdout);
}

std::string progress::use_text() const {
  if (peak_flops_ <= 0) return {};
  return beyond_peak() ? "MFU unknown" : text_of("MFU %.0f%%", 100 * tokens_per_s_ * flops_per_token_ / peak_flops_);
}

bool progress::beyond_peak() const { return peak_flops_ > 0 && tokens_per_s_ * flops_per_token_ > peak_flops_; }

void progress::evaluation(uint64_t step, double loss, const std::string& set) {
  finish_line();
  const std::string json_set = set.empty() ? "" : ",\"set\":" + json_string(set);
  const std::string of_set = set.empty() ? "" : " (" + set + ")";
  if (style_ == output_style::json)
    std::printf("{\"event\":\"evaluation\",\"step\":%llu,\"loss\":%s%s}\n", static_cast<unsigned long long>(step),
                json_number(loss).c_str(), json_set.c_str());
  else if (style_ != output_style::quiet)
    std::printf("step %llu: validation loss %.4f %s%s\n", static_cast<unsigned long long>(step), shown(loss),
                loss_unit_.c_str(), of_set.c_str());
  std::fflush(stdout);
}

void progress::checkpoint(const actors::save_report& e) {
  if (style_ == output_style::json) {
    std::printf(
        "{\"event\":\"checkpoint\",\"step\":%llu,\"folder\":%s,\"bytes\":%llu,\"seconds\":%s,\"waited_seconds\":%s}\n",
        static_cast<unsigned long long>(e.step), json_string(e.folder.string()).c_str(),
        static_cast<unsigned long long>(e.bytes), json_number(e.seconds).c_str(),
        json_number(e.waited_seconds).c_str());
    std::fflush(stdout);
  } else if (style_ == output_style::lines) {
    std::printf("step %llu: checkpoint %s, %s in %.2f s; training waited %.2f s\n",
                static_cast<unsigned long long>(e.step), e.folder.filename().c_str(),
                core::human_bytes(e.bytes).c_str(), e.seconds, e.waited_seconds);
    std::fflush(stdout);
  }
}

void progress::spike(const actors::loss_spike& s) {
  finish_line();
  if (style_ == output_style::json)
    std::printf(
        "{\"event\":\"spike\",\"step\":%llu,\"loss\":%s,\"usual\":%s,\"back_to\":%llu,\"first\":%llu,"
        "\"last\":%llu,\"samples\":%llu,\"times\":%llu}\n",
        static_cast<unsigned long long>(s.step), json_number(s.loss).c_str(), json_number(s.usual).c_str(),
        static_cast<unsigned long long>(s.back_to), static_cast<unsigned long long>(s.first),
        static_cast<unsigned long long>(s.last), static_cast<unsigned long long>(s.samples),
        static_cast<unsigned long long>(s.times));
  else if (style_ != output_style::quiet)
    std::printf("%s\n", spike_sentence(s).c_str());
  std::fflush(stdout);
}

std::string spike_sentence(const actors::loss_spike& s) {
  const auto number = [](uint64_t n) { return fmt::to_string(n); };
  std::string out = text_of("step %llu: loss %.4f", static_cast<unsigned long long>(s.step), shown(s.loss));
  if (s.usual > 0) out += text_of(", the median before it is %.4f", s.usual);
  out += ": back after step " + number(s.back_to) + (s.from_memory ? ", from memory" : "") + "; the samples of step" +
         (s.first == s.last ? " " + number(s.first) : "s " + number(s.first) + "-" + number(s.last)) +
         " are left out (" + number(s.samples) + ")";
  return s.times > 1 ? out + "; spike " + number(s.times) + " of this run" : out;
}

void progress::finish_line() {
  if (open_line_) std::printf("\n");
  open_line_ = false;
}

namespace {

// Returns `seconds` divided by the wall time of a step.
double share_of_step(const telemetry::step_summary& l, double seconds) {
  const double whole = l.whole_s + l.control.between_s;
  return whole > 0 ? seconds / whole : 0;
}

std::string control_json(const telemetry::step_summary& l) {
  const auto& c = l.control;
  return "{\"idle_s\":" + json_number(c.idle_s) + ",\"idle_share\":" + json_number(share_of_step(l, c.idle_s)) +
         ",\"no_core_s\":" + json_number(c.no_core_s) + ",\"between_s\":" + json_number(c.between_s) +
         ",\"in_lane_us\":" + json_number(c.in_lane_us) + ",\"in_lane_p99_us\":" + json_number(c.in_lane_p99_us) +
         ",\"cross_lane_us\":" + json_number(c.cross_lane_us) +
         ",\"cross_lane_p99_us\":" + json_number(c.cross_lane_p99_us) + "}";
}

std::string control_line(const telemetry::step_summary& l) {
  const auto& c = l.control;
  return text_of(
      "control: compute idle %.2f ms (%.2f%% of a step) though it could have started, and %.2f ms for lack of a core; "
      "%.2f ms between steps\n"
      "from a last dependency to the start, median and 99%%: %.1f and %.0f us in a lane that told no other, %.0f and "
      "%.0f us across lanes\n",
      1e3 * c.idle_s, 100 * share_of_step(l, c.idle_s), 1e3 * c.no_core_s, 1e3 * c.between_s, c.in_lane_us,
      c.in_lane_p99_us, c.cross_lane_us, c.cross_lane_p99_us);
}

}  // namespace

std::string end_json(const end_summary& e) {
  std::string out = fmt::format(
      "{{\"event\":\"end\",\"steps\":{},\"skipped\":{},\"spikes\":{},\"seconds\":{},\"stopped\":{},\"unsaved\":{},"
      "\"loss\":{},\"tokens_per_s\":{},\"validation_loss\":{},\"gathers\":{},\"releases\":{},\"reductions\":{},"
      "\"peak_live_parameters\":{},\"model_parameters\":{},\"process_peak_bytes\":{},\"memory\":{{\"host\":[",
      e.steps, e.skipped, e.spikes, json_number(e.seconds), e.stopped ? "true" : "false", e.unsaved ? "true" : "false",
      json_number(e.last_loss), json_number(e.tokens_per_s), e.has_validation ? json_number(e.validation_loss) : "null",
      e.lanes.gathers, e.lanes.releases, e.lanes.reductions, e.peak_live_elements, e.model_elements,
      e.process_peak_bytes);
  for (size_t r = 0; r < e.memory.size(); ++r) {
    const auto& m = e.memory[r];
    if (r > 0) out += ',';
    out += fmt::format(
        "{{\"rank\":{},\"parameters\":{},\"gathered\":{},\"master\":{},\"moments\":{},\"gradients\":{},"
        "\"accumulated\":{},\"windows\":{},\"swapped\":{},\"undo\":{},\"deferred\":{},\"votes\":{},\"transfers\":{},"
        "\"compressed\":{},\"masks\":{},\"activations_peak\":{},\"total\":{}}}",
        r, m.resident.parameters, m.resident.gathered, m.resident.master, m.resident.moments, m.resident.gradients,
        m.resident.accumulated, m.resident.windows, m.resident.swapped, m.resident.undo, m.resident.deferred,
        m.resident.votes, m.resident.transfers, m.resident.compressed, m.resident.masks, m.activations_peak_bytes,
        total_bytes(m));
  }
  const auto& io = e.lanes.io;
  out += fmt::format(
      "]}},\"io\":{{\"planned_bytes\":{},\"read_bytes\":{},\"written_bytes\":{},\"read_s\":{},\"read_hidden_s\":{},"
      "\"write_s\":{},\"stalled_s\":{},\"longest_wait_s\":{},\"waiter\":{},\"waited_for\":{}}}",
      io.planned_bytes, io.read_bytes, io.written_bytes, json_number(io.read_s), json_number(io.read_hidden_s),
      json_number(io.write_s), json_number(io.stalled_s), json_number(io.longest_wait_s), json_string(io.waiter),
      json_string(io.waited_for));
  out += fmt::format(
      ",\"communication_s\":{},\"exposed_s\":{},\"overlap\":{},\"compute_idle_s\":{},\"control\":{},\"work\":{}{},"
      "\"foretold\":{},\"not_foretold\":{},\"checkpoints\":{{\"written\":{},\"failed\":{},\"skipped\":{},\"bytes\":{},"
      "\"seconds\":{},"
      "\"waited_seconds\":{}}},\"trace\":{},\"report\":{},\"not_recorded\":{},\"output\":{},\"model\":{},"
      "\"sample\":{}}}\n",
      json_number(e.lanes.communication_s), json_number(e.lanes.exposed_s), telemetry::overlap_json(e.lanes.overlap),
      json_number(e.lanes.idle_s[1]), control_json(e.lanes), work_json(e.lanes.work, e.units, e.peak_flops),
      e.pipeline.steps > 0 ? ",\"pipeline\":" + telemetry::stage_json(e.pipeline) : "",
      e.step_foretold ? foretold_json(*e.step_foretold) : "null",
      e.not_foretold.empty() ? "null" : json_string(e.not_foretold), e.checkpoints.written, e.checkpoints.failed,
      e.checkpoints.skipped, e.checkpoints.bytes, json_number(e.checkpoints.seconds),
      json_number(e.checkpoints.waited_seconds), json_string(e.trace_file), json_string(e.report_file),
      e.num_not_recorded, json_string(e.output_folder), json_string(e.model_place), json_string(e.sample));
  return out;
}

namespace {

std::string io_lines(const telemetry::step_summary& l) {
  const auto& io = l.io;
  std::string out = text_of(
      "swap files: a step reads %s and writes %s (planned %s); reading takes %.1f ms, of which %.0f%% hidden, writing "
      "%.1f ms; stalled %.1f ms\n",
      core::human_bytes(io.read_bytes).c_str(), core::human_bytes(io.written_bytes).c_str(),
      core::human_bytes(io.planned_bytes).c_str(), 1e3 * io.read_s,
      io.read_s > 0 ? 100 * io.read_hidden_s / io.read_s : 100.0, 1e3 * io.write_s, 1e3 * io.stalled_s);
  out += text_of("practicality: %.2f (a step without its stalls / a step)",
                 l.step_s > 0 ? (l.step_s - io.stalled_s) / l.step_s : 1.0);
  if (io.longest_wait_s > 0)
    out += text_of("; the longest wait, %.1f ms: ", 1e3 * io.longest_wait_s) + io.waiter + " for " + io.waited_for;
  return out + "\n";
}

std::string stage_lines(const telemetry::pipeline_figures& p) {
  return text_of(
             "stages, a step of one rank of each; compute idle as a share of the step: planned, the plan played with "
             "this run's mean times, %.1f ms; measured, %.1f ms, %.1f%% of it idle beyond the plan\n",
             1e3 * p.planned_step_s, 1e3 * p.measured_step_s, 100 * p.idle_beyond_plan()) +
         telemetry::stage_table(p);
}

/// Returns a model's text with control characters escaped, which a terminal would obey and a C string would end at.
std::string for_terminal(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (core::is_ascii_control(c) && c != '\n' && c != '\t')
      out += text_of("\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    else
      out += c;
  }
  return out;
}

}  // namespace

std::string end_details(const end_summary& e) {
  if (e.trained == 0) return {};
  std::string out =
      "\nmemory by owner (host)\n  rank  parameters    gathered      master     moments   gradients accumulated "
      "    windows activations       total\n";
  for (size_t r = 0; r < e.memory.size(); ++r) {
    const auto& m = e.memory[r];
    out += text_of("  %4zu", r);
    for (uint64_t b :
         {m.resident.parameters, m.resident.gathered, m.resident.master, m.resident.moments, m.resident.gradients,
          m.resident.accumulated, m.resident.windows, m.activations_peak_bytes, total_bytes(m)})
      out += text_of(" %11s", core::human_bytes(b).c_str());
    out += "\n";
  }
  for (const auto& m : e.memory)
    if (m.resident.undo + m.resident.deferred > 0) {
      out += "  with " + core::human_bytes(m.resident.undo) + " of undo copies and " +
             core::human_bytes(m.resident.deferred) + " of deferred gradients in the first total\n";
      break;
    }
  uint64_t transfers = 0;
  for (const auto& m : e.memory) transfers = std::max(transfers, m.resident.transfers);
  if (transfers > 0)
    out +=
        "  with at most " + core::human_bytes(transfers) + " of activations and gradients between stages in a total\n";
  if (e.process_peak_bytes > 0)
    out += "  the whole process at its peak: " + core::human_bytes(e.process_peak_bytes) + "\n";
  if (e.lanes.gathers > 0)
    out += text_of("parameters: %llu gathers and %llu releases %s; at most %llu of %llu were whole at once (%.0f%%)\n",
                   static_cast<unsigned long long>(e.lanes.gathers), static_cast<unsigned long long>(e.lanes.releases),
                   e.pipeline.steps > 0 ? "on one rank of each stage" : "on each rank",
                   static_cast<unsigned long long>(e.peak_live_elements),
                   static_cast<unsigned long long>(e.model_elements),
                   100.0 * double(e.peak_live_elements) / double(std::max<uint64_t>(1, e.model_elements)));
  out += text_of(
      "a step: %.1f ms, compute busy %.1f ms; communication %.1f ms, of which %.1f ms hidden and %.1f ms exposed\n",
      1e3 * e.lanes.step_s, 1e3 * e.lanes.compute_s, 1e3 * e.lanes.communication_s,
      1e3 * (e.lanes.communication_s - e.lanes.exposed_s), 1e3 * e.lanes.exposed_s);
  out += text_of("idle: compute %.1f ms, fabric %.1f ms, shard %.1f ms\n", 1e3 * e.lanes.idle_s[1],
                 1e3 * e.lanes.idle_s[2], 1e3 * e.lanes.idle_s[3]);
  out += control_line(e.lanes);
  out += work_text(e.lanes.work, e.units, e.lanes.step_s, e.peak_flops);
  if (e.lanes.io.bytes() > 0) out += io_lines(e.lanes);
  if (e.pipeline.steps > 0) out += stage_lines(e.pipeline);
  if (!e.trace_file.empty()) out += "trace: " + e.trace_file + " (open in ui.perfetto.dev or chrome://tracing)\n";
  return out;
}

namespace {

std::string checkpoint_line(const checkpoint_counts& c) {
  if (c.written + c.failed + c.skipped == 0) return {};
  std::string out = text_of("checkpoints: %llu of %s in %.2f s, for which training waited %.2f s",
                            static_cast<unsigned long long>(c.written), core::human_bytes(c.bytes).c_str(), c.seconds,
                            c.waited_seconds);
  if (c.failed > 0) out += text_of("; %llu could not be written", static_cast<unsigned long long>(c.failed));
  if (c.skipped > 0)
    out += text_of("; %llu left out, another was being written", static_cast<unsigned long long>(c.skipped));
  return out + "\n";
}

std::string memory_line(const end_summary& e) {
  uint64_t most = 0;
  for (const auto& m : e.memory) most = std::max(most, total_bytes(m));
  std::string out = "memory: at most " + core::human_bytes(most) + " on a rank";
  if (e.process_peak_bytes > 0) out += ", " + core::human_bytes(e.process_peak_bytes) + " in the process";
  return out + "\n";
}

/// Returns the line of the summary that says that the run's weights were not written to a disk.
std::string not_kept_line(const end_summary& e) {
  if (e.broken) return "model: not kept: the last loss is not finite\n";
  if (e.unsaved) return "model: not kept: the last step is in no checkpoint\n";
  return "model: not kept; --export FOLDER or checkpoint.every_steps keeps it\n";
}

}  // namespace

std::string end_text(const end_summary& e) {
  std::string out;
  if (e.trained > 0) {
    out += e.communication_table;
    out += text_of("\ntrain loss %.4f %s at step %llu, %.0f tok/s", shown(e.last_loss), e.loss_unit.c_str(),
                   static_cast<unsigned long long>(e.steps), e.tokens_per_s);
    out += e.counted_tokens > 0 ? fmt::format(", {} tokens counted\n", e.counted_tokens) : "\n";
    if (e.skipped > 0)
      out += text_of("skipped: %llu of %llu steps, whose gradients were not finite\n",
                     static_cast<unsigned long long>(e.skipped), static_cast<unsigned long long>(e.trained));
    if (const auto hidden = telemetry::overlap_line(e.lanes.overlap); !hidden.empty()) out += hidden + "\n";
    out += memory_line(e) + checkpoint_line(e.checkpoints);
    if (e.step_foretold) out += foretold_text(*e.step_foretold);
    if (!e.not_foretold.empty()) out += e.not_foretold + "\n";
  }
  if (!e.model_place.empty())
    out += "model: " + e.model_place + "\n";
  else if (e.trained > 0)
    out += not_kept_line(e);
  if (!e.next_command.empty()) out += "next: " + e.next_command + "\n";
  if (e.trained > 0 && !e.report_file.empty())
    out += "report: " + e.report_file + " (open in a browser; -v shows its tables here)\n";
  if (!e.sample.empty()) out += "sample: " + for_terminal(e.sample) + "\n";
  if (!e.no_sample.empty()) out += "sample: none, " + e.no_sample + "\n";
  return out;
}

}  // namespace troupe::apps
