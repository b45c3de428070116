#include "telemetry/curves/event_record.hpp"

#include <fmt/format.h>

#include <bit>

#include "telemetry/curves/checksum.hpp"
#include "telemetry/curves/protobuf.hpp"
#include "telemetry/text.hpp"

namespace troupe::telemetry {
namespace {

void put_wall_time(std::string& out, double unix_s) {
  put_key(out, 1, wire_type::eight_bytes);
  put_little_endian(out, std::bit_cast<uint64_t>(unix_s));
}

}  // namespace

uint32_t masked_crc32c(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xA282EAD8U; }

std::string tf_record(std::string_view payload) {
  std::string out;
  put_little_endian(out, uint64_t{payload.size()});
  put_little_endian(out, masked_crc32c(out));
  out += payload;
  put_little_endian(out, masked_crc32c(payload));
  return out;
}

std::string version_event(double unix_s) {
  std::string event;
  put_wall_time(event, unix_s);
  put_bytes(event, 3, "brain.Event:2");
  return event;
}

std::string summary_event(double unix_s, uint64_t step, std::span<const curve_value> values) {
  std::string summary;
  for (const auto& v : values) {
    std::string value;
    put_bytes(value, 1, v.label);
    put_key(value, 2, wire_type::four_bytes);
    put_little_endian(value, std::bit_cast<uint32_t>(static_cast<float>(v.value)));
    put_bytes(summary, 1, value);
  }
  std::string event;
  put_wall_time(event, unix_s);
  put_integer(event, 2, step);
  put_bytes(event, 5, summary);
  return event;
}

std::string restart_event(double unix_s, uint64_t step) {
  std::string session;  // a SessionLog message with status START
  put_integer(session, 1, 1);
  std::string event;
  put_wall_time(event, unix_s);
  put_integer(event, 2, step);
  put_bytes(event, 7, session);
  return event;
}

std::string event_file_name(double unix_s, std::string_view host, int64_t process) {
  std::string name(host);
  for (char& c : name)
    if (c == '/' || static_cast<unsigned char>(c) <= 0x20) c = '_';
  return fmt::format("{}{}.{}.0", text_of("events.out.tfevents.%010lld.", static_cast<long long>(unix_s)), name,
                     process);
}

}  // namespace troupe::telemetry
