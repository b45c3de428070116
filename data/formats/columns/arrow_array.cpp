#include "data/formats/columns/arrow_array.hpp"

#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/text.hpp"
#include "core/utf8.hpp"
#include "data/formats/row_files.hpp"

namespace troupe::data {
namespace {

using arrow_value = nlohmann::ordered_json;

/// Bytes that a value counts as at least, so that a small file cannot hold any number of empty lists and nulls.
constexpr uint64_t least_value_bytes = 8;

tl::unexpected<core::error> wrong_array(const arrow_field& field, const std::string& why) {
  return core::refused(fmt::format("'{}': {}", core::shown(field.name), why));
}

/// Subtracts the bytes of a value from those that are left.
core::result<void> charge(value_budget& left, uint64_t bytes) {
  if (bytes > left.all)
    return fail(error_kind::limit,
                "it holds more values than the bytes that remain of data.max_bytes (--max-bytes): raise it");
  if (bytes > left.row)
    return fail(error_kind::limit, fmt::format("a row has more than the {} bytes that are read", max_row_bytes));
  left.all -= bytes;
  left.row -= bytes;
  return {};
}

/// Largest number of values of a field in a batch; a larger one is no number that a writer has counted.
constexpr uint64_t most_values = uint64_t{1} << 56;

/// Returns the bytes that `values` values, at most most_values, need in the buffer of numbers.
uint64_t bytes_needed(const arrow_field& field, uint64_t values) {
  switch (field.kind) {
    case arrow_kind::boolean:
      return (values + 7) / 8;
    case arrow_kind::integer:
    case arrow_kind::floating:
      return values * field.width;
    case arrow_kind::text:
    case arrow_kind::list:
      return (values + 1) * field.width;
    case arrow_kind::view:
      return values * view_bytes;
    case arrow_kind::null:
    case arrow_kind::fixed_list:
    case arrow_kind::structure:
      break;
  }
  return 0;
}

}  // namespace

core::result<arrow_array> arrow_array::open(const arrow_batch& batch, const arrow_field& field) {
  arrow_array out;
  out.field_ = &field;
  TROUPE_ASSIGN(out.values_, batch.values(field.node));
  if (out.values_ > 0 && field.kind != arrow_kind::null) TROUPE_TRY(out.open_buffers(batch, field));
  for (const auto& member : field.members) {
    TROUPE_ASSIGN(auto opened, open(batch, member));
    out.members_.push_back(std::move(opened));
  }
  return out;
}

core::result<void> arrow_array::open_buffers(const arrow_batch& batch, const arrow_field& field) {
  TROUPE_ASSIGN(const auto at, batch.find(field.first_buffer, field.views_before, field.kind == arrow_kind::view));
  const uint64_t first = at.first_buffer;
  TROUPE_ASSIGN(validity_, batch.buffer(first));
  if (values_ > most_values) return wrong_array(field, fmt::format("{} values in a batch", values_));
  if (validity_.size() > 0 && validity_.size() < (values_ + 7) / 8)
    return wrong_array(
        field, fmt::format("{} bytes are too few to mark which of {} values are null", validity_.size(), values_));
  const uint64_t needed = bytes_needed(field, values_);
  if (needed == 0) return {};
  TROUPE_ASSIGN(numbers_, batch.buffer(first + 1));
  if (numbers_.size() < needed)
    return wrong_array(field, fmt::format("{} bytes are too few for {} values", numbers_.size(), values_));
  if (field.kind == arrow_kind::text) {
    TROUPE_ASSIGN(bytes_, batch.buffer(first + 2));
  } else if (field.kind == arrow_kind::view) {
    views_.emplace(at.text_buffers, [&batch, first](uint64_t i) { return batch.buffer(first + 2 + i); });
  }
  return {};
}

core::result<bool> arrow_array::is_null(uint64_t i) {
  if (field_->kind == arrow_kind::null) return true;
  if (validity_.size() == 0) return false;
  TROUPE_ASSIGN(const auto bits, validity_.read(i / 8, 1));
  return (static_cast<unsigned>(bits.front()) >> (i % 8) & 1U) == 0;
}

core::result<nlohmann::ordered_json> arrow_array::value(uint64_t i, value_budget& left) {
  if (i >= values_) return wrong_array(*field_, fmt::format("it has {} values, wanted number {}", values_, i));
  TROUPE_TRY(charge(left, least_value_bytes));
  TROUPE_ASSIGN(const bool is_missing, is_null(i));
  if (is_missing) return arrow_value();
  switch (field_->kind) {
    case arrow_kind::null:
      return arrow_value();
    case arrow_kind::boolean:
    case arrow_kind::integer:
    case arrow_kind::floating:
      return number(i);
    case arrow_kind::text:
    case arrow_kind::view:
      return text(i, left);
    case arrow_kind::list:
    case arrow_kind::fixed_list:
      return list(i, left);
    case arrow_kind::structure:
      break;
  }
  auto out = arrow_value::object();
  for (size_t m = 0; m < members_.size(); ++m) {
    TROUPE_ASSIGN(out[field_->members[m].name], members_[m].value(i, left));
  }
  return out;
}

core::result<nlohmann::ordered_json> arrow_array::number(uint64_t i) {
  if (field_->kind == arrow_kind::boolean) {
    TROUPE_ASSIGN(const auto bits, numbers_.read(i / 8, 1));
    return arrow_value((static_cast<unsigned>(bits.front()) >> (i % 8) & 1U) != 0);
  }
  if (field_->kind == arrow_kind::integer) {
    TROUPE_ASSIGN(const int64_t value, numbers_.integer(i, field_->width, field_->is_signed));
    return field_->is_signed ? arrow_value(value) : arrow_value(static_cast<uint64_t>(value));
  }
  TROUPE_ASSIGN(const auto bytes, numbers_.read(i * field_->width, field_->width));
  if (field_->width == sizeof(double)) {
    double value = 0;
    std::memcpy(&value, bytes.data(), sizeof value);
    return arrow_value(value);
  }
  float value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  return arrow_value(value);
}

core::result<nlohmann::ordered_json> arrow_array::text(uint64_t i, value_budget& left) {
  std::string out;
  if (views_) {
    TROUPE_ASSIGN(const auto view, numbers_.read(i * view_bytes, view_bytes));
    TROUPE_ASSIGN(const auto found, views_->text(view));
    TROUPE_TRY(charge(left, found.size()));
    out = std::string(found);
  } else {
    TROUPE_ASSIGN(const int64_t begin, numbers_.integer(i, field_->width, true));
    TROUPE_ASSIGN(const int64_t end, numbers_.integer(i + 1, field_->width, true));
    if (begin < 0 || end < begin || static_cast<uint64_t>(end) > bytes_.size())
      return wrong_array(*field_, fmt::format("text {} has the offsets {} and {}, but there are {} bytes", i, begin,
                                              end, bytes_.size()));
    const auto size = static_cast<uint64_t>(end - begin);
    TROUPE_TRY(charge(left, size));
    if (size > 0) {
      TROUPE_ASSIGN(const auto found, bytes_.read(static_cast<uint64_t>(begin), size));
      out.assign(reinterpret_cast<const char*>(found.data()), found.size());
    }
  }
  if (!core::is_utf8(out)) return wrong_array(*field_, fmt::format("text {} is not UTF-8", i));
  return arrow_value(std::move(out));
}

core::result<nlohmann::ordered_json> arrow_array::list(uint64_t i, value_budget& left) {
  auto& items = members_.front();
  uint64_t begin = 0, end = 0;
  if (field_->kind == arrow_kind::fixed_list) {
    const uint64_t each = field_->list_items;
    if (each > 0 && i >= items.values_ / each)
      return wrong_array(*field_, fmt::format("list {} of {} items lies beyond the {} items", i, each, items.values_));
    begin = i * each;
    end = begin + each;
  } else {
    TROUPE_ASSIGN(const int64_t from, numbers_.integer(i, field_->width, true));
    TROUPE_ASSIGN(const int64_t to, numbers_.integer(i + 1, field_->width, true));
    if (from < 0 || to < from || static_cast<uint64_t>(to) > items.values_)
      return wrong_array(*field_, fmt::format("list {} has the offsets {} and {}, but there are {} items", i, from, to,
                                              items.values_));
    begin = static_cast<uint64_t>(from);
    end = static_cast<uint64_t>(to);
  }
  auto out = arrow_value::array();
  for (uint64_t at = begin; at < end; ++at) {
    TROUPE_ASSIGN(auto item, items.value(at, left));
    out.push_back(std::move(item));
  }
  return out;
}

}  // namespace troupe::data
