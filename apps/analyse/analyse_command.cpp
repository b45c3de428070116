#include "apps/analyse/analyse_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>

#include "apps/analyse/analysis_page.hpp"
#include "apps/analyse/analysis_text.hpp"
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

/// Writes the page of an analysis, and of the prediction in file `predicted` unless it is empty.
core::result<void> write_page(const std::string& file, const analysed_traces& measured, const std::string& predicted) {
  std::optional<analysed_traces> foretold;
  if (!predicted.empty()) {
    TROUPE_ASSIGN(foretold, prediction_of(predicted));
  }
  TROUPE_ASSIGN(const auto page, analysis_as_page(measured, foretold ? &*foretold : nullptr));
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
  auto* const html =
      command_->add_option("--html", html_file_, "write a page that draws the lanes of the ranks, with the tables");
  command_
      ->add_option(
          "--predicted", predicted_file_,
          "with --html: a trace of troupe plan --trace or troupe simulate --trace, whose lanes are drawn above "
          "the measured ones")
      ->needs(html);
  add_json(*command_, form_, "as JSON, with the figures of each step");
}

int analyse_command::run() const {
  const auto done = analysis_of(traces_, command_->count("--step") > 0 ? std::optional(step_) : std::nullopt);
  if (!done) return failed(done.error());
  if (!html_file_.empty())
    if (const auto ok = write_page(html_file_, *done, predicted_file_); !ok) return failed(ok.error());
  std::fputs(
      (form_ == output_form::json ? analysis_as_json(done->found) : analysis_as_text(done->found, done->of)).c_str(),
      stdout);
  return 0;
}

}  // namespace troupe::apps
