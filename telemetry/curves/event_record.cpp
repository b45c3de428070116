#include "telemetry/curves/event_record.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>

#include "telemetry/text.hpp"

namespace troupe::telemetry {
namespace {

constexpr std::array<uint32_t, 256> crc_table = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1) != 0 ? 0x82F63B78U : 0U);
    table[i] = c;
  }
  return table;
}();

void put_little_endian(std::string& out, auto x) {
  for (size_t i = 0; i < sizeof x; ++i) out += static_cast<char>((x >> (8 * i)) & 0xFF);
}

// Encoding of protocol buffers: a field is its number and wire type, then a varint (0), 8 bytes (1), length and bytes
// (2) or 4 bytes (5).
void put_varint(std::string& out, uint64_t x) {
  for (; x >= 0x80; x >>= 7) out += static_cast<char>((x & 0x7F) | 0x80);
  out += static_cast<char>(x);
}
void put_bytes(std::string& out, uint32_t field, std::string_view bytes) {
  put_varint(out, field << 3 | 2);
  put_varint(out, bytes.size());
  out += bytes;
}
void put_wall_time(std::string& out, double unix_s) {
  put_varint(out, 1 << 3 | 1);
  put_little_endian(out, std::bit_cast<uint64_t>(unix_s));
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t c = 0xFFFFFFFFU;
  for (char b : bytes) c = (c >> 8) ^ crc_table[(c ^ static_cast<unsigned char>(b)) & 0xFF];
  return ~c;
}

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
    put_varint(value, 2 << 3 | 5);
    put_little_endian(value, std::bit_cast<uint32_t>(static_cast<float>(v.value)));
    put_bytes(summary, 1, value);
  }
  std::string event;
  put_wall_time(event, unix_s);
  put_varint(event, 2 << 3 | 0);
  put_varint(event, step);
  put_bytes(event, 5, summary);
  return event;
}

std::string restart_event(double unix_s, uint64_t step) {
  std::string session;  // a SessionLog message with status START
  put_varint(session, 1 << 3 | 0);
  put_varint(session, 1);
  std::string event;
  put_wall_time(event, unix_s);
  put_varint(event, 2 << 3 | 0);
  put_varint(event, step);
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
