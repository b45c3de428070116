#include "telemetry/curves/mlflow_run.hpp"

#include <algorithm>
#include <functional>
#include <system_error>
#include <utility>
#include <vector>

#include "core/number.hpp"
#include "telemetry/curves/cut_curve.hpp"
#include "telemetry/curves/mlflow_text.hpp"

namespace troupe::telemetry {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view default_experiment_id = "0", default_experiment = "Default";
// Name of the tag with the output folder of a run, relative to the store.
constexpr std::string_view output_tag = "troupe.output";
// Maximum bytes of a `meta.yaml` and of a tag that are read.
constexpr size_t metadata_bytes_max = size_t{1} << 16;

int64_t milliseconds(double unix_s) { return static_cast<int64_t>(unix_s * 1e3); }

// Calls f(folder) for each folder in `parent` that has a meta.yaml.
void for_each_described(const fs::path& parent, const std::function<void(const fs::path&)>& f) {
  std::error_code e;
  for (fs::directory_iterator at(parent, e), last; !e && at != last; at.increment(e)) {
    std::error_code none;
    if (fs::is_regular_file(at->path() / "meta.yaml", none)) f(at->path());
  }
}

core::result<void> make_experiment(const fs::path& store, std::string_view id, std::string_view name, int64_t unix_ms) {
  const fs::path folder = store / id;
  TROUPE_TRY(make_folder(folder));
  return put_text(folder / "meta.yaml", mlflow_experiment_text(id, name, fs::absolute(folder), unix_ms));
}

}  // namespace

core::result<mlflow_run> mlflow_run::open(const mlflow_options& options, double unix_s,
                                          std::optional<uint64_t> goes_on_after) {
  mlflow_run out(options);
  TROUPE_TRY(out.find_experiment(milliseconds(unix_s)));
  bool is_found = false;
  if (goes_on_after) {
    TROUPE_ASSIGN(is_found, out.go_on(*goes_on_after));
  }
  if (!is_found) TROUPE_TRY(out.begin(milliseconds(unix_s)));
  return out;
}

core::result<void> mlflow_run::find_experiment(int64_t unix_ms) {
  TROUPE_TRY(make_folder(options_.store));
  bool has_default = false;
  for_each_described(options_.store, [&](const fs::path& folder) {
    const auto name = mlflow_experiment_name(small_text(folder / "meta.yaml", metadata_bytes_max));
    const std::string id = folder.filename().string();
    has_default = has_default || id == default_experiment_id;
    if (name == options_.experiment && (experiment_id_.empty() || id < experiment_id_)) experiment_id_ = id;
  });
  // MLflow's client makes the experiment 0 in a new store, and its pages begin with it.
  if (!has_default) {
    TROUPE_TRY(make_experiment(options_.store, default_experiment_id, default_experiment, unix_ms));
    if (options_.experiment == default_experiment) experiment_id_ = default_experiment_id;
  }
  if (!experiment_id_.empty()) return {};
  std::error_code e;
  do experiment_id_ = random_text(1, decimal_digits.substr(1)) + random_text(17, decimal_digits);
  while (fs::exists(options_.store / experiment_id_, e));
  return make_experiment(options_.store, experiment_id_, options_.experiment, unix_ms);
}

core::result<void> mlflow_run::begin(int64_t unix_ms) {
  const std::string id = random_text(32, hex_digits);
  folder_ = fs::absolute(options_.store / experiment_id_ / id);
  for (const char* name : {"artifacts", "metrics", "params", "tags"}) TROUPE_TRY(make_folder(folder_ / name));
  const std::string user = user_name();
  const std::vector<std::pair<std::string_view, std::string>> tags = {
      {"mlflow.runName", options_.about.name},
      {"mlflow.user", user},
      {"mlflow.source.name", "troupe"},
      {"mlflow.source.type", "LOCAL"},
      {output_tag, run_seen_from(options_.run, options_.store)}};
  for (const auto& [name, value] : tags)
    if (!value.empty()) TROUPE_TRY(put_text(folder_ / "tags" / name, valid_utf8(value)));
  TROUPE_TRY(put_settings(true));
  // The run exists for readers once it has this file.
  return put_text(folder_ / "meta.yaml",
                  mlflow_run_text({id, experiment_id_, options_.about.name, user, folder_, unix_ms}));
}

core::result<bool> mlflow_run::go_on(uint64_t global_samples) {
  const std::string output = valid_utf8(run_seen_from(options_.run, options_.store));
  if (output.empty()) return false;
  int64_t newest_ms = -1;
  for_each_described(options_.store / experiment_id_, [&](const fs::path& folder) {
    if (small_text(folder / "tags" / output_tag, metadata_bytes_max) != output) return;
    const std::string text = small_text(folder / "meta.yaml", metadata_bytes_max);
    if (mlflow_value(text, "lifecycle_stage") != "active") return;
    const auto began_ms = core::number_of<int64_t>(mlflow_value(text, "start_time")).value_or(0);
    if (began_ms <= newest_ms) return;
    newest_ms = began_ms;
    folder_ = fs::absolute(folder);
  });
  if (folder_.empty()) return false;
  TROUPE_TRY(cut(global_samples));
  TROUPE_TRY(put_settings(false));
  const fs::path about = folder_ / "meta.yaml";
  TROUPE_TRY(put_text(about, mlflow_resumed_text(small_text(about, metadata_bytes_max))));
  return true;
}

core::result<void> mlflow_run::cut(uint64_t global_samples) {
  std::vector<fs::path> files;
  std::error_code e;
  for (fs::recursive_directory_iterator at(folder_ / "metrics", e), last; !e && at != last; at.increment(e))
    if (std::error_code none; at->is_regular_file(none)) files.push_back(at->path());
  for (const auto& file : files) {
    TROUPE_TRY(cut_curve(file, global_samples, mlflow_place));
    // MLflow refuses to read a run with an empty metric.
    std::error_code none;
    if (fs::file_size(file, none) == 0 && !none) fs::remove(file, none);
  }
  return {};
}

core::result<void> mlflow_run::put_settings(bool is_new) {
  for (const auto& s : options_.about.settings) {
    if (!is_mlflow_name(s.key)) continue;
    const fs::path file = folder_ / "params" / s.key;
    std::error_code e;
    if (!s.is_default) {
      TROUPE_TRY(make_folder(file.parent_path()));
      TROUPE_TRY(put_text(file, mlflow_parameter(s.value)));
    } else if (!is_new) {
      fs::remove(file, e);  // a file of that name tells of the time before the run resumed with other settings
    }
  }
  return {};
}

core::result<void> mlflow_run::go_back(double unix_s, uint64_t global_samples) {
  core::result<void> first = flush();
  const auto note = [&first](core::result<void> did) {
    if (!did && first) first = std::move(did);
  };
  // metrics_.clear() discards values that could not be written yet; num_lost_ records the loss.
  if (!complete()) ++num_lost_;
  if (global_samples == 0) note(end(unix_s, verdict::stopped));
  metrics_.clear();
  note(global_samples == 0 ? begin(milliseconds(unix_s)) : cut(global_samples));
  return first;
}

core::result<append_file> mlflow_run::open_metric(std::string_view label) const {
  const fs::path path = folder_ / "metrics" / label;
  // The folder of a run that was removed is not made again: it would be a run without metadata.
  std::error_code e;
  if (!fs::is_directory(folder_, e))
    return core::fail(core::error_kind::io, "cannot write " + path.string() + ": the run's folder was removed");
  TROUPE_TRY(make_folder(path.parent_path()));
  return append_file::go_on(path);
}

core::result<void> mlflow_run::write(double unix_s, uint64_t global_samples, std::span<const curve_value> values) {
  core::result<void> first = {};
  const auto note = [&first](core::result<void> did) {
    if (!did && first) first = std::move(did);
  };
  for (const auto& v : values) {
    auto file = metrics_.find(v.label);
    if (file == metrics_.end()) {
      auto made = open_metric(v.label);
      if (!made) {
        ++num_lost_;
        note(core::fail(made.error()));
        continue;
      }
      file = metrics_.emplace(std::string(v.label), std::move(*made)).first;
    }
    file->second.add(mlflow_row(milliseconds(unix_s), v.value, global_samples));
    note(file->second.flush());
  }
  return first;
}

core::result<void> mlflow_run::flush() {
  core::result<void> first = {};
  for (auto& [label, file] : metrics_)
    if (auto did = file.flush(); !did && first) first = std::move(did);
  return first;
}

core::result<void> mlflow_run::end(double unix_s, verdict how) {
  core::result<void> first = flush();
  for (const auto& [label, file] : metrics_) {
    std::error_code e;
    if (fs::file_size(file.path(), e) == 0 && !e) fs::remove(file.path(), e);
  }
  const fs::path about = folder_ / "meta.yaml";
  const std::string text = small_text(about, metadata_bytes_max);
  if (text.empty())
    return core::fail(core::error_kind::io, "cannot write " + about.string() + ": the file was removed during the run");
  auto did = put_text(about, mlflow_ended_text(text, how, milliseconds(unix_s)));
  if (!did && first) first = std::move(did);
  return first;
}

bool mlflow_run::complete() const {
  return num_lost_ == 0 && std::ranges::all_of(metrics_, [](const auto& m) {
           return m.second.num_dropped() == 0 && m.second.waiting_bytes() == 0;
         });
}

bool mlflow_run::has_removed_file() const {
  return std::ranges::any_of(metrics_, [](const auto& m) { return m.second.is_removed(); });
}

}  // namespace troupe::telemetry
