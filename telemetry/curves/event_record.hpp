// Encodes TensorBoard's event files byte for byte: TFRecord frames around Event messages. Pure functions that return
// bytes. Source: tensorflow/core/lib/io/record_writer.h (frames), tensorflow/core/util/event.proto and
// framework/summary.proto (fields), as read by the tensorboard package.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace troupe::telemetry {

/// One value of one curve. Labels are DeepSpeed's; `/` separates their parts.
struct curve_value {
  std::string_view label;
  double value = 0;
};

/// Returns the rotated and offset CRC-32C that TFRecord stores.
uint32_t masked_crc32c(std::string_view bytes);

/// Returns `payload` as one record: length, its checksum, payload, its checksum.
std::string tf_record(std::string_view payload);

/// Returns the event that states the format's version, with which every event file begins.
std::string version_event(double unix_s);

/// Returns the first event of a resumed run's file, which makes tensorboard ignore values of older files at `step` and
/// beyond.
std::string restart_event(double unix_s, uint64_t step);

/// Returns one event with a value for each label, at x = `step`. Values are stored in fp32, as torch's SummaryWriter
/// does.
std::string summary_event(double unix_s, uint64_t step, std::span<const curve_value> values);

/// Returns events.out.tfevents.SECONDS.HOST.PROCESS.0. Tensorboard finds a file by the part up to SECONDS, and orders
/// several files by their names. Slashes and control characters in `host` become '_'.
std::string event_file_name(double unix_s, std::string_view host, int64_t process);

}  // namespace troupe::telemetry
