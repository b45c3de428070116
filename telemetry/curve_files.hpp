// The curves of a run on disk: CSV as DeepSpeed's csv_monitor, TensorBoard event files, JSON lines.
// Owns the files; what is in them is decided by step_values.hpp and recorder.hpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "core/error.hpp"
#include "telemetry/append_file.hpp"
#include "telemetry/event_record.hpp"

namespace troupe::telemetry {

/// An empty path: that kind is not written.
struct curve_options {
  std::filesystem::path csv_folder, events_folder, json_lines_file;
  /// Global samples after which a run resumes. Rows up to there stay, those of steps that were lost are dropped, and
  /// new ones follow: one curve. None: a new run.
  std::optional<uint64_t> goes_on_after{};
};

/// `Train/Samples/lr` is in `Train_Samples_lr.csv`, as DeepSpeed names it: '/' and ' ' become '_'.
std::string csv_file_name(std::string_view label);
/// `step,lr`: the first row of that file.
std::string csv_header(std::string_view label);

class curve_files {  ///< the files that curves are written to
 public:
  /// Makes folders and files; JSON lines and CSV of an earlier run become NAME.previous, where this one does not
  /// resume it. An event file is always a new one; where a run resumes it begins with the mark that makes tensorboard
  /// leave out what older ones have from there on. Every folder has been written to when this returns well. Errors: io,
  /// no_space; bad_input where a file that is no curve has a curve's name, then nothing is made or changed; with the
  /// key that asked for the file in front. Files of other names are left alone.
  static core::result<curve_files> open(const curve_options& options, double unix_s);

  /// The run is where it was after so many global samples; 0: it begins anew. What was written beyond is dropped from
  /// CSV and JSON lines, which become NAME.previous where the run begins anew; the event file gets the mark. Errors:
  /// io, no_space; what is written next tries once more.
  core::result<void> go_back(double unix_s, uint64_t global_samples);

  /// Values at one x. Values that are not finite are kept as they are (`nan`, `inf`).
  core::result<void> write(double unix_s, uint64_t global_samples, std::span<const curve_value> values);

  /// One object, without its line end.
  core::result<void> write_line(const std::string& json);

  /// Tries once more what waits; the error is the first file's that cannot be written.
  core::result<void> flush();

  /// Every record is in its file: none was dropped, none waits for a disk that is full.
  [[nodiscard]] bool complete() const;

 private:
  [[nodiscard]] core::result<append_file> make(const std::filesystem::path& file) const;

  std::filesystem::path csv_folder_, lines_file_;
  bool goes_on_ = false;
  std::map<std::string, append_file, std::less<>> csv_;  ///< by label
  std::optional<append_file> events_, lines_;
  uint64_t num_lost_ = 0;  ///< records whose file could not even be made, or went while a disk was full
};

}  // namespace troupe::telemetry
