#include "telemetry/analysis/trace_events.hpp"

#include <fmt/format.h>

#include <cmath>
#include <istream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/number.hpp"
#include "core/text.hpp"
#include "telemetry/analysis/packed_stream.hpp"

namespace troupe::telemetry {
namespace {

/// Largest magnitude of a time in microseconds: 292 years in nanoseconds.
constexpr double max_us = 9.2e15;

// Returns microseconds, as the file writes them, in nanoseconds without the rounding of a double; empty if the text is
// no number or the time is too large.
std::optional<int64_t> ns_of(std::string_view us) {
  const bool is_negative = us.starts_with('-');
  const std::string_view digits = us.substr(is_negative ? 1 : 0);
  const std::string_view whole = digits.substr(0, digits.find('.'));
  std::string fraction = whole.size() < digits.size() ? std::string(digits.substr(whole.size() + 1)) : "";
  const auto about = core::number_of<double>(us);
  if (!about || !(std::abs(*about) < max_us)) return std::nullopt;
  if (us.find_first_of("eE") != us.npos) return std::llround(*about * 1e3);
  fraction.resize(3, '0');
  int64_t ns = 0;
  for (const char c : std::string(whole) + fraction) ns = ns * 10 + (c - '0');
  return is_negative ? -ns : ns;
}

// Receives the values of a trace and assembles its events. Values that no member of trace_event keeps are dropped as
// they arrive.
class event_assembler : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit event_assembler(const std::function<core::result<void>(const trace_event&)>& each) : each_(each) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t x) override { return number(fmt::to_string(x), std::nullopt); }
  bool number_unsigned(number_unsigned_t x) override { return number(fmt::to_string(x), x); }
  bool number_float(number_float_t, const string_t& text) override { return number(text, std::nullopt); }
  bool string(string_t& x) override {
    text(x);
    return true;
  }
  bool binary(nlohmann::json::binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    ++depth_;
    if (in_events_ && depth_ == event_depth()) event_ = {};
    return true;
  }
  bool key(string_t& x) override {
    if (depth_ == 1) root_key_ = x;
    if (in_events_ && depth_ == event_depth()) event_key_ = x;
    inner_key_ = x;
    return true;
  }
  bool end_object() override {
    const bool is_event = in_events_ && depth_ == event_depth();
    --depth_;
    if (!is_event) return true;
    ++head.events;
    if (auto ok = each_(event_); !ok) fault = std::move(ok).error();
    return !fault;
  }
  bool start_array(std::size_t) override {
    ++depth_;
    if (depth_ == 1 || (depth_ == 2 && !root_is_array_ && root_key_ == "traceEvents")) {
      root_is_array_ = root_is_array_ || depth_ == 1;
      in_events_ = has_events = true;
    }
    if (in_args(1)) list_.clear();
    return true;
  }
  bool end_array() override {
    if (in_args(1)) take_list();
    --depth_;
    if (in_events_ && depth_ + 1 == event_depth() - 1) in_events_ = false;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& e) override {
    broken = fmt::format("broken JSON at byte {}: {}", position, core::shown(e.what()));
    return false;
  }

  trace_head head;
  bool has_events = false;
  std::optional<core::error> fault;   // of the receiver of an event
  std::optional<std::string> broken;  // reason why the text is no JSON

 private:
  [[nodiscard]] size_t event_depth() const { return root_is_array_ ? 2 : 3; }
  // True within the object `args` of an event, `more` levels deeper.
  [[nodiscard]] bool in_args(size_t more) const {
    return in_events_ && depth_ == event_depth() + 1 + more && event_key_ == "args";
  }

  bool number(const std::string& written, std::optional<uint64_t> x) {
    if (!in_events_) {
      if (depth_ == 2 && root_key_ == "distributedInfo" && inner_key_ == "rank") head.rank = x;
      if (depth_ == 1 && root_key_ == "baseTimeNanoseconds" && x && *x <= uint64_t(std::numeric_limits<int64_t>::max()))
        head.base_ns = static_cast<int64_t>(*x);
      return true;
    }
    if (depth_ == event_depth()) {
      if (event_key_ == "pid") event_.process = written;
      if (event_key_ == "tid") event_.thread = written;
      if (event_key_ == "ts") event_.at_ns = ns_of(written);
      if (event_key_ == "dur") event_.length_ns = ns_of(written);
      return true;
    }
    constexpr uint32_t no_number = std::numeric_limits<uint32_t>::max();  // a number that no instruction has
    if (in_args(1)) list_.push_back(x && *x < no_number ? static_cast<uint32_t>(*x) : no_number);
    if (!in_args(0)) return true;
    if (inner_key_ == "step") event_.step = x;
    if (inner_key_ == "id") event_.id = x;
    if (inner_key_ == "bytes") event_.bytes = x;
    if (inner_key_ == "stage") event_.stage = x;
    if (inner_key_ == "correlation") event_.correlation = x;
    if (inner_key_ == "stream") event_.stream = written;
    return true;
  }

  void text(const std::string& x) {
    if (!in_events_) return;
    if (depth_ == event_depth()) {
      if (event_key_ == "name") event_.name = x;
      if (event_key_ == "cat") event_.category = x;
      if (event_key_ == "ph") event_.phase = x;
      if (event_key_ == "pid") event_.process = x;
      if (event_key_ == "tid") event_.thread = x;
    }
    if (!in_args(0)) return;
    if (inner_key_ == "Collective name") event_.collective_name = x;
    if (inner_key_ == "Process Group Name") event_.group = x;
    if (inner_key_ == "name") event_.given_name = x;
    if (inner_key_ == "stream") event_.stream = x;
  }

  void take_list() {
    if (inner_key_ == "after") event_.after = list_;
    if (inner_key_ == "collective" && list_.size() == 2) event_.collective = std::pair(list_[0], list_[1]);
  }

  const std::function<core::result<void>(const trace_event&)>& each_;
  trace_event event_;
  std::string root_key_, event_key_, inner_key_;
  std::vector<uint32_t> list_;
  size_t depth_ = 0;
  bool root_is_array_ = false, in_events_ = false;
};

}  // namespace

core::result<trace_head> read_events(const std::filesystem::path& path,
                                     const std::function<core::result<void>(const trace_event&)>& each) {
  TROUPE_ASSIGN(const auto bytes, packed_stream::open(path));
  std::istream in(bytes.get());
  event_assembler assembler(each);
  const bool done = nlohmann::json::sax_parse(in, &assembler);
  if (bytes->fault()) return core::fail(*bytes->fault());
  if (assembler.fault) return core::fail(*std::move(assembler.fault));
  if (assembler.broken) return core::refused(fmt::format("'{}': {}", path.string(), *assembler.broken));
  if (!done || !assembler.has_events)
    return core::refused(
        fmt::format("'{}': wanted a trace, an object with 'traceEvents' as troupe train and "
                    "torch.profiler write it; the file has none",
                    path.string()));
  return assembler.head;
}

}  // namespace troupe::telemetry
