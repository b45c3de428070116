#include "telemetry/curves/wandb_run.hpp"

#include <time.h>  // NOLINT: localtime_r() is POSIX's

#include <ctime>
#include <fstream>
#include <system_error>

#include "core/system/lock_holder.hpp"
#include "core/text.hpp"
#include "telemetry/curves/wandb_record.hpp"

namespace troupe::telemetry {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view newest_link = "latest-run";
constexpr size_t id_length = 8;

// Returns the local time as W&B puts it into the names of folders: `20261201_021643`.
std::string time_in_names(double unix_s) {
  const auto seconds = static_cast<std::time_t>(unix_s);
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  return core::text_of("%04d%02d%02d_%02d%02d%02d", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                       parts.tm_hour, parts.tm_min, parts.tm_sec);
}

// Points the link `latest-run` at the folder of a run. A file system without links has none, and a resumed run then
// begins a new run in W&B.
void link_newest(const fs::path& folder, const fs::path& run) {
  std::error_code e;
  const fs::path link = folder / newest_link, part = folder / ".latest-run.part";
  fs::remove(part, e);
  fs::create_directory_symlink(run.filename(), part, e);
  if (!e) fs::rename(part, link, e);
}

// Returns the run file of the newest run in the folder; empty if there is none.
fs::path newest_run(const fs::path& folder) {
  std::error_code e;
  const fs::path target = fs::read_symlink(folder / newest_link, e).filename();
  constexpr std::string_view begin = "offline-run-";
  const std::string name = target.string();
  const size_t dash = name.rfind('-');
  if (e || !name.starts_with(begin) || dash < begin.size()) return {};
  return folder / target / ("run" + name.substr(dash) + ".wandb");
}

}  // namespace

core::result<wandb_run> wandb_run::open(const wandb_options& options, double unix_s,
                                        std::optional<uint64_t> goes_on_after) {
  wandb_run out(options);
  TROUPE_TRY(make_folder(options.folder));
  bool is_found = false;
  if (goes_on_after) {
    TROUPE_ASSIGN(is_found, out.go_on(newest_run(options.folder), *goes_on_after));
  }
  if (!is_found) {
    TROUPE_TRY(out.begin(unix_s));
    return out;
  }
  out.add(wandb_settings_record(out.records_ + 1, options.about));
  TROUPE_TRY(out.flush());
  return out;
}

core::result<void> wandb_run::begin(double unix_s) {
  const std::string id = random_text(id_length, lower_letters_and_digits);
  const fs::path folder = options_.folder / ("offline-run-" + time_in_names(unix_s) + "-" + id);
  for (const char* name : {"files", "logs"}) TROUPE_TRY(make_folder(folder / name));
  path_ = folder / ("run-" + id + ".wandb");
  TROUPE_ASSIGN(auto made, append_file::create(path_));
  file_.emplace(std::move(made));
  records_ = rows_ = 0;
  begin_s_ = unix_s;
  file_->add(wandb_head);
  bytes_ = wandb_head.size();
  const wandb_facts run{id, options_.project, options_.group, options_.team, core::host_name(), unix_s};
  add(wandb_header_record(records_ + 1));
  add(wandb_run_record(records_ + 1, run, options_.about));
  add(wandb_axis_record(records_ + 1));
  add(wandb_curves_record(records_ + 1));
  TROUPE_TRY(file_->flush());
  link_newest(options_.folder, folder);
  return {};
}

core::result<bool> wandb_run::go_on(const fs::path& file, uint64_t global_samples) {
  std::error_code e;
  if (file.empty() || !fs::is_regular_file(file, e)) return false;
  std::ifstream in(file, std::ios::binary);
  const auto kept = wandb_kept_of(in, global_samples);
  in.close();
  if (!kept) return false;
  path_ = file;
  if (fs::file_size(file, e) != kept->bytes && !e) fs::resize_file(file, kept->bytes, e);
  if (e)
    return core::fail(core::error_kind::io, "cannot cut " + file.string() + " where the run resumes: " + e.message());
  // W&B takes a run with these files for uploaded as a whole.
  for (const char* ending : {".synced", ".syncstate"}) fs::remove(file.string() + ending, e);
  TROUPE_ASSIGN(auto opened, append_file::go_on(file));
  file_.emplace(std::move(opened));
  bytes_ = kept->bytes;
  records_ = kept->records;
  rows_ = kept->rows;
  begin_s_ = kept->begin_s;
  return true;
}

// Appends a record. A dropped one leaves no gap: the next record takes its place, which its frames depend on.
void wandb_run::add(std::string_view record) {
  const std::string frames = wandb_frames(record, bytes_);
  const uint64_t dropped = file_->num_dropped();
  file_->add(frames);
  if (file_->num_dropped() != dropped) return;
  bytes_ += frames.size();
  ++records_;
}

core::result<void> wandb_run::go_back(double unix_s, uint64_t global_samples) {
  core::result<void> first = flush();
  const auto note = [&first](core::result<void> did) {
    if (!did && first) first = std::move(did);
  };
  // Closing the file discards rows that could not be written yet; num_lost_ records the loss.
  if (!complete()) ++num_lost_;
  if (global_samples == 0) {
    note(end(unix_s, verdict::stopped));
    file_.reset();
    note(begin(unix_s));
    return first;
  }
  file_.reset();
  const auto did = go_on(path_, global_samples);
  if (!did)
    note(core::fail(did.error()));
  else if (!*did)
    note(core::fail(core::error_kind::io, "cannot continue " + path_.string() + ": it is no run file any more"));
  return first;
}

core::result<void> wandb_run::write(double unix_s, uint64_t global_samples, std::span<const curve_value> values) {
  if (!file_) {
    ++num_lost_;
    return core::fail(core::error_kind::io, "cannot write " + path_.string() + ": it could not be opened again");
  }
  const wandb_row row{rows_, global_samples, unix_s, unix_s - begin_s_, values};
  add(wandb_history_record(records_ + 1, row));
  add(wandb_summary_record(records_ + 1, row));
  ++rows_;
  return file_->flush();
}

core::result<void> wandb_run::flush() { return file_ ? file_->flush() : core::result<void>(); }

core::result<void> wandb_run::end(double unix_s, verdict how) {
  if (!file_) return {};
  add(wandb_end_record(records_ + 1, how, unix_s - begin_s_));
  return file_->flush();
}

bool wandb_run::complete() const {
  return num_lost_ == 0 && file_ && file_->num_dropped() == 0 && file_->waiting_bytes() == 0;
}

bool wandb_run::has_removed_file() const { return file_ && file_->is_removed(); }

}  // namespace troupe::telemetry
