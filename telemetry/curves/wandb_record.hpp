// Encodes W&B's run files byte for byte: records of protocol buffers in the frames of a LevelDB log; finds the place
// where a resumed run continues its file. Pure functions and a reader; leaves folders to wandb_run.hpp. Source: the
// descriptors of wandb_internal.proto in the package wandb 0.31, and leveldb's doc/log_format.md, from which W&B
// differs by a head of 7 bytes and by zlib's CRC-32.
#pragma once

#include <cstdint>
#include <istream>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "telemetry/curves/event_record.hpp"
#include "telemetry/curves/tracked_run.hpp"

namespace troupe::telemetry {

/// The bytes with which a run file begins.
inline constexpr std::string_view wandb_head{":W&B\xE1\xBE\0", 7};
/// Frames of records do not cross the ends of blocks of this size.
inline constexpr uint64_t wandb_block_bytes = 32768;
/// Maximum bytes of a record that is read; a longer one ends the file.
inline constexpr uint64_t wandb_record_bytes_max = uint64_t{64} << 20;

/// Facts of a run in W&B.
struct wandb_facts {
  std::string id, project, group, team;  ///< `group` and `team` may be empty
  std::string host;
  double begin_s = 0;  ///< Unix time at which it began
};

/// Returns a record as the frames that follow `file_bytes` bytes of a file.
std::string wandb_frames(std::string_view record, uint64_t file_bytes);

/// Return records, each with its number in the file: the version of the format; the run with its settings; the x axis,
/// global samples, of all curves.
std::string wandb_header_record(uint64_t number);
std::string wandb_run_record(uint64_t number, const wandb_facts& run, const tracked_run& about);
std::string wandb_axis_record(uint64_t number);
std::string wandb_curves_record(uint64_t number);
/// Returns the record with the settings of a run that resumes, in which those that have their defaults are removed.
std::string wandb_settings_record(uint64_t number, const tracked_run& about);
/// Returns the record of the run's end.
std::string wandb_end_record(uint64_t number, verdict how, double seconds);

/// A row of curves; `row` counts a run's rows from 0, `seconds` is the run's age.
struct wandb_row {
  uint64_t row = 0, global_samples = 0;
  double unix_s = 0, seconds = 0;
  std::span<const curve_value> values;
};
/// Returns the record of a row of curves, and the one of the newest values, which W&B's client writes with each row.
std::string wandb_history_record(uint64_t number, const wandb_row& row);
std::string wandb_summary_record(uint64_t number, const wandb_row& row);

/// Returns a value as JSON as Python writes it, with NaN and Infinity.
std::string wandb_number(double x);
/// Returns a setting's YAML text as JSON: numbers, truth values and quoted texts stay, other texts are
/// quoted.
std::string wandb_setting(std::string_view yaml);

/// The part of a run file that a resumed run keeps.
struct wandb_kept {
  uint64_t bytes = 0, records = 0, rows = 0;  ///< its length, and its numbers of records and rows of curves
  std::string id;                             ///< the run's name within its project
  double begin_s = 0;                         ///< Unix time at which the run began
};
/// Reads a run file up to the row before the first one with more than `last` global samples, up to the run's end, or
/// up to bytes that are no record. nullopt if it has no record of a run.
std::optional<wandb_kept> wandb_kept_of(std::istream& in, uint64_t last);

}  // namespace troupe::telemetry
