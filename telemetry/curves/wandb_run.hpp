// Owns one offline run of W&B: its folder `offline-run-TIME-ID`, the run file in it, and the link to the newest run.
// W&B itself is not contacted; `wandb sync FOLDER` uploads the run. Leaves the bytes to wandb_record.hpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "telemetry/curves/append_file.hpp"
#include "telemetry/curves/event_record.hpp"
#include "telemetry/curves/tracked_run.hpp"

namespace troupe::telemetry {

/// The place of a run in W&B.
struct wandb_options {
  std::filesystem::path folder;  ///< folder of offline runs, `wandb`
  std::string project, group, team;
  tracked_run about;
};

class wandb_run {  ///< writes a run's curves as W&B's own client does offline; used by one thread at a time
 public:
  /// Creates the folder of a new run. If `goes_on_after` is given, continues the newest run of the folder instead:
  /// rows beyond that many global samples are removed, and later ones appended. A folder without a run gets a new one.
  /// Errors: io, no_space.
  static core::result<wandb_run> open(const wandb_options& options, double unix_s,
                                      std::optional<uint64_t> goes_on_after);

  /// Removes rows beyond `global_samples`. With 0 the run so far is marked as ended, and a new one begins.
  core::result<void> go_back(double unix_s, uint64_t global_samples);
  /// Writes values of curves as one row.
  core::result<void> write(double unix_s, uint64_t global_samples, std::span<const curve_value> values);
  /// Writes all rows that could not be written before.
  core::result<void> flush();
  /// Marks the run as ended.
  core::result<void> end(double unix_s, verdict how);

  [[nodiscard]] bool complete() const;          ///< true if every row is in its file
  [[nodiscard]] bool has_removed_file() const;  ///< true if the run file was removed
  [[nodiscard]] const std::filesystem::path& file() const { return path_; }

 private:
  explicit wandb_run(wandb_options options) : options_(std::move(options)) {}
  core::result<void> begin(double unix_s);
  core::result<bool> go_on(const std::filesystem::path& file, uint64_t global_samples);
  void add(std::string_view record);

  wandb_options options_;
  std::filesystem::path path_;       ///< the run file
  std::optional<append_file> file_;  ///< nullopt: it could not be opened
  uint64_t bytes_ = 0, records_ = 0, rows_ = 0;
  double begin_s_ = 0;
  uint64_t num_lost_ = 0;  ///< number of rows that were lost because the file could not be opened
};

}  // namespace troupe::telemetry
