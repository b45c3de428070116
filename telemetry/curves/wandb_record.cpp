#include "telemetry/curves/wandb_record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/number.hpp"
#include "core/text.hpp"
#include "telemetry/curves/checksum.hpp"
#include "telemetry/curves/protobuf.hpp"
#include "telemetry/text.hpp"

namespace troupe::telemetry {
namespace {

constexpr uint64_t frame_head_bytes = 7;  // checksum, length and kind of a frame
enum class frame_kind : uint8_t { whole = 1, first, middle, last };

// Field numbers of the message Record.
constexpr uint32_t record_number = 1, record_history = 2, record_summary = 3, record_config = 5, record_metric = 12,
                   record_run = 17, record_exit = 18, record_header = 21;
// Field numbers within ConfigItem, HistoryItem and SummaryItem.
constexpr uint32_t item_key = 1, item_nested_key = 2, item_json = 16;
// Field numbers of the message RunRecord.
constexpr uint32_t id_of_run = 1, team_of_run = 2, project_of_run = 3, config_of_run = 4, group_of_run = 6,
                   name_of_run = 8, host_of_run = 13, start_of_run = 17;

constexpr std::string_view axis_name = "global_samples";
// Codes with which W&B's client ends: success, an error, and Ctrl-C.
constexpr uint64_t code_done = 0, code_failed = 1, code_stopped = 255;

std::string numbered(uint64_t number, uint32_t field, std::string_view message) {
  std::string out;
  put_integer(out, record_number, number);
  put_bytes(out, field, message);
  return out;
}

// Appends a number; a field that is 0 is left out, as protocol buffers do.
void put_number(std::string& out, uint32_t field, uint64_t x) {
  if (x != 0) put_integer(out, field, x);
}

void put_name(std::string& out, uint32_t field, std::string_view text) {
  if (!text.empty()) put_bytes(out, field, valid_utf8(text));
}

void put_item(std::string& out, uint32_t key_field, std::string_view key, std::string_view json) {
  std::string item;
  put_name(item, key_field, key);
  put_bytes(item, item_json, json);
  put_bytes(out, 1, item);
}

std::string settings_message(const tracked_run& about, bool is_new) {
  std::string out;
  if (is_new) put_item(out, item_key, "_wandb", "{}");
  for (const auto& s : about.settings)
    if (!s.is_default) put_item(out, item_key, s.key, wandb_setting(s.value));
  if (is_new) return out;
  for (const auto& s : about.settings) {
    if (!s.is_default) continue;
    std::string item;
    put_name(item, item_key, s.key);
    put_bytes(out, 2, item);
  }
  return out;
}

std::string row_items(const wandb_row& row) {
  std::string out;
  for (const auto& v : row.values) put_item(out, item_nested_key, v.label, wandb_number(v.value));
  put_item(out, item_nested_key, axis_name, fmt::to_string(row.global_samples));
  put_item(out, item_nested_key, "_step", fmt::to_string(row.row));
  put_item(out, item_nested_key, "_timestamp", wandb_number(row.unix_s));
  put_item(out, item_nested_key, "_runtime", wandb_number(row.seconds));
  return out;
}

/// Returns the first field with this number; an empty field without number if there is none.
proto_field field_in(std::string_view message, uint32_t number) {
  while (const auto field = take_field(message))
    if (field->number == number) return *field;
  return {};
}

/// Returns the global samples of a row of curves.
std::optional<uint64_t> samples_of(std::string_view history) {
  while (const auto item = take_field(history))
    if (item->number == 1 && field_in(item->bytes, item_nested_key).bytes == axis_name)
      return core::number_of<uint64_t>(field_in(item->bytes, item_json).bytes);
  return std::nullopt;
}

/// Reads the records of a run file, one after another.
class record_reader {
 public:
  explicit record_reader(std::istream& in) : in_(in) {}

  /// True if the file begins as run files do.
  bool begins() {
    std::string head;
    return read(wandb_head.size(), head) && head == wandb_head;
  }

  /// Returns the next record; nullopt at the end, and at bytes that are no record.
  std::optional<std::string> next() {
    std::string out, part;
    for (bool is_first = true;; is_first = false) {
      const uint64_t left = wandb_block_bytes - bytes_ % wandb_block_bytes;
      if (left < frame_head_bytes && !read(left, part)) return std::nullopt;
      if (!read(frame_head_bytes, part)) return std::nullopt;
      const auto at = [&](size_t i) { return uint32_t{static_cast<unsigned char>(part[i])}; };
      const uint32_t sum = at(0) | at(1) << 8 | at(2) << 16 | at(3) << 24;
      const uint64_t length = at(4) | at(5) << 8;
      const auto kind = static_cast<frame_kind>(at(6));
      const char code = part[6];
      const bool fits = is_first ? kind == frame_kind::whole || kind == frame_kind::first
                                 : kind == frame_kind::middle || kind == frame_kind::last;
      if (!fits || out.size() + length > wandb_record_bytes_max || !read(length, part)) return std::nullopt;
      if (crc32(part, crc32({&code, 1})) != sum) return std::nullopt;
      out += part;
      if (kind == frame_kind::whole || kind == frame_kind::last) return out;
    }
  }

  /// Returns the number of bytes up to the end of the record that was read last.
  [[nodiscard]] uint64_t bytes() const { return bytes_; }

 private:
  bool read(uint64_t count, std::string& into) {
    into.resize(static_cast<size_t>(count));
    in_.read(into.data(), static_cast<std::streamsize>(count));
    bytes_ += count;
    return in_.gcount() == static_cast<std::streamsize>(count);
  }

  std::istream& in_;
  uint64_t bytes_ = 0;
};

}  // namespace

std::string wandb_frames(std::string_view record, uint64_t file_bytes) {
  std::string out;
  const auto room = [&] { return wandb_block_bytes - (file_bytes + out.size()) % wandb_block_bytes; };
  if (room() < frame_head_bytes) out.append(static_cast<size_t>(room()), '\0');
  for (bool is_first = true;; is_first = false) {
    const auto part = record.substr(0, static_cast<size_t>(room() - frame_head_bytes));
    record.remove_prefix(part.size());
    const frame_kind kind = is_first ? (record.empty() ? frame_kind::whole : frame_kind::first)
                                     : (record.empty() ? frame_kind::last : frame_kind::middle);
    const char code = static_cast<char>(kind);
    put_little_endian(out, crc32(part, crc32({&code, 1})));
    put_little_endian(out, static_cast<uint16_t>(part.size()));
    out += code;
    out += part;
    if (record.empty()) return out;
  }
}

std::string wandb_header_record(uint64_t number) {
  std::string version, header;
  put_bytes(version, 1, "troupe");
  put_bytes(header, 1, version);
  return numbered(number, record_header, header);
}

std::string wandb_run_record(uint64_t number, const wandb_facts& run, const tracked_run& about) {
  std::string out, start;
  put_name(out, id_of_run, run.id);
  put_name(out, team_of_run, run.team);
  put_name(out, project_of_run, run.project);
  put_bytes(out, config_of_run, settings_message(about, true));
  put_name(out, group_of_run, run.group);
  put_name(out, name_of_run, about.name);
  put_name(out, host_of_run, run.host);
  const double whole = std::floor(run.begin_s);
  put_number(start, 1, static_cast<uint64_t>(whole));
  put_number(start, 2, static_cast<uint64_t>((run.begin_s - whole) * 1e9));
  put_bytes(out, start_of_run, start);
  return numbered(number, record_run, out);
}

std::string wandb_axis_record(uint64_t number) {
  std::string options, metric;
  put_integer(options, 3, 1);  // MetricOptions.defined
  put_bytes(metric, 1, axis_name);
  put_bytes(metric, 6, options);
  return numbered(number, record_metric, metric);
}

std::string wandb_curves_record(uint64_t number) {
  std::string options, metric;
  put_integer(options, 1, 1);  // MetricOptions.step_sync
  put_integer(options, 3, 1);  // MetricOptions.defined
  put_bytes(metric, 2, "*");
  put_bytes(metric, 4, axis_name);
  put_bytes(metric, 6, options);
  return numbered(number, record_metric, metric);
}

std::string wandb_settings_record(uint64_t number, const tracked_run& about) {
  return numbered(number, record_config, settings_message(about, false));
}

std::string wandb_end_record(uint64_t number, verdict how, double seconds) {
  std::string out;
  put_number(out, 1, how == verdict::done ? code_done : how == verdict::failed ? code_failed : code_stopped);
  put_number(out, 2, static_cast<uint64_t>(std::max(0.0, seconds)));
  return numbered(number, record_exit, out);
}

std::string wandb_history_record(uint64_t number, const wandb_row& row) {
  std::string out = row_items(row), step;
  put_number(step, 1, row.row);
  put_bytes(out, 2, step);
  return numbered(number, record_history, out);
}

std::string wandb_summary_record(uint64_t number, const wandb_row& row) {
  return numbered(number, record_summary, row_items(row));
}

std::string wandb_number(double x) {
  if (std::isfinite(x)) return json_number(x);
  return std::isnan(x) ? "NaN" : x > 0 ? "Infinity" : "-Infinity";
}

std::string wandb_setting(std::string_view yaml) {
  const bool is_quoted = yaml.size() >= 2 && yaml.front() == '"' && yaml.back() == '"';  // JSON as well
  if (yaml == "true" || yaml == "false" || is_quoted) return valid_utf8(yaml);
  if (const auto whole = core::number_of<int64_t>(yaml)) return fmt::to_string(*whole);
  if (const auto number = core::number_of<double>(yaml); number && std::isfinite(*number)) return json_number(*number);
  return core::json_string(yaml);
}

std::optional<wandb_kept> wandb_kept_of(std::istream& in, uint64_t last) {
  record_reader reader(in);
  if (!reader.begins()) return std::nullopt;
  wandb_kept out;
  while (const auto record = reader.next()) {
    if (field_in(*record, record_exit).number != 0) break;
    if (const auto history = field_in(*record, record_history); history.number != 0) {
      if (const auto samples = samples_of(history.bytes); samples && *samples > last) break;
      ++out.rows;
    }
    if (const auto run = field_in(*record, record_run); run.number != 0 && out.id.empty()) {
      out.id = field_in(run.bytes, id_of_run).bytes;
      const auto start = field_in(run.bytes, start_of_run).bytes;
      out.begin_s = double(field_in(start, 1).integer) + double(field_in(start, 2).integer) / 1e9;
    }
    ++out.records;
    out.bytes = reader.bytes();
  }
  return out.id.empty() ? std::nullopt : std::optional(out);
}

}  // namespace troupe::telemetry
