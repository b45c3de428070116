// TensorBoard's event files, byte for byte: TFRecord frames around Event messages. Pure functions to bytes.
// Source: tensorflow/core/lib/io/record_writer.h (frames), tensorflow/core/util/event.proto and
// framework/summary.proto (fields), as read by the tensorboard package.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace troupe::telemetry {

/// One value of one curve. Labels are DeepSpeed's, `/` between their parts.
struct curve_value {
  std::string_view label;
  double value = 0;
};

/// CRC-32C (Castagnoli, reflected), as RFC 3720 B.4 has it: crc32c("123456789") = 0xE3069283.
uint32_t crc32c(std::string_view bytes);

/// The rotated and offset checksum that TFRecord stores.
uint32_t masked_crc32c(std::string_view bytes);

/// `payload` as one record: length, its checksum, payload, its checksum.
std::string tf_record(std::string_view payload);

/// The event every file begins with.
std::string version_event(double unix_s);

/// The first event of a resumed run's file: tensorboard leaves out what older files have at `step` and beyond.
std::string restart_event(double unix_s, uint64_t step);

/// One event with a value for each label, at x = `step`. Values are stored in fp32, as torch's SummaryWriter does.
std::string summary_event(double unix_s, uint64_t step, std::span<const curve_value> values);

/// events.out.tfevents.SECONDS.HOST.PROCESS.0: the part up to SECONDS is how tensorboard finds a file, its order in
/// time is how it orders several. Slashes and control characters in `host` become '_'.
std::string event_file_name(double unix_s, std::string_view host, int64_t process);

}  // namespace troupe::telemetry
