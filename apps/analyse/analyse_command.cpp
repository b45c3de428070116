#include "apps/analyse/analyse_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>

#include "apps/analyse/analysis_page.hpp"
#include "apps/analyse/analysis_text.hpp"
#include "apps/analyse/run_prediction.hpp"
#include "apps/base/common_options.hpp"
#include "apps/base/exit_code.hpp"
#include "core/text.hpp"
#include "storage/files/atomic_file.hpp"
#include "telemetry/analysis/causes.hpp"
#include "telemetry/analysis/read_traces.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

/// Name of the trace in a run's folder.
constexpr const char* own_trace = "trace.json";

/// Returns true for the names of the files that torch.profiler's tensorboard_trace_handler writes.
bool is_profiler_file(const fs::path& file) {
  const std::string name = file.filename().string();
  return name.ends_with(".pt.trace.json") || name.ends_with(".pt.trace.json.gz");
}

/// Returns the traces that an argument names: itself, the trace of a run's folder, or the files of torch.profiler
/// there.
core::result<std::vector<fs::path>> traces_of(const fs::path& given) {
  std::error_code e;
  if (!fs::is_directory(given, e)) return std::vector{given};
  if (fs::exists(given / own_trace, e)) return std::vector{given / own_trace};
  std::vector<fs::path> out;
  for (fs::directory_iterator at(given, e), end; !e && at != end; at.increment(e))
    if (is_profiler_file(at->path())) out.push_back(at->path());
  if (e) return fail(error_kind::io, fmt::format("cannot read '{}': {}", given.string(), e.message()));
  if (out.empty())
    return core::refused(
        fmt::format("'{}': wanted trace.json, which troupe train writes with telemetry.trace, or files "
                    "*.pt.trace.json of torch.profiler; the folder has none",
                    given.string()));
  std::ranges::sort(out);
  return out;
}

core::result<analysed_traces> analysis_of(const std::vector<std::string>& given, std::optional<uint64_t> step) {
  std::vector<fs::path> files;
  for (const auto& one : given) {
    TROUPE_ASSIGN(const auto more, traces_of(one));
    files.insert(files.end(), more.begin(), more.end());
  }
  analysed_traces out;
  TROUPE_ASSIGN(out.traces, telemetry::read_traces(files, step));
  TROUPE_ASSIGN(out.found, telemetry::analyse(out.traces));
  out.of = given.size() == 1 ? core::printable_line(given.front()) : fmt::format("{} traces", given.size());
  return out;
}

core::result<analysed_traces> prediction_of(const std::string& file) {
  TROUPE_ASSIGN(auto out, analysis_of({file}, std::nullopt));
  if (out.traces.program != telemetry::trace_program::troupe)
    return core::refused(
        fmt::format("--predicted: '{}': wanted a trace of troupe plan --trace or troupe simulate --trace, got one of "
                    "torch.profiler",
                    file));
  return out;
}

/// Returns the folder of the run that is analysed; nullopt if the arguments name traces otherwise.
std::optional<fs::path> run_folder(const std::vector<std::string>& given) {
  std::error_code e;
  if (given.size() != 1 || !fs::is_directory(given.front(), e) || !fs::exists(fs::path(given.front()) / own_trace, e))
    return std::nullopt;
  return given.front();
}

core::result<void> write_page(const std::string& file, const analysed_traces& measured,
                              const analysed_traces* predicted) {
  TROUPE_ASSIGN(const auto page, analysis_as_page(measured, predicted));
  return storage::write_file_atomically(file, page);
}

}  // namespace

analyse_command::analyse_command(CLI::App& app)
    : program_command(app, "analyse", "why a step takes as long as it does, from its trace, and what would gain most") {
  command_
      ->add_option(
          "trace", traces_,
          "a run's folder, its trace.json, or traces of torch.profiler with a file for each rank; plain or gzip")
      ->required();
  command_->add_option("--step", step_, "analyse this step alone, by its number in the trace");
  command_->add_option("--html", html_file_, "write a page that draws the lanes of the ranks, with the tables");
  auto* const given = command_->add_option(
      "--predicted", predicted_file_,
      "a trace of troupe plan --trace or troupe simulate --trace to compare with, instead of what a run's folder "
      "lets predict");
  command_->add_flag("--no-prediction", without_prediction_, "do not predict the run of a folder")->excludes(given);
  add_json(*command_, form_, "as JSON, with the figures of each step");
}

int analyse_command::run() const {
  const auto done = analysis_of(traces_, command_->count("--step") > 0 ? std::optional(step_) : std::nullopt);
  if (!done) return failed(done.error());
  std::optional<predicted_traces> predicted;
  shown_prediction shown;
  if (!predicted_file_.empty()) {
    auto given = prediction_of(predicted_file_);
    if (!given) return failed(given.error());
    predicted = predicted_traces{*std::move(given), core::printable_line(predicted_file_)};
  } else if (const auto folder = run_folder(traces_); folder && !without_prediction_) {
    auto found = predicted_run(*folder);
    if (found)
      predicted = *std::move(found);
    else
      shown.why_none = core::printable_line(found.error().text);
  }
  if (predicted) {
    shown.found = &predicted->analysed.found;
    shown.source = predicted->source;
  }
  if (!html_file_.empty())
    if (const auto ok = write_page(html_file_, *done, predicted ? &predicted->analysed : nullptr); !ok)
      return failed(ok.error());
  const auto text = form_ == output_form::json ? analysis_as_json(done->found, shown)
                                               : analysis_as_text(done->found, done->of, shown);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace troupe::apps
