#include "telemetry/curves/curve_files.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <vector>

#include "telemetry/curves/cut_curve.hpp"
#include "telemetry/curves/step_values.hpp"
#include "telemetry/text.hpp"

namespace troupe::telemetry {
namespace {

namespace fs = std::filesystem;

// Checks that a file can be created in the folder, before there is anything to write.
core::result<void> try_folder(const fs::path& folder) {
  const fs::path probe = folder / fmt::format(".troupe-{}", ::getpid());
  TROUPE_TRY(append_file::create(probe));
  std::error_code e;
  fs::remove(probe, e);
  return {};
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' ? name : "localhost";
}

std::string csv_number(double x) {
  if (std::isfinite(x)) return json_number(x);
  return std::isnan(x) ? "nan" : x > 0 ? "inf" : "-inf";
}

// Returns the labels whose CSV files a run may have in `folder`: Troupe's own, those of its validation sets, and those
// of metrics whose files exist.
std::vector<std::string> labels_in(const fs::path& folder, const std::vector<std::string>& validation_sets) {
  std::vector<std::string> out(all_labels.begin(), all_labels.end());
  for (const auto& set : validation_sets) out.push_back(label_of_set(set));
  const std::string begin = fs::path(csv_file_name(metric_label_begin)).stem().string(), end = ".csv";
  std::error_code e;
  for (fs::directory_iterator at(folder, e), last; !e && at != last; at.increment(e)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(begin) || !name.ends_with(end) || name.size() <= begin.size() + end.size()) continue;
    const auto metric = name.substr(begin.size(), name.size() - begin.size() - end.size());
    if (is_metric_name(metric)) out.push_back(std::string(metric_label_begin) + metric);
  }
  return out;
}

// Checks that existing files with the names of curve files are curves of an earlier run, so that no other file is
// renamed or truncated. Changes nothing.
core::result<void> check_files(const curve_options& o) {
  if (!o.csv_folder.empty())
    for (const auto& label : labels_in(o.csv_folder, o.validation_sets))
      if (auto ok = check_is_curve(o.csv_folder / csv_file_name(label), csv_begins, csv_header(label)); !ok)
        return core::fail(ok.error().in("csv_monitor"));
  if (!o.json_lines_file.empty())
    if (auto ok = check_is_curve(o.json_lines_file, json_begins, {}); !ok)
      return core::fail(ok.error().in("telemetry.json_lines"));
  return {};
}

// Removes the rows beyond `last` global samples from the CSV files of all labels, including labels for which this run
// has no value yet.
core::result<void> cut_csv_files(const fs::path& folder, const std::vector<std::string>& validation_sets,
                                 uint64_t last) {
  for (const auto& label : labels_in(folder, validation_sets))
    TROUPE_TRY(cut_curve(folder / csv_file_name(label), last, csv_place));
  return {};
}

}  // namespace

std::string csv_file_name(std::string_view label) {
  std::string out(label);
  for (char& c : out)
    if (c == '/' || c == ' ') c = '_';
  return out + ".csv";
}

std::string csv_header(std::string_view label) { return "step," + std::string(label.substr(label.rfind('/') + 1)); }

core::result<append_file> curve_files::make(const fs::path& file) const {
  return goes_on_ ? append_file::go_on(file) : append_file::create(file);
}

core::result<curve_files> curve_files::open(const curve_options& options, double unix_s) {
  curve_files out;
  out.goes_on_ = options.goes_on_after.has_value();
  out.validation_sets_ = options.validation_sets;
  TROUPE_TRY(check_files(options));
  if (!options.csv_folder.empty()) {
    if (auto ok = make_folder(options.csv_folder); !ok) return core::fail(ok.error().in("csv_monitor"));
    if (auto ok = try_folder(options.csv_folder); !ok) return core::fail(ok.error().in("csv_monitor"));
    auto claim = curve_claim::take(options.csv_folder, {options.run, out.goes_on_, options.took_over});
    if (!claim) return core::fail(claim.error().in("csv_monitor"));
    out.claim_.emplace(std::move(*claim));
    out.csv_folder_ = options.csv_folder;
    if (out.goes_on_)
      if (auto ok = cut_csv_files(options.csv_folder, options.validation_sets, *options.goes_on_after); !ok)
        return core::fail(ok.error().in("csv_monitor"));
  }
  if (!options.events_folder.empty()) {
    if (auto ok = make_folder(options.events_folder); !ok) return core::fail(ok.error().in("tensorboard"));
    auto file = append_file::create(options.events_folder / event_file_name(unix_s, host_name(), ::getpid()));
    if (!file) return core::fail(file.error().in("tensorboard"));
    out.events_.emplace(std::move(*file));
    out.events_->add(tf_record(version_event(unix_s)));
    if (out.goes_on_) out.events_->add(tf_record(restart_event(unix_s, *options.goes_on_after + 1)));
    if (auto ok = out.events_->flush(); !ok) return core::fail(ok.error().in("tensorboard"));
  }
  if (!options.json_lines_file.empty()) {
    if (auto ok = make_folder(options.json_lines_file.parent_path()); !ok)
      return core::fail(ok.error().in("telemetry.json_lines"));
    if (out.goes_on_)
      if (auto ok = cut_curve(options.json_lines_file, *options.goes_on_after, json_place); !ok)
        return core::fail(ok.error().in("telemetry.json_lines"));
    auto file = out.make(options.json_lines_file);
    if (!file) return core::fail(file.error().in("telemetry.json_lines"));
    out.lines_.emplace(std::move(*file));
    out.lines_file_ = options.json_lines_file;
  }
  if (options.mlflow) {
    auto run = mlflow_run::open(*options.mlflow, unix_s, options.goes_on_after);
    if (!run) return core::fail(run.error().in("mlflow"));
    out.mlflow_.emplace(std::move(*run));
  }
  if (options.wandb) {
    auto run = wandb_run::open(*options.wandb, unix_s, options.goes_on_after);
    if (!run) return core::fail(run.error().in("wandb"));
    out.wandb_.emplace(std::move(*run));
  }
  return out;
}

core::result<void> curve_files::go_back(double unix_s, uint64_t global_samples) {
  core::result<void> first = flush();
  const auto note = [&first](core::result<void> did) {
    if (!did && first) first = std::move(did);
  };
  // csv_.clear() and lines_.reset() below discard rows that could not be written yet; num_lost_ records the loss.
  if (!complete()) ++num_lost_;
  goes_on_ = global_samples > 0;
  if (events_) {
    events_->add(tf_record(restart_event(unix_s, goes_on_ ? global_samples + 1 : 0)));
    note(events_->flush());
  }
  csv_.clear();
  if (goes_on_ && !csv_folder_.empty()) note(cut_csv_files(csv_folder_, validation_sets_, global_samples));
  lines_.reset();
  if (goes_on_ && !lines_file_.empty()) note(cut_curve(lines_file_, global_samples, json_place));
  if (mlflow_) note(mlflow_->go_back(unix_s, global_samples));
  if (wandb_) note(wandb_->go_back(unix_s, global_samples));
  return first;
}

core::result<void> curve_files::write(double unix_s, uint64_t global_samples, std::span<const curve_value> values) {
  core::result<void> first = {};
  const auto note = [&first](core::result<void> did) {
    if (!did && first) first = std::move(did);
  };
  if (events_) {
    events_->add(tf_record(summary_event(unix_s, global_samples, values)));
    note(events_->flush());
  }
  if (mlflow_) note(mlflow_->write(unix_s, global_samples, values));
  if (wandb_) note(wandb_->write(unix_s, global_samples, values));
  if (csv_folder_.empty()) return first;
  for (const auto& v : values) {
    auto file = csv_.find(v.label);
    if (file == csv_.end()) {
      auto made = make(csv_folder_ / csv_file_name(v.label));
      if (!made) {
        ++num_lost_;
        note(core::fail(made.error()));
        continue;
      }
      file = csv_.emplace(std::string(v.label), std::move(*made)).first;
      if (file->second.is_empty()) file->second.add(csv_header(v.label) + "\n");
    }
    file->second.add(fmt::format("{},{}\n", global_samples, csv_number(v.value)));
    note(file->second.flush());
  }
  return first;
}

core::result<void> curve_files::write_line(const std::string& json) {
  if (lines_file_.empty()) return {};
  if (!lines_) {
    auto made = make(lines_file_);
    if (!made) {
      ++num_lost_;
      return core::fail(made.error());
    }
    lines_.emplace(std::move(*made));
  }
  lines_->add(json + "\n");
  return lines_->flush();
}

core::result<void> curve_files::flush() {
  core::result<void> first = {};
  const auto note = [&first](core::result<void> did) {
    if (!did && first) first = std::move(did);
  };
  if (events_) note(events_->flush());
  for (auto& [label, file] : csv_) note(file.flush());
  if (lines_) note(lines_->flush());
  if (mlflow_) note(mlflow_->flush());
  if (wandb_) note(wandb_->flush());
  return first;
}

core::result<void> curve_files::end(double unix_s, verdict how) {
  core::result<void> first = flush();
  const auto note = [&first](core::result<void> did) {
    if (!did && first) first = std::move(did);
  };
  if (mlflow_) note(mlflow_->end(unix_s, how));
  if (wandb_) note(wandb_->end(unix_s, how));
  return first;
}

bool curve_files::complete() const {
  if (num_lost_ > 0) return false;
  const auto whole = [](const append_file& f) { return f.num_dropped() == 0 && f.waiting_bytes() == 0; };
  for (const auto& [label, file] : csv_)
    if (!whole(file)) return false;
  return (!events_ || whole(*events_)) && (!lines_ || whole(*lines_)) && (!mlflow_ || mlflow_->complete()) &&
         (!wandb_ || wandb_->complete());
}

bool curve_files::has_removed_file() const {
  for (const auto& [label, file] : csv_)
    if (file.is_removed()) return true;
  if ((mlflow_ && mlflow_->has_removed_file()) || (wandb_ && wandb_->has_removed_file())) return true;
  return (events_ && events_->is_removed()) || (lines_ && lines_->is_removed());
}

}  // namespace troupe::telemetry
